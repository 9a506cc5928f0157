#!/usr/bin/env bash
# campaign.sh ATTNFUZZ LIBRARY FAKES: checks a campaign of some seconds. LIBRARY is a
# kernel with a known bug, which must be found and reported once, by name, with all its
# files. The seeded bug must be found, a second session must continue the campaign, and
# options that contradict its folder are refused. FAKES is the folder of the fake
# kernels: a worker that is killed only once is a failure as well.
set -u
attnfuzz=$1 library=$2 fakes=$3
source "$(dirname "$0")/../scratch.sh"

"$attnfuzz" campaign "$library" fa1 --for 15s --jobs 2 --out "$out/night" --json >"$out/first.log" 2>&1
[ $? -eq 1 ] || die "the campaign did not end with status 1"
[ "$(grep -c '"event":"finding"' "$out/first.log")" -eq 1 ] || die "one finding is due"
grep -q '"event":"canary".*"found":true' "$out/first.log" || die "the seeded bug was not found"
file=$(ls "$out"/night/findings/*.attn.json)
[ -f "${file%.attn.json}.md" ] || die "the finding has no issue text"
grep -q 'mask: only the first key' "${file%.attn.json}.md" || die "the issue text does not have the smallest case"
"$attnfuzz" replay "$file" --kernel "$library" >"$out/replay.log" 2>&1
[ $? -eq 1 ] || die "the finding's reproducer does not fail again"
[ "$(ls "$out"/night/corpus/fa1 | wc -l)" -gt 50 ] || die "the archive is nearly empty"

# In a second session the finding is not reported as new, and nothing is lost.
before=$(ls "$out"/night/corpus/fa1 | wc -l)
"$attnfuzz" campaign "$library" fa1 --for 3s --jobs 1 --out "$out/night" --json >"$out/second.log" 2>&1
[ $? -eq 1 ] || die "the second session did not end with status 1"
grep -q '"event":"finding"' "$out/second.log" && die "a finding of the first session is new in the second"
[ "$(ls "$out"/night/corpus/fa1 | wc -l)" -ge "$before" ] || die "the archive has shrunk"

# SIGKILL may come from the kernel itself: a failure that comes only once is filed, and the campaign does not pass.
# On a terminal of 80 columns the status line counts the findings.
ATTNFUZZ_FAKE_ONCE=$out/once TERM=xterm script -qec "stty cols 80; $(printf '%q ' "$attnfuzz" campaign \
  "$fakes/attention.so:kills-itself-once" --for 3s --jobs 1 --no-seeded-bug --allow-stale --out "$out/once-killed")" /dev/null \
  >"$out/killed.log" 2>&1
[ $? -eq 1 ] || die "a campaign passes whose worker was killed"
grep -q '^ended: time; 0 finding(s), 0 known, 1 never seen again' "$out/killed.log" || die "what came once is not counted"
# The message may be wrapped.
tr -s ' \r\n' ' ' <"$out/killed.log" | grep -q 'the worker died while the kernel ran: SIGKILL in run()' || die "what killed it is not told"
tr '\r' '\n' <"$out/killed.log" | grep -q 'left: [0-9]* finding(s), [0-9]* to reduce; ' || die "the status line does not say what was found"
"$attnfuzz" status "$out/once-killed" >"$out/status.log" 2>&1
[ $? -eq 1 ] || die "status passes what came once"

# If the ledger tolerates the finding, the campaign passes, and the finding's failure is not reported again. The
# campaign reports a tolerated reproducer that passes, or that cannot be read, and keeps the message in its folder.
name=$(basename "${file%.attn.json}")
cp "$file" "$out/known.attn.json"
sed 's/"kernel": "[^"]*"/"kernel": "fa1"/' "$file" >"$out/holds.attn.json"
known() { echo '{"mode": "tolerated", "key": "'"$1"'", "reason": "issue 1", "reproducer": "'"$2"'"}'; }
echo '{"format": 1, "known": ['"$(known "$name" known.attn.json),$(known gone holds.attn.json),$(known lost no.attn.json)"']}' \
  >"$out/ledger.json"
"$attnfuzz" campaign "$library" fa1 --for 8s --jobs 2 --out "$out/known" --ledger "$out/ledger.json" >"$out/known.log" 2>&1
[ $? -eq 0 ] || die "a tolerated failure is not tolerated"
grep -q 'known: issue 1' "$out/known.log" || die "the reason is not given"
for told in "$out/known.log" "$out/known/campaign.json"; do
  grep -q 'tolerated gone no longer fails: take it out of the ledger' "$told" || die "an unexpected pass is not told"
  grep -q 'tolerated lost was not looked at: .*no.attn.json' "$told" || die "a lost reproducer is not told"
  grep -q "tolerated $name" "$told" && die "a known failure that fails is told as news"
done

# What the folder has lost is told, and is no pass: the counts of a job, its folder, that the seeded bug was found.
for command in status "report --out $out/lost.html" "merge --out $out/merged"; do
  # shellcheck disable=SC2086
  "$attnfuzz" $command "$out/known" >"$out/lost.log" 2>&1 || die "$command of a whole folder: $(cat "$out/lost.log")"
done
lost() {  # lost FILE WORDS: FILE is removed from a copy of the folder
  rm -rf "$out/lost" && cp -r "$out/known" "$out/lost" && rm -r "$out/lost/$1"
  for command in status "report --out $out/lost.html" "merge --out $out/merged"; do
    # shellcheck disable=SC2086
    "$attnfuzz" $command "$out/lost" >"$out/lost.log" 2>&1
    [ $? -eq 2 ] && grep -q "$2" "$out/lost.log" || die "$command, without $1: $(cat "$out/lost.log")"
  done
}
lost canary.json 'canary.json has no result of seeded-bug.cpu.plain in session 1'
lost shards/1/stats.json 'shards/1/stats.json is missing'
lost shards/1 'shards/1/stats.json is missing'
"$attnfuzz" campaign "$library" fa1 --for 1s --jobs 2 --out "$out/lost" --ledger "$out/ledger.json" >"$out/lost.log" 2>&1
[ $? -eq 2 ] && grep -q 'shards/1/stats.json is missing: restore' "$out/lost.log" || die "a job begins anew: $(cat "$out/lost.log")"

# Refused: another seed, another format, a bad ledger, a damaged folder.
refused() {
  local words=$1
  shift
  "$attnfuzz" campaign "$@" >"$out/refused.log" 2>&1
  [ $? -eq 2 ] && grep -q "$words" "$out/refused.log" || die "not refused: $*"
}
refused "holds a campaign of seed 1" fa1 --for 1s --seed 2 --out "$out/night"
mkdir "$out/future" && echo '{"format": 3}' >"$out/future/campaign.json"
refused "is of format 3" fa1 --for 1s --out "$out/future"
echo '{"format": 1, "known": [{"mode": "tolerated", "key": "x"}]}' >"$out/ledger.json"
refused "it has no reason" fa1 --for 1s --out "$out/other" --ledger "$out/ledger.json"
echo '{"format": 1, "known": [{"mode": "quarantined", "features": ["soft cap"], "reason": "issue 1"}]}' >"$out/ledger.json"
refused "there is no feature 'soft cap'; there are .*'softcap'" fa1 --for 1s --out "$out/other" --ledger "$out/ledger.json"
met=$(ls "$out"/night/coverage/fa1.*.met)
cp "$met" "$out/met" && head -c 100 "$out/met" >"$met"
refused "$met is damaged: move it away" fa1 --for 1s --out "$out/night"
cp "$out/met" "$met"

# If the terminal closes (SIGHUP), the campaign ends as after an interrupt, and the folder records it.
"$attnfuzz" campaign fa1 --for 10m --jobs 1 --no-seeded-bug --out "$out/hangup" --json >"$out/hangup.log" 2>&1 &
job=$!
until grep -q '"event":"start"' "$out/hangup.log"; do kill -0 "$job" || die "it does not start"; sleep 0.05; done
"$attnfuzz" status "$out/hangup" >"$out/status.log" 2>&1 || die "a campaign that runs has no status"
grep -q ": runs (pid $job on .*, 600 s left\|: runs (pid $job on .*, 59[0-9] s left" "$out/status.log" || die "status does not say that it runs, where and how long"
kill -HUP "$job"
wait "$job"
status=$?
[ "$status" -eq 129 ] || die "SIGHUP ends it with status $status, and nothing was found"
grep -q 'interrupted by SIGHUP' "$out/hangup.log" || die "the signal is not told"
grep -q '"event":"end".*"ended":"interrupted"' "$out/hangup.log" || die "SIGHUP does not end it well"

# If a signal comes before the seeded bug can be found, this says nothing of the harness: neither then nor later.
"$attnfuzz" campaign fa1 --for 10m --jobs 1 --out "$out/early" --json >"$out/early.log" 2>&1 &
job=$!
until grep -q '"event":"start"' "$out/early.log"; do kill -0 "$job" || die "it does not start"; sleep 0.05; done
kill -INT "$job"
wait "$job"
[ $? -eq 130 ] || die "an early SIGINT is told as something else: $(cat "$out/early.log")"
for command in status "report --out $out/early.html"; do
  # shellcheck disable=SC2086
  "$attnfuzz" $command "$out/early" >"$out/status.log" 2>&1 || die "$command after an early SIGINT: $(cat "$out/status.log")"
done
grep -q '"cut_short": *true' "$out/early.json" && grep -q '"canaries_missed": *0' "$out/early.json" || die "the seeded bug is not told as cut short"

# --prune takes the entries of all kernels and leaves few files, which are readable and replay.
before=$(ls "$out"/night/corpus/*/*.case.json | wc -l)
"$attnfuzz" campaign fa1 --prune "$out/night" --to "$out/pruned" >"$out/prune.log" 2>&1 || die "prune failed"
kept=$(ls "$out/pruned" | wc -l)
[ "$kept" -gt 10 ] && [ "$kept" -lt "$before" ] || die "pruned to $kept of $before"
"$attnfuzz" replay --kernel fa1 "$out"/pruned/*.case.json >"$out/pruned.log" 2>&1 || die "the pruned corpus does not hold"
echo "found once, resumed, tolerated, refused, pruned to $kept of $before"
