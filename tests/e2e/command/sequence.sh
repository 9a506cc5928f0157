#!/usr/bin/env bash
# sequence.sh ATTNFUZZ BUG: runs attnfuzz sequence on right kernels, follows a failure of BUG, a kernel with a bug
# between calls, through reduction and replay, and checks that bad files are refused.
set -u
attnfuzz=$1 bug=$2
source "$(dirname "$0")/../scratch.sh"

"$attnfuzz" sequence cache splitk --cases 20 --out "$out/found" >"$out/right.log" 2>&1 || die "right kernels: $(cat "$out/right.log")"
grep -q '^cache, splitk: 20 sequences, .* passed' "$out/right.log" || die "no line of the run: $(cat "$out/right.log")"
[ -e "$out/found" ] && die "a run without a failure left files"
grep -q 'refuses it' "$out/right.log" && die "our kernels refuse calls: $(cat "$out/right.log")"

"$attnfuzz" sequence cache --cases 5 >"$out/alone.log" 2>&1 || die "cache alone: $(cat "$out/alone.log")"
grep -q 'not run: forward: no kernel given has it on pages' "$out/alone.log" || die "what was left out is not said"

"$attnfuzz" sequence "$bug" --seed 2 --out "$out/found" >"$out/bug.log" 2>&1
[ $? -eq 1 ] || die "the bug was not found: $(cat "$out/bug.log")"
[ "$(wc -l <"$out/bug.log")" -le 25 ] || die "a failure of more than 25 lines"
file=$(ls "$out"/found/*.calls.json)
grep -qxF "  replay: attnfuzz sequence $bug --replay $file" "$out/bug.log" || die "no replay line: $(cat "$out/bug.log")"
eval "\"\$attnfuzz\" $(sed -n 's/^  replay: attnfuzz //p' "$out/bug.log")" >"$out/again.log" 2>&1
[ $? -eq 1 ] || die "the file does not fail again: $(cat "$out/again.log")"
# The address of a crash differs between processes.
failure() { sed -n '/^FAIL/s/address 0x[0-9a-f]*/address/p; /^FAIL/{/address/!p}' "$1"; }
[ "$(failure "$out/again.log")" = "$(failure "$out/bug.log")" ] || die "the replay fails in another way"
"$attnfuzz" sequence --replay "$file" cache >"$out/right.log" 2>&1 || die "a right kernel fails: $(cat "$out/right.log")"

sed 's/"steps"/"stepz"/' "$file" >"$out/bad.calls.json"
"$attnfuzz" sequence --replay "$out/bad.calls.json" cache >"$out/bad.log" 2>&1
[ $? -eq 2 ] || die "an unknown field was not refused"
grep -q "unknown field 'stepz'" "$out/bad.log" || die "the unknown field is not named: $(cat "$out/bad.log")"
"$attnfuzz" sequence merge >"$out/bad.log" 2>&1
[ $? -eq 2 ] || die "a kernel without a call on pages was not refused"

echo '{}' >"$out/bad.calls.json"
"$attnfuzz" sequence --replay "$out/bad.calls.json" cache >"$out/bad.log" 2>&1
[ $? -eq 2 ] || die "a file without a version was not refused"
grep -q "has no field 'attnfuzz_calls'" "$out/bad.log" || die "it is not said what the file lacks: $(cat "$out/bad.log")"
echo '{"attnfuzz_calls": 1, "steps": []}' >"$out/empty.calls.json"
"$attnfuzz" sequence --replay "$out/empty.calls.json" cache >"$out/empty.log" 2>&1
[ $? -eq 1 ] || die "a file without calls passed"
grep -q 'nothing was judged' "$out/empty.log" && ! grep -q passed "$out/empty.log" || die "it is not said that nothing was judged"

# The replay of a failure does not pass if the call that failed is not made, whatever else is judged. An older file does
# not say which call it was.
replays() {  # STATUS WORDS FOUND KERNEL...
  local due=$1 words=$2
  sed 's/"attnfuzz_calls"/"found": {'"$3"'}, &/' "$out/attend.calls.json" >"$out/found.calls.json"
  "$attnfuzz" sequence --replay "$out/found.calls.json" "${@:4}" >"$out/found.log" 2>&1
  [ $? -eq "$due" ] && grep -q -- "$words" "$out/found.log" || die "$3 with ${*:4}: $(cat "$out/found.log")"
}
echo '{"attnfuzz_calls": 1, "steps": [{"do": "new", "sequences": [0]}, {"do": "append", "sequences": [0], "count": 1},
  {"do": "attend", "sequences": [0], "count": 1}]}' >"$out/attend.calls.json"
"$attnfuzz" sequence --replay "$out/attend.calls.json" cache >"$out/found.log" 2>&1 || die "no failure is known of it"
replays 0 passed '"kind": "wrong", "call": "forward"' cache splitk
replays 1 'the call that failed was not made: forward: no kernel given has it' '"kind": "wrong", "call": "forward"' cache
replays 0 passed '"kind": "wrong", "call": "append"' cache
replays 1 'the call that failed may not have been made: forward' '"kind": "wrong"' cache
