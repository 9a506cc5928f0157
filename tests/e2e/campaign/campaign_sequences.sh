#!/usr/bin/env bash
# campaign_sequences.sh ATTNFUZZ BUG: checks campaigns that explore sequences of calls. BUG is a kernel with a bug
# between calls: it must be found, filed once as a sequence of calls that fails again, tolerated by the ledger, and
# merged. A kernel that can have no sequences of calls is named.
set -u
attnfuzz=$1 bug=$2
source "$(dirname "$0")/../scratch.sh"
# until_it CHECK LOG ARGUMENT...: runs sessions of a campaign until CHECK holds, because a busy machine runs few sequences
# of calls in one. Its status is that of the last session.
until_it() {
  local check=$1 log=$2 status
  shift 2
  for _ in 1 2 3 4 5 6 7 8; do
    "$attnfuzz" campaign "$@" >"$log" 2>&1
    status=$?
    eval "$check" && break
  done
  return "$status"
}

until_it 'ls "$out"/night/findings/*.calls.json >/dev/null 2>&1' "$out/first.log" "$bug" merge --sequences --for 8s --jobs 2 \
  --reduce-seconds 10 --out "$out/night"
[ $? -eq 1 ] || die "the bug was not found: $(cat "$out/first.log")"
grep -q '^merge.cpu.plain: no sequences of calls: this kernel neither appends' "$out/first.log" || die "a kernel without is not named"
grep -q 'merge.cpu.plain: no sequences of calls' "$out/night/campaign.json" || die "the folder does not name it"
grep -Eq '^[a-z-]*calls-length-not-lowered.cpu.plain: [0-9]+ sequences of calls, [1-9][0-9]* failed' "$out/first.log" || die "no line of the sequences"
grep -q 'not run: forward: no kernel given has it on pages' "$out/first.log" || die "what was left out is not told"
files=$(ls "$out"/night/findings/*.calls.json) || die "no finding is a sequence of calls"
for file in $files; do
  [ -f "${file%.calls.json}.md" ] || die "$file has no issue text"
  grep -q "^  replay: attnfuzz sequence --replay $file $bug$" "$out/first.log" || die "no replay line of $file"
  "$attnfuzz" sequence --replay "$file" "$bug" >"$out/replay.log" 2>&1
  [ $? -eq 1 ] || die "$file does not fail again"
  "$attnfuzz" sequence --replay "$file" cache >"$out/right.log" 2>&1 || die "a right kernel fails: $(cat "$out/right.log")"
done
"$attnfuzz" status "$out/night" >"$out/status.log" 2>&1
[ $? -eq 1 ] || die "status does not say that something was found"
grep -q ' sequences of calls, ' "$out/status.log" || die "status does not count sequences of calls"
"$attnfuzz" report "$out/night" --out "$out/report.html" >"$out/report.log" 2>&1
[ $? -eq 1 ] || die "the report does not say that something was found: $(cat "$out/report.log")"
grep -q '"replay": *"attnfuzz sequence --replay ' "$out/report.json" || die "the report has no replay line"
"$attnfuzz" merge "$out/night" --out "$out/all" >"$out/merge.log" 2>&1
[ $? -eq 1 ] || die "what was found is not merged: $(cat "$out/merge.log")"
[ "$(ls "$out"/all/findings/*.calls.json | wc -l)" -eq "$(wc -w <<<"$files")" ] || die "files are not merged"

# The ledger tolerates what was found: it is no news, and the reproducers still fail.
entries=$(for file in $files; do
  name=$(basename "${file%.calls.json}")
  echo '{"mode": "tolerated", "key": "'"$name"'", "reason": "issue 1", "reproducer": "'"$file"'"}'
done | paste -sd,)
echo '{"format": 1, "known": ['"$entries"']}' >"$out/ledger.json"
until_it '[ $status -le 1 ] && grep -q "known: issue 1" "$out/known.log"' "$out/known.log" "$bug" --sequences --for 6s --jobs 2 \
  --reduce-seconds 10 --no-seeded-bug --out "$out/known" --ledger "$out/ledger.json"
status=$? due=1
# The bug may also show in a way that the first campaign did not meet.
grep -q '^ended: time; 0 finding(s), [1-9][0-9]* known, 0 never seen again, 0 still to reduce' "$out/known.log" && due=0
[ $status -eq $due ] || die "the status is $status and not $due: $(cat "$out/known.log")"
grep -q 'known: issue 1' "$out/known.log" || die "the reason is not given: $(cat "$out/known.log")"
grep -q 'no longer fails\|was not looked at\|fails in another way' "$out/known.log" && die "a known failure that fails is told as news"

# Sequences that are quarantined, or that contradict another option, or that no kernel can have.
echo '{"format": 1, "known": [{"mode": "quarantined", "kernel": "cache", "features": ["softcap"], "reason": "issue 2"}]}' >"$out/ledger.json"
until_it '[ $status -eq 0 ]' "$out/kept.log" cache splitk --sequences --for 4s --jobs 1 --no-seeded-bug --out "$out/kept" \
  --ledger "$out/ledger.json" ||
  die "right kernels fail: $(cat "$out/kept.log")"
grep -q '^cache.cpu.plain: no sequences of calls: the ledger quarantines cases of it: issue 2' "$out/kept.log" || die "the quarantine is not named"
grep -q '^splitk.cpu.plain: [0-9]* sequences of calls, 0 failed' "$out/kept.log" || die "splitk has none: $(cat "$out/kept.log")"
refused() {
  local words=$1
  shift
  "$attnfuzz" campaign "$@" --for 1s --out "$out/refused" >"$out/refused.log" 2>&1
  [ $? -eq 2 ] && grep -q -- "$words" "$out/refused.log" || die "not refused: $*: $(cat "$out/refused.log")"
}
refused '--sequences: no target can have sequences of calls' merge --sequences
refused 'cache.cpu.plain: the ledger quarantines cases of it: issue 2' cache --sequences --no-seeded-bug --ledger "$out/ledger.json"
refused 'slots of a cache that hold no token hold NaN' cache --sequences --finite
echo "found, replayed, merged, tolerated, quarantined and refused"
