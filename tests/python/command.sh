#!/usr/bin/env bash
# command.sh ATTNFUZZ PYTHON: targets in Python through the command, found, told and replayed.
set -u
attnfuzz=$1
export ATTNFUZZ_PYTHON=$2
targets=$(cd "$(dirname "$0")" && pwd)/targets.py
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
die() {
  echo "$*"
  cat "$out/log"
  exit 1
}
check() {
  "$attnfuzz" check "$targets:$1" --jobs 2 -v --out "$out/$1" --json "$out/$1.json" "${@:2}" >"$out/log" 2>&1
}

check right --cases 150 || die "the right one does not hold"
check into_out --cases 60 || die "one that writes into out= does not hold"

# A function that prints more than a pipe holds still passes.
check chatty --cases 20 || die "one that prints much does not hold"

# Without ml_dtypes bf16 is left out, and that is said; with it there is nothing to say.
check no_bits --cases 40 || die "one that reads no bits does not hold"
if "$ATTNFUZZ_PYTHON" -c 'import ml_dtypes' 2>/dev/null; then
  grep -q 'bf16 is left out' "$out/log" && die "bf16 is left out where ml_dtypes is"
else
  grep -q 'note: bf16 is left out' "$out/log" || die "that bf16 is left out is not said"
  grep -q 'bf16 [1-9][0-9.]* %' "$out/log" && die "bf16 was drawn all the same"
fi

# Another operation than the forward pass.
check merged --cases 100 || die "a merge of two results does not hold"
check merged_unguarded --cases 100 --reduce-seconds 10 && die "a merge that gives NaN where neither side saw a key was not found"
grep -q 'sides with keys' "$out/log" || die "the reduced case does not say which sides saw keys"

# Sinks, slopes, a V that is a part of K, and 576 columns: for a function that names them.
check with_more --cases 150 || die "one with sinks and slopes does not hold"
grep -q ' sinks [1-9]' "$out/log" && grep -q ' slopes [1-9]' "$out/log" || die "no sinks or slopes were drawn"
check latent --cases 30 || die "one of 576 columns does not hold"
grep -q 'refused 0.0 %' "$out/log" && grep -q ' causal [1-9]' "$out/log" || die "little is drawn for one of 576 columns"
check scales_sinks --cases 150 --reduce-seconds 3 && die "scaled sinks were not found"
check scales_slopes --cases 150 --reduce-seconds 3 && die "scaled slopes were not found"

# Packed entries: a function that takes them all, one that takes nothing else, and one that writes their rows alone.
for target in packed varlen packed_into packed_dlpack; do
  check $target --cases 150 --property reference --property layout || die "the packed $target does not hold"
  grep -q ' packed queries [1-9]' "$out/log" || die "no packed entries were drawn for $target"
  grep -q 'refused 0.0 %' "$out/log" || die "cases of $target were refused"
done
for target in writes_slack keys_by_queries longest_is_length; do
  check $target --cases 300 --property reference --reduce-seconds 3 && die "the mistake of $target was not found"
  sed -n '/^FAIL/,/^replay/p' "$out/log" | grep -q 'packed queries' || die "the reduced case of $target does not say that it is packed"
done

# Keys in pages, likewise.
for target in paged paged_decode pages_alone paged_dlpack; do
  check $target --cases 150 --property reference --property paged_gathered || die "$target, with keys in pages, does not hold"
  grep -q ' pages [1-9]' "$out/log" || die "no pages were drawn for $target"
  grep -q 'refused 0.0 %' "$out/log" || die "cases of $target were refused"
done
for target in pages_of_first page_by_page; do
  check $target --cases 300 --property reference --reduce-seconds 3 && die "the mistake of $target was not found"
  sed -n '/^FAIL/,/^replay/p' "$out/log" | grep -q 'pages of' || die "the reduced case of $target does not say that it has pages"
done

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

check_example() {
  "$attnfuzz" check "$(dirname "$targets")/../../examples/mine.py:mine" --cases 100 --out "$out/mine" >"$out/log" 2>&1
}
check_example || die "the example does not hold"

# In fp32: what rounds factors to TF32 is found, and reduced, unless it says so.
for target in right_fp32 any_format declared_tf32; do
  check $target --cases 100 || die "$target does not hold"
  grep -q 'fp32 [1-9]' "$out/log" || die "$target was not drawn in fp32"
done
check secret_tf32 --cases 20 --reduce-seconds 10 && die "TF32 that is not declared was not found"
grep -q '^  B=1 H=1/1 .* f32' "$out/log" || die "TF32 that is not declared was not reduced"

# A declaration is drawn within: nearly all is judged.
check narrow --cases 60 || die "the narrow one does not hold"
"$ATTNFUZZ_PYTHON" - "$out/narrow.json" <<'END' || die "more than 5 % of the narrow one's cases were refused"
import json, sys
every = json.load(open(sys.argv[1]))["all"]
sys.exit(every["rejected"] > 0.05 * every["cases"])
END

# A function declares the layout of its tensors and the kind of its LSE.
check laid --cases 120 || die "one that says how tensors lie does not hold"
check secret_base --cases 20 --reduce-seconds 3 && die "an LSE of base 2 that is not declared was not found"

# One for finite numbers alone is not asked for others; NaN beyond a length is nobody's to read.
replayed() {
  echo '{"format": 1, "problem": {"seq_q": 2, "seq_k": 3, "key_lengths": [2]}, "env": {"variant": 0}, '"$1"'}' >"$out/numbers.case.json"
  "$attnfuzz" replay "$out/numbers.case.json" --kernel "$targets:finite" >"$out/log" 2>&1
}
replayed '"planted": [{"tensor": "k", "s": 1, "bits": "0x7c00"}]' && die "a refusal passed"
grep -q 'refused: declared for finite numbers, and k holds' "$out/log" || die "an infinity was not refused"
replayed '"planted": [{"tensor": "k", "s": 2, "bits": "0x7c00"}], "nan_beyond_lengths": true' && grep -q '^  pass' "$out/log" ||
  die "what nobody may read was looked at"

# Problems that a function refuses only when it runs are found out. The limits are printed to be pasted, and cases are drawn within them.
"$attnfuzz" limits "$targets:says_nothing" --cases 100 >"$out/log" 2>&1 || die "limits: less than 95 % of what was found is taken"
grep -qxF 'attnfuzz.Domain(dim={32, 64}, equal_lengths=True, equal_dims=True, causal=False, key_lengths=False, bias=False, mask=False)' "$out/log" ||
  die "limits: the declaration to paste is another"

# Also of what takes nothing small more than the least is drawn, and it is reduced inside of what it takes.
check large_at_least --cases 60 --reduce-seconds 5 && die "what is wrong from the second size on was not found"
grep -q '^  B=1 H=3/3 S=96/96 D=80/80 .* causal' "$out/log" || die "it was not reduced to the second size"

# A wrong one is found, reduced to a second tile, and replayed by the line that is printed.
check off_by_one --cases 300 --reduce-seconds 15 && die "the planted bug was not found"
grep -q '^  B=1 H=1/1 S=[0-9]*/6[5-9] D=1/1 f16 causal' "$out/log" || die "the planted bug was not reduced"
line=$(sed -n 's/^replay: attnfuzz //p' "$out/log")
[ "${line##* --kernel }" = "$targets:off_by_one" ] || die "the replay line does not name the function: $line"
eval "\"\$attnfuzz\" $line" >"$out/log" 2>&1
[ $? -eq 1 ] || die "the reproducer does not fail again"
# A file is Python that would be run: only for whoever names it.
"$attnfuzz" replay "${line%% --kernel*}" >/dev/null 2>&1 && die "replay runs what a file names"

ends() {
  check "$1" --cases 40 --reduce-seconds 0.2 "${@:3}"
  [ $? -eq 1 ] || die "$1: not found"
  grep -q "^FAIL ([a-z_]*, $2" "$out/log" || die "$1: not told as '$2'"
}
ends segfaults "crash): .*SIGSEGV in run(), null pointer (0x8)"
ends raises "fault): raised ValueError: sixty-five (targets.py:"
ends exits "fault): called sys.exit(3) (targets.py:"
ends leaves "crash): .*exit status 7 in run()"
ends hangs "hang)" --watchdog 0.3

# A compiler takes longer than a call may, and may not take for ever; what is compiled serves 32 cases.
check compiles_slowly --cases 20 --watchdog 0.5 --domain f16 || die "a compiler's time counts as a call's"
ends compiles_for_ever "hang)" --watchdog 0.05 --domain f16

# Memory that a library allocates itself is poison until it is written, and has redzones.
ends reads_fresh "non-finite)"
ends writes_past "crash): .*SIGABRT in run()"

# A file that cannot be loaded is reported in Python's words, with status 2.
refused() {
  "$attnfuzz" check "$1" >"$out/log" 2>&1
  [ $? -eq 2 ] && grep -qF "$2" "$out/log" || die "$1 is not refused with '$2'"
}
echo "import nothing_of_this_name" >"$out/broken.py"
echo "x = 1" >"$out/empty.py"
refused "$out/broken.py" "raised ModuleNotFoundError: No module named 'nothing_of_this_name' (broken.py:1)"
refused "$out/empty.py" "has no targets"
refused "$targets:nobody" "has no kernel 'nobody'"
"$attnfuzz" check "$targets:right" --build asan >"$out/log" 2>&1
[ $? -eq 2 ] && grep -q "is Python" "$out/log" || die "a sanitizer's build is not refused"
ATTNFUZZ_PYTHON=/nowhere/python3 "$attnfuzz" check "$targets:right" >"$out/log" 2>&1
[ $? -eq 2 ] && grep -q "cannot start /nowhere/python3" "$out/log" || die "a Python that is not there is not told"
exit 0
