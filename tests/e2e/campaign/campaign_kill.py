#!/usr/bin/env python3
"""campaign_kill.py ATTNFUZZ KERNEL [SECONDS [RIGHT]] -- checks a campaign that is killed again and again.

Starts a campaign on a kernel with a known bug and on fa1. With RIGHT, a right kernel instead of fa1, the campaign
explores sequences of calls too, and the bug is one that they show. For SECONDS (8) it kills -9 the supervisor, its jobs or
the kernels' workers at random moments, and starts the campaign again whenever the supervisor is gone.
Then the campaign runs once more to its end. The script remembers every corpus entry and every finding
that it saw in the folder. At the end each of them must still be there and be readable, the
number of cases must have grown, and the known bug must be the only finding.
Prints its counts; the exit status is 0 if all this holds.
"""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time


def children(pid):
    try:
        return [int(c) for c in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def whole(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


class Seen:
    """All files that were ever in the folder. Files that are still being written have other names and do not count."""

    def __init__(self, out, ending):
        self.out, self.ending = out, ending
        self.corpus, self.findings, self.keys, self.most_cases = set(), set(), set(), 0
        self.began = False

    def look(self):
        self.began |= (self.out / "campaign.json").exists()
        self.corpus |= {p for p in self.out.glob("corpus/*/*.case.json")}
        self.findings |= {p for p in self.out.glob("findings/*" + self.ending)}
        listed = whole(self.out / "findings.json")
        if listed:
            self.keys |= {f["key"] for f in listed["findings"]}

    def sequences(self):
        """Sequences of calls. The statistics are at most 5 s old after a kill."""
        stats = [whole(path) or {"targets": {}} for path in self.out.glob("shards/*/stats.json")]
        return sum(target["sequences"]["sequences"] for of in stats for target in of["targets"].values())

    def cases(self):
        total = 0
        for series in self.out.glob("shards/*/series.jsonl"):
            lines = [line for line in series.read_text().split("\n")[:-1] if line]
            total += max((json.loads(line)["cases"] for line in lines if line.endswith("}")), default=0)
        return total


def to_its_end(command, out, ending):
    """The last session of those that it takes to find the bug, because a busy machine runs few cases in one session.
    Status 1 is not enough: a case that a kill ended may be kept as never seen again, which is status 1 as well."""
    for _ in range(10):
        last = subprocess.run(command + ["--for", "6s"], capture_output=True, text=True)
        if last.returncode == 1 and list(out.glob("findings/*" + ending)):
            break
    return last


def faults_of(findings, out, attnfuzz, kernel, right):
    """What is wrong with the listed findings: none, one of the right kernel, a missing file, one that does not fail."""
    due = [f for f in findings if right is None or f["property"] == "sequences"]
    wrong = [] if due else ["the bug was not found"]
    for f in findings:
        if f["target"].startswith((right or "fa1") + "."):
            wrong.append(f"not the bug: {f['name']}: {f['message']}")
        of_sequences = f["property"] == "sequences"
        file, text = (out / "findings" / (f["name"] + end) for end in (".calls.json" if of_sequences else ".attn.json", ".md"))
        wrong += [f"{path.name} is missing" for path in (file, text) if not path.exists()]
        if of_sequences and f["repeats"] == "deterministic":
            replay = subprocess.run([attnfuzz, "sequence", "--replay", file, kernel, "--allow-stale"],
                                    capture_output=True, text=True)
            if replay.returncode != 1:
                wrong.append(f"{file.name} does not fail again: {replay.stdout}{replay.stderr}")
    return wrong


def main():
    attnfuzz, kernel = sys.argv[1], sys.argv[2]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 8
    right = sys.argv[4] if len(sys.argv) > 4 else None
    ending = ".calls.json" if right else ".attn.json"
    rng = random.Random(int(os.environ.get("KILL_SEED", "1")))
    top = pathlib.Path(tempfile.mkdtemp(prefix="campaign-kill-"))
    out = top / "night"
    seen = Seen(out, ending)
    log = open(top / "log", "w")
    command = [attnfuzz, "campaign", kernel, right or "fa1", "--jobs", "2", "--out", str(out), "--allow-stale",
               "--reduce-seconds", "20", "--drain-seconds", "60"] + (["--sequences"] if right else [])

    def start(duration):
        return subprocess.Popen(command + ["--for", f"{duration:.0f}s"], stdout=log, stderr=log)

    kills = {"supervisor": 0, "job": 0, "worker": 0}
    starts, begin = 1, time.monotonic()
    process = start(seconds + 60)
    wrong = []
    while time.monotonic() - begin < seconds:
        time.sleep(rng.uniform(0.01, 1.0))
        seen.look()
        if process.poll() is not None:
            if process.returncode != -signal.SIGKILL:
                wrong.append(f"a session ended by itself, with status {process.returncode}")
                break
            process, starts = start(seconds + 60), starts + 1
            continue
        jobs = children(process.pid)
        workers = [w for job in jobs for w in children(job)]
        what = rng.choice(["supervisor", "job", "job", "worker", "worker"])
        victims = {"supervisor": [process.pid], "job": jobs, "worker": workers}[what]
        if not victims:
            continue
        try:
            os.kill(rng.choice(victims), signal.SIGKILL)
            kills[what] += 1
        except ProcessLookupError:
            continue
        if what == "supervisor":
            process.wait()
            seen.look()
            process, starts = start(seconds + 60), starts + 1
    if process.poll() is None:
        process.kill()
        process.wait()
    seen.look()
    cases_before, sequences_before = seen.cases(), seen.sequences()

    # The last sessions are short, and end by themselves.
    header = whole(out / "campaign.json")
    if seen.began and header is None:  # a busy machine may not begin before the first kills
        wrong.append("campaign.json cannot be read")
    last = to_its_end(command, out, ending)
    if last.returncode != 1:
        wrong.append(f"the last session ended with status {last.returncode}, 1 is due for a kernel with a bug\n"
                     + last.stdout + last.stderr)
    cases_after = seen.cases()
    if cases_after <= cases_before:
        wrong.append(f"no case was judged after the resumption: {cases_before} before, {cases_after} after")
    if right and seen.sequences() <= sequences_before:
        wrong.append(f"no sequence of calls was judged after the resumption: {sequences_before} before")

    lost = [p for p in seen.corpus | seen.findings if not p.exists()]
    torn = [p for p in list(out.glob("corpus/*/*.case.json")) + list(out.glob("findings/*" + ending)) if whole(p) is None]
    listed = whole(out / "findings.json") or {"findings": [], "never_again": []}
    keys = [f["key"] for f in listed["findings"]]
    wrong += [f"lost: {p}" for p in lost] + [f"torn: {p}" for p in torn]
    wrong += [f"lost from findings.json: {key}" for key in seen.keys - set(keys)]
    wrong += [f"twice in findings.json: {key}" for key in set(keys) if keys.count(key) > 1]
    wrong += faults_of(listed["findings"], out, attnfuzz, kernel, right)
    print(f"killed: {kills['supervisor']} supervisors, {kills['job']} jobs, {kills['worker']} workers in "
          f"{time.monotonic() - begin:.0f} s; {starts + 1} sessions; {len(seen.corpus)} corpus entries and "
          f"{len(seen.findings)} finding(s) seen, {len(lost)} lost; {cases_before} cases before the last session, "
          f"{cases_after} after; {seen.sequences()} sequences of calls; {len(keys)} finding(s), "
          f"{len(listed['never_again'])} never seen again")
    for line in wrong:
        print(line)
    if wrong:
        print(f"see {top}")
        log.close()
        print((top / "log").read_text()[-4000:])
        return 1
    shutil.rmtree(top)
    return 0


if __name__ == "__main__":
    sys.exit(main())
