#!/usr/bin/env bash
# What a function declares, and limits that it has not declared.
set -u
. "$(dirname "$0")/tools.sh"

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
exit 0
