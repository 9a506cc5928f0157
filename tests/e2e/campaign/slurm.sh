#!/usr/bin/env bash
# slurm.sh ATTNFUZZ LIBRARY SUBMIT: checks a campaign on two Slurm nodes, both of them
# this machine. LIBRARY is a kernel with a known bug, SUBMIT is fuzz/slurm/submit.sh.
#
# Starts a private Slurm (a controller and two slurmd on other ports, without
# authentication, as root), submits a job array of two tasks, kills one task -9 and
# requeues it. The task must continue from its own corpus, and the merge job must join
# the results of both. The script ends everything that it started. It is skipped without
# root, or if Slurm can neither be found nor installed.
set -u
attnfuzz=$1 library=$2 submit=$3
skip() {
  echo "SKIPPED: $1"
  exit 77
}
[ "$(id -u)" -eq 0 ] || skip "slurmd wants to be root"
if ! command -v slurmctld slurmd sbatch >/dev/null; then
  command -v apt-get >/dev/null || skip "there is no Slurm, and no apt-get to install it with"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    slurmctld slurmd slurm-client; } >/dev/null 2>&1 || skip "Slurm cannot be installed here (slurmctld slurmd slurm-client)"
fi

out=$(mktemp -d /tmp/attnfuzz-slurm.XXXXXX)
started=()
finish() {
  # The tasks end first, then the daemons that would start them again.
  scancel --state=RUNNING >/dev/null 2>&1
  scancel --state=PENDING >/dev/null 2>&1
  for _ in 1 2 3 4 5 6 7 8; do
    [ -z "$(squeue --noheader 2>/dev/null)" ] && break
    sleep 1
  done
  [ ${#started[@]} -gt 0 ] && kill "${started[@]}" 2>/dev/null && wait "${started[@]}" 2>/dev/null
  rm -rf "$out"
}
trap finish EXIT
die() {
  echo "$*"
  squeue
  tail -n 25 "$out"/night/logs/*.log "$out"/log/slurmctld.log
  exit 1
}
# until_true SECONDS WHAT COMMAND...: waits until the command succeeds, at most SECONDS.
until_true() {
  local limit=$1 what=$2
  shift 2
  for ((waited = 0; waited < limit; ++waited)); do
    "$@" && return
    sleep 1
  done
  die "waited $limit s for $what"
}

mkdir -p "$out"/{state,n1,n2,log}
host=$(hostname -s)
port=$((20000 + $$ % 10000))
cat >"$out/slurm.conf" <<CONF
ClusterName=attnfuzz
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
# A requeued task also waits for this time.
AuthInfo=cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
KillWait=2
StateSaveLocation=$out/state
SlurmdSpoolDir=$out/%n
SlurmctldPidFile=$out/slurmctld.pid
SlurmdPidFile=$out/%n.pid
SlurmctldLogFile=$out/log/slurmctld.log
SlurmdLogFile=$out/log/%n.log
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 10001)) CPUs=1 State=UNKNOWN
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 10002)) CPUs=1 State=UNKNOWN
PartitionName=night Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$out/slurm.conf
slurmctld -D >"$out/log/slurmctld.out" 2>&1 &
started+=($!)
for node in n1 n2; do
  slurmd -D -N "$node" >"$out/log/$node.out" 2>&1 &
  started+=($!)
done
idle() { [ "$(sinfo --noheader --Node --format=%T 2>/dev/null | grep -c idle)" -eq 2 ]; }
until_true 60 "two idle nodes" idle

night=$out/night
said=$("$submit" --dir "$night" --tasks 2 --for 40s --attnfuzz "$attnfuzz" --seed 7 \
  --options "--reduce-seconds 5 --drain-seconds 20" "$library" fa1) || die "submit failed: $said"
echo "$said"
array=$(sed -n 's/^array job \([0-9]*\) .*/\1/p' <<<"$said")

corpus() { ls "$1"/corpus/*/*.case.json 2>/dev/null | sed 's#.*/corpus/##' | sort; }
grown() { [ "$(corpus "$night/tasks/1" | wc -l)" -ge 12 ] && [ -s "$night/tasks/1/shards/0/stats.json" ]; }
until_true 120 "a corpus of task 1" grown
nodes=$(squeue --noheader --array --states=RUNNING --format='%i %N' | sort)
[ "$(awk '{print $2}' <<<"$nodes" | sort -u | wc -l)" -eq 2 ] || die "the tasks do not run on two nodes: $nodes"

# The task is killed at once, as if its node were lost. Then Slurm is told to start it again.
running() { pgrep -f -- "--out $night/tasks/1 " >/dev/null; }
scancel --signal=KILL --full "${array}_1" || die "the task cannot be killed"
gone() { ! running; }
until_true 30 "the end of task 1" gone
corpus "$night/tasks/1" >"$out/before"
cases_of() { # the largest number of cases in a task's series
  sed -n 's/.*"cases":\([0-9]*\).*/\1/p' "$1"/shards/0/series.jsonl | sort -n | tail -n 1
}
before=$(cases_of "$night/tasks/1")
scontrol requeue "${array}_1" || die "the task cannot be requeued"
echo "task 1 killed with $(wc -l <"$out/before") corpus entries and ${before:-0} cases, and requeued"

merged() { [ -s "$night/merged/report.html" ]; }
until_true 300 "the merge job's report" merged
grep -q "^task 1 on .*, start 1" "$night/logs/task-1.log" || die "task 1 was not started a second time"
lost=$(comm -23 "$out/before" <(corpus "$night/tasks/1"))
[ -z "$lost" ] || die "task 1 lost corpus entries: $lost"
after=$(cases_of "$night/tasks/1")
[ "$after" -gt "${before:-0}" ] || die "task 1 did not go on: ${before:-0} cases before, $after after"

python3 - "$night" <<'CHECK' || die "the merged campaign is not what its tasks were"
import json, pathlib, sys
night = pathlib.Path(sys.argv[1])
def read(name): return json.loads((night / name).read_text())
tasks = ["tasks/0", "tasks/1"]
first, second = (read(f"{task}/campaign.json")["sessions"] for task in tasks)
assert len(first) == 1 and len(second) == 2, (len(first), len(second))
assert second[1]["from"] > 0, "the second session of task 1 began from nothing"
merged = read("merged/campaign.json")
assert len(merged["sessions"]) == 3
def corpus(folder): return {p.relative_to(night / folder / "corpus") for p in (night / folder / "corpus").glob("*/*.json")}
assert corpus("merged") == corpus(tasks[0]) | corpus(tasks[1])
found = [read(f"{task}/findings.json")["findings"] for task in tasks]
assert all(found), "each task was to find the bug"
together = read("merged/findings.json")["findings"]
keys = {(f["key"], f["target"]) for one in found for f in one}
assert len(together) == len(keys) and {(f["key"], f["target"]) for f in together} == keys
assert sum(f["count"] for f in together) == sum(f["count"] for one in found for f in one)
for f in together:
    assert (night / "merged/findings" / (f["name"] + ".attn.json")).is_file(), f["name"]
assert len(read("merged/canary.json")) == sum(len(read(f"{t}/canary.json")) for t in tasks)
shards = sum(len(list((night / t / "shards").iterdir())) for t in tasks)
assert len(list((night / "merged/shards").iterdir())) == shards
print(f"merged: {len(together)} finding(s) of {sum(map(len, found))}, {len(corpus('merged'))} corpus entries, {shards} jobs")
CHECK
tail -n 2 "$night/logs/merge.log"
if [ -n "${ATTNFUZZ_KEEP_REPORT:-}" ]; then cp -r "$night/merged" "$ATTNFUZZ_KEEP_REPORT"; fi
echo "one of two tasks was killed with ${before:-0} cases and went on to $after; both are merged"
