#!/usr/bin/env bash
# green.sh ATTNFUZZ FAKES: checks that a check ends with status 0 only if its cases were
# judged and passed. FAKES is the folder of the fake kernels.
#
# Failures that come only once, kernels that kill their parent, plans whose bounds let
# everything pass, and an interrupt do not pass. The text, JSON and JUnit name each.
set -u
attnfuzz=$1 fakes=$2
out=$(mktemp -d)
job=
trap '[ -n "$job" ] && kill -9 "$job" 2>/dev/null; rm -rf "$out"' EXIT
bad=0
complain() {
  echo "$*"
  tail -n 20 "$out/log"
  bad=$((bad + 1))
}

# ends STATUS SENTENCE ARGUMENTS...: checks the status and the output of a check in a new folder.
ends() {
  local wanted=$1 sentence=$2 status
  shift 2
  rm -rf "$out/found" "$out/check.json" "$out/check.xml"
  "$attnfuzz" check "$@" --jobs 2 --allow-stale --out "$out/found" --json "$out/check.json" --junit "$out/check.xml" \
    >"$out/log" 2>&1 </dev/null
  status=$?
  [ "$status" -eq "$wanted" ] || complain "check $*: status $status, wanted $wanted"
  grep -qF -- "$sentence" "$out/log" || complain "check $*: it does not say: $sentence"
}
# says SENTENCE FILE...: checks that each file has the sentence.
says() {
  local sentence=$1 file
  shift
  for file in "$@"; do grep -qF -- "$sentence" "$file" || complain "$(basename "$file") does not say: $sentence"; done
}

ends 0 "floors of the draw: kept" "$fakes/attention.so:right" --cases 1000 -v
says '"status":"held"' "$out/check.json"
grep -q '<failure' "$out/check.xml" && complain "the JUnit file of a right kernel has a failure"

# By default a kernel that passes has one line, and lines for what was left out.
ends 0 "right  cpu plain: 60 cases, " "$fakes/attention.so:right" --cases 60
[ "$(grep -vcE '^  (left out|assumed|note|tiles)' "$out/log")" -eq 1 ] || complain "a check that passes prints more than a line and what it left out"
grep -q "stream digest" "$out/log" && complain "the tables are printed without -v"
says '"digest":"' "$out/check.json"

# If only some properties are drawn, the floors of the draw are not judged, and the check says so.
ends 0 "floors of the draw: not judged, for cases of some properties alone were drawn" "$fakes/attention.so:right" \
  --property reference --cases 600 -v

# Two libraries of one name have a file each, and each replay line names its own library.
mkdir "$out/one" "$out/two" && cp "$fakes/behaviours.so" "$out/one" && cp "$fakes/behaviours.so" "$out/two"
ends 1 "was never written" "$out/one/behaviours.so:idle" "$out/two/behaviours.so:idle" --cases 60 --reduce-seconds 1
for folder in one two; do
  says "$out/$folder/behaviours.so" "$out/log"
  grep -lF "$out/$folder/behaviours.so" "$out"/found/*.attn.json >/dev/null || complain "no file has the failure of $folder/behaviours.so"
done

# A failure that comes only once counts, and every output shows its first verdict.
ends 1 "FLAKY" "$fakes/attention.so:crashes-once" --cases 400
says "SIGSEGV in run()" "$out/log" "$out/check.json" "$out/check.xml" "$out"/found/*.attn.json
says '"kind":"crash"' "$out/check.json"
says '"flaky":true' "$out/check.json"
"$attnfuzz" replay --allow-stale --kernel "$fakes/attention.so:crashes-once" "$out"/found/*.attn.json >"$out/log" 2>&1
[ $? -eq 0 ] || complain "a replay that passed ends as a failure"
says "its file says 'crash': it passed in 3 runs, all but the first in fresh workers" "$out/log"
ends 1 "FLAKY" "$fakes/attention.so:hangs-once" --cases 400 --watchdog 1
says "did not finish before the watchdog ended it" "$out/log" "$out/check.json" "$out/check.xml" "$out"/found/*.attn.json

# If a case fails only after another one, the check finds that one and writes a file for it.
ends 1 "right by itself: it fails behind 1 other case in one worker" "$fakes/attention.so:keeps-softcap" \
  --property reference --cases 400
"$attnfuzz" replay --allow-stale --kernel "$fakes/attention.so:keeps-softcap" "$out"/found/*.before-1.json \
  "$out"/found/*.attn.json >"$out/log" 2>&1
[ $? -eq 1 ] || complain "the sequence of two files does not fail"
says "FAIL (reference, wrong)" "$out/log"

# The watchdog ends a kernel that hangs in any way.
for how in sleeps stops ignores-signals; do
  ends 1 "FLAKY" "$fakes/attention.so:$how-once" --cases 400 --watchdog 0.1
  says "did not finish before the watchdog ended it" "$out/log" "$out/check.json" "$out/check.xml" "$out"/found/*.attn.json
done

# A kernel that kills its parent process ends only that process, not the check.
ends 1 "SIGKILL, sent to the worker's parent" "$fakes/attention.so:kills-parent" --cases 400 --reduce-seconds 2
says "found in case" "$out/log"
says "SIGKILL, sent to the worker" "$out/check.json" "$out/check.xml"

# A kernel that is not judged does not pass.
ends 1 "floor of the draw broken: not judged" "$fakes/attention.so:loose" --cases 600
says '"status":"not judged"' "$out/check.json"
says "floor of the draw broken" "$out/check.json" "$out/check.xml"
ends 1 "asked for its tiles by a simple case, the worker died" "$fakes/attention.so:dies-at-600-keys" --cases 60
says '"status":"not judged"' "$out/check.json"

# A frequent mistake of new users is named: a plan with tile_q = 0.
ends 1 "the plan makes no sense: tile_q is 0" "$fakes/behaviours.so:no-tiles" --cases 60 --reduce-seconds 1
says "1 will do for a kernel without tiles" "$out/log" "$out/check.xml"
says '"kind":"bad-plan"' "$out/check.json"
grep -qE "died|crashed" "$out/log" && complain "a bad plan is reported as a crash"

# With --keep-going the check finds one kind of failure after the other. The next check tries these failures first.
ends 1 "FAIL (" "$fakes/attention.so:two-bugs" --cases 400 --keep-going --reduce-seconds 2
[ "$(grep -c '^  found in case' "$out/log")" -eq 2 ] || complain "it does not go on to the second failure"
[ "$(ls "$out"/found/*.attn.json | wc -l)" -eq 2 ] || complain "not one file for each failure"
"$attnfuzz" check "$fakes/attention.so:two-bugs" --cases 400 --allow-stale --out "$out/found" >"$out/log" 2>&1
[ $? -eq 1 ] || complain "a failure found before does not fail the check"
says "  found before, and still there: $out/found/" "$out/log"
grep -q '^  found in case' "$out/log" && complain "cases were drawn though a failure found before is there"
"$attnfuzz" check "$fakes/attention.so:right" --cases 20 --allow-stale --out "$out/found" >"$out/log" 2>&1
[ $? -eq 0 ] || complain "another kernel is judged by the failures of this one"
# A failure of a property that the check does not judge by, or of another build, is not tried, and the check says so.
for change in 's/"property": "[a-z_]*"/"property": "packed_alone"/' 's/"backend": "cpu"/"backend": "cuda"/'; do
  mkdir -p "$out/old" && rm -f "$out"/old/*
  for file in "$out"/found/*.attn.json; do sed "$change" "$file" >"$out/old/$(basename "$file")"; done
  "$attnfuzz" check "$fakes/attention.so:two-bugs" --cases 1 --allow-stale --out "$out/old" >"$out/log" 2>&1
  case $change in
    *packed_alone*) says "found before, in $out/old: 2 not tried, for this check does not judge by packed_alone (--property)" "$out/log" ;;
    *) says "found before, in $out/old: 2 not tried, for another back end or build has them" "$out/log" ;;
  esac
done
# Two libraries whose kernels, and files, have the same name are two suites.
mkdir "$out/other" && cp "$fakes/attention.so" "$out/other/"
"$attnfuzz" check "$fakes/attention.so:right" "$out/other/attention.so:right" --cases 20 --allow-stale --out "$out/none" \
  --junit "$out/check.xml" >"$out/log" 2>&1
[ $? -eq 0 ] || complain "two libraries are not checked"
for suite in attnfuzz.attention.right.cpu attnfuzz.attention.right.cpu-2; do says "<testsuite name=\"$suite\"" "$out/check.xml"; done

# An old finding that cannot be read any more may belong to this kernel.
file=$(ls "$out"/found/*.attn.json | head -1)
head -c 200 "$file" >"$file.cut" && mv "$file.cut" "$file"
"$attnfuzz" check "$fakes/attention.so:right" --cases 20 --allow-stale --out "$out/found" --json "$out/check.json" \
  >"$out/log" 2>&1
[ $? -eq 1 ] || complain "a file in found/ that cannot be read is a pass"
says "$file was not tried: " "$out/log" "$out/check.json"
says '"status":"not judged"' "$out/check.json"

# interrupted SIGNAL STATUS: checks that a check which gets the signal ends with the status and is no pass.
interrupted() {
  rm -f "$out/check.json" "$out/check.xml"
  "$attnfuzz" check "$fakes/attention.so:right" --for 10m --jobs 2 --allow-stale -v --out "$out/found" \
    --json "$out/check.json" --junit "$out/check.xml" >"$out/log" 2>&1 </dev/null &
  job=$!
  until grep -q '  bound: ' "$out/log"; do
    kill -0 "$job" 2>/dev/null || break
    sleep 0.05
  done
  sleep 1
  kill -"$1" "$job"
  wait "$job"
  local status=$?
  job=
  [ "$status" -eq "$2" ] || complain "SIG$1: status $status, wanted $2"
  says "interrupted by SIG$1" "$out/log"
  says "rows judged" "$out/log"
  says '"status":"interrupted"' "$out/check.json"
  grep -A1 'name="complete"' "$out/check.xml" | grep -q '<failure' || complain "the JUnit file does not say that it is not complete"
}
interrupted INT 130
interrupted TERM 143
# Under nohup SIGHUP is ignored, and must be.
(($(printf '%d' "0x$(sed -n 's/^SigIgn:\t//p' /proc/$$/status)") & 1)) || interrupted HUP 129

[ "$bad" -eq 0 ] && echo "only judged checks passed"
