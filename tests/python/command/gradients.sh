#!/usr/bin/env bash
# Backward passes.
set -u
. "$(dirname "$0")/tools.sh"

# A backward pass, from the O and LSE that it is given, and as the derivative of a function that computes them itself.
for target in backward backward_recomputed by_name into_gradients of_base_2; do
  check $target --cases 80 || die "the backward pass $target does not hold"
done
check plain_backward --cases 100 || die "a backward pass that takes little does not hold"
"$ATTNFUZZ_PYTHON" - "$out/plain_backward.json" <<'END' || die "more than 5 % of its cases were refused"
import json, sys
every = json.load(open(sys.argv[1]))["all"]
sys.exit(every["rejected"] > 0.05 * every["cases"])
END
"$attnfuzz" limits "$targets:says_nothing_of_gradients" --cases 100 >"$out/log" 2>&1 || die "limits: less than 95 % of what was found is taken"
grep -qxF 'attnfuzz.Domain(equal_lengths=True, causal=False, key_lengths=False, bias=False, mask=False)' "$out/log" ||
  die "limits: the declaration of a backward pass is another"
check no_delta --cases 40 --reduce-seconds 8 && die "a backward pass without D was not found"
grep -q '^FAIL ([a-z_]*, wrong): d[qkQK]' "$out/log" || die "it is not said which gradient is wrong"
line=$(sed -n 's/^replay: attnfuzz //p' "$out/log")
eval "\"\$attnfuzz\" $line" >"$out/log" 2>&1
[ $? -eq 1 ] || die "the reproducer of a backward pass does not fail again"
check own_forward --cases 100 --reduce-seconds 3 && die "a backward pass that computes O itself was not found"
check no_dk --cases 5 --reduce-seconds 1 && die "a gradient that was not returned was not missed"
grep -q 'raised TypeError: the target returned no dK' "$out/log" || die "it is not said which gradient is missing"

# Keys that stand for blocks.
check blocks_backward --cases 100 || die "a backward pass with keys that stand for blocks does not hold"
check blocks_backward_early --cases 200 --reduce-seconds 3 && die "blocks that are seen early in dK were not found"

# Gradients of packed entries.
for target in packed_backward packed_nan packed_gradients_into; do
  check $target --cases 100 --property reference --property layout --property bwd_packed_alone || die "$target does not hold"
  grep -q ' packed queries [1-9]' "$out/log" || die "no packed entries were drawn for $target"
  grep -q 'refused 0.0 %' "$out/log" || die "cases of $target were refused"
done
for target in writes_slack_of_dk dk_by_queries; do
  check $target --cases 200 --property reference --reduce-seconds 3 && die "the mistake of $target was not found"
  sed -n '/^FAIL/,/^replay/p' "$out/log" | grep -q 'packed' || die "the reduced case of $target does not say that it is packed"
done

# dLSE, dbias and dsink.
for target in more_gradients more_in_order more_by_name more_into all_gradients; do
  check $target --cases 100 --property reference --property layout || die "$target does not hold"
  grep -q 'refused 0.0 %' "$out/log" || die "cases of $target were refused"
done
for target in no_dlse:d[qkQK] dbias_of_first:dbias dsink_up:dsink; do
  name=${target%:*}
  check $name --cases 200 --property reference --reduce-seconds 3 && die "the mistake of $name was not found"
  grep -q "^FAIL ([a-z_]*, wrong): ${target#*:}" "$out/log" || die "it is not said which gradient of $name is wrong"
done
says() { # NAME WORDS
  check $1 --cases 100 --property reference --reduce-seconds 1 && die "the mistake of $1 was not found"
  grep -q "raised TypeError: the target returned $2" "$out/log" || die "it is not said what $1 returned"
}
says always_dsink 'dsink, for which this call does not ask; it asks for dq, dk, dv'
says no_dbias 'no dbias'
says dbias_in_full 'a dbias of shape'

# Gradients over listed blocks.
check selected_backward --cases 150 || die "gradients over listed blocks do not hold"
grep -q 'refused 0.0 %' "$out/log" || die "lists of blocks were refused"
for target in gradients_of_block_0 selected_without_dlse; do
  check $target --cases 300 --property reference --reduce-seconds 3 && die "the mistake of $target was not found"
  grep -q '^FAIL ([a-z_]*, [a-z-]*): d[qkvQKV]' "$out/log" || die "it is not said which gradient of $target is wrong"
done
exit 0
