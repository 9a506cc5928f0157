"""untrusted.py ATTNFUZZ STRANGERS: checks that each cheating kernel of tests/fuzz/strangers is refused for its cheat.
untrusted.py ATTNFUZZ STRANGERS cuda [NAME...]: the same for the kernels of strangers_cuda.so, on a GPU; with NAME...
only for these kernels and `honest`.

One check runs all kernels with --untrusted. A second check without --untrusted runs the kernels that compute honestly
only if they notice a check; they pass it.
"""

import json
import os
import subprocess
import sys
import tempfile

ATTNFUZZ, STRANGERS = sys.argv[1:3]
ON_GPU = "cuda" in sys.argv[3:4]
NAMED = sys.argv[4:]

# Kernel: (the kinds that its failure may have; words of the message; the exploit that is named, or None if it varies).
WRONG = ("wrong", "non-finite")
NUMBERS = ("wrong", "non-finite", "relation", "dirty", "unwritten")
LATE = ("unwritten", "race", "guard", "wrong", "dirty", "input changed", "crash", "non-finite")
REFUSED = {
    # Kernels that do less than the work.
    "no-op": (("unwritten",), "", "nothing written"),
    "zeros": (WRONG, "", None),
    "first-batch": (NUMBERS, "", None),
    "few-keys": (NUMBERS, "", None),
    "stale-buffer": (NUMBERS, "", "earlier answer"),  # outputs may be poisoned with numbers
    "one-call-behind": (NUMBERS, "", "earlier answer"),
    "nans": (WRONG, "", None),
    # Kernels that return an earlier answer.
    "cached-by-shape": (NUMBERS, "", "earlier answer"),
    "cached-by-pointer": (NUMBERS, "", "earlier answer"),
    "cached-by-sample": (NUMBERS, "", "earlier answer"),
    "cached-by-queries": (NUMBERS, "", "earlier answer"),
    "second-skipped": (NUMBERS, "", "earlier answer"),
    # Kernels that write their outputs after run() has returned.
    "thread-later": (LATE, "", None),
    "thread-at-once": (LATE, "", None),
    "helper-thread": (LATE, "", None),
    "timer": (LATE, "", None),
    "next-call": (LATE, "", None),
    # Kernels that are honest only if they notice that they are checked.
    "watched-by-command": (NUMBERS, "", None),
    "watched-by-invocation": (NUMBERS, "", None),
    "watched-by-thread-name": (NUMBERS, "", None),
    "watched-by-program": (NUMBERS, "", None),
    "watched-by-parent": (NUMBERS, "", None),
    "watched-by-maps": (NUMBERS, "", None),
    "watched-by-environment": (NUMBERS, "", None),
    "watched-by-poison": (NUMBERS, "", None),
    "watched-by-number": (NUMBERS, "", None),
    # Kernels that change memory which the worker shares with the check.
    "input-restored": (("crash",), "SIGSEGV in run(), byte", "writes inputs"),
    "input-unprotected": (("crash",), "of mprotect()", "reaches for memory"),
    "input-replaced": (("crash",), "of mmap()", "reaches for memory"),
    "input-remapped": (("crash",), "of mremap()", "reaches for memory"),
    "arena-unmapped": (("crash",), "of munmap()", "reaches for memory"),
    "redzone-opened": (("crash",), "of mprotect()", "reaches for memory"),
    "arena-discarded": (("crash",), "of madvise()", "reaches for memory"),
    "writes-past": (("guard", "crash"), "", None),
    "memory-shared": (("crash",), "of memory in which no tensor lies", "uses up memory"),
    "memory-bomb": (("crash",), "SIGABRT in run()", None),
    # Kernels that reach for another process.
    "limit-parent": (("crash",), "of prlimit64()", "sends signals"),
    "ptrace-parent": (("crash",), "of ptrace()", "reaches for memory"),
    "read-parent": (("crash",), "of process_vm_readv()", "reaches for memory"),
    "write-parent": (("crash",), "of process_vm_writev()", "reaches for memory"),
    "open-parent-memory": (("crash",), "of openat()", "writes files"),
    "read-parent-memory": (NUMBERS, "", None),
    "read-processes": (NUMBERS, "", None),
    "read-files": (NUMBERS, "", None),
    "pidfd-parent": (("crash",), "of pidfd_open()", "reaches for memory"),
    "kill-parent": (("crash",), "of kill()", "sends signals"),
    "kill-all": (("crash",), "of kill()", "sends signals"),
    "kill-group": (("crash",), "of kill()", "sends signals"),
    "queue-signal": (("crash",), "of rt_sigqueueinfo()", "sends signals"),
    "signal-by-pipe": (NUMBERS, "", None),
    # Kernels that leave their process, for another program, a file or the network.
    "fork": (("crash",), "of clone()", "starts a process"),
    "fork-setsid": (("crash",), "of clone()", "starts a process"),
    "setsid": (("crash",), "of setsid()", "starts a process"),
    "exec": (("crash",), "of execve()", "starts a process"),
    "spawn": (("crash",), "SIGSYS in run()", None),
    "system": (("crash",), "SIGSYS in run()", None),
    "preload": (("crash",), "of execve()", "starts a process"),
    "tcp": (("crash",), "of socket()", "uses the network"),
    "unix-socket": (("crash",), "of socket()", "uses the network"),
    "io-uring": (("crash",), "of io_uring_setup()", "takes privileges"),
    "write-file": (("crash",), "of openat()", "writes files"),
    "write-own-folder": (("crash",), "of openat()", "writes files"),
    "disk-bomb": (("crash",), "of openat()", "writes files"),
    "remove-file": (("crash",), "of unlink()", "writes files"),
    "make-folder": (("crash",), "of mkdir()", "writes files"),
    "shared-memory": (("crash",), "of openat()", "writes files"),
    "namespace": (("crash",), "of unshare()", "takes privileges"),
    "mount": (("crash",), "of mount()", "takes privileges"),
    "dumpable": (("crash",), "of prctl()", "takes privileges"),
    # Kernels that end the process, never end, or use up its resources.
    "exit": (("crash",), "exit status 0 in run()", "ends the process"),
    "exit-now": (("crash",), "exit status 0 in run()", "ends the process"),
    "throw": (("crash",), "SIGABRT in run()", None),
    "kill-itself": (("crash",), "SIGKILL in run()", None),
    "alarm": (("crash",), "SIGALRM", None),
    "catch-crash": (("crash",), "of sigaction()", "handles crashes"),
    "catch-refusal": (("crash",), "of sigaction()", "handles crashes"),
    "block-refusal": (("crash",), "SIGSYS in run()", None),
    "close-all": (("crash",), "closed or replaced the worker's descriptors", "uses up descriptors"),
    "replace-bell": (("crash",), "closed or replaced the worker's descriptors", "uses up descriptors"),
    "thread-swarm": (("crash",), "threads", "uses up threads"),
    "drain-bells": (("unwritten", "crash"), "", None),
    "write-answer": (("crash",), "answer was overwritten, and says: x", "reaches for memory"),
    # Kernels with a false plan.
    "says-small-tiles": (NUMBERS, "", None),
    "says-merges": (NUMBERS, "", "looser plan"),
    "says-rescales": (NUMBERS, "", None),
    "says-exponential": (NUMBERS, "", None),
    "says-8-bit": (NUMBERS, "", "looser plan"),
    "says-scaled-p": (NUMBERS, "", None),
    "says-overflow": (NUMBERS, "", None),
}
# Only some kernels are built for a GPU. There the CUDA driver works in the process, so a call that is not allowed fails
# but does not end the process: the kernels IN_VAIN pass. A device's inputs are not protected (docs/untrusted.md).
ON_CPU_ALONE = ("few-keys", "one-call-behind", "nans", "cached-by-queries", "thread-at-once", "helper-thread", "timer", "next-call",
                "input-unprotected", "input-replaced", "input-remapped", "arena-unmapped", "redzone-opened", "arena-discarded",
                "memory-shared", "memory-bomb", "says-small-tiles", "says-rescales", "says-exponential", "says-8-bit",
                "says-scaled-p", "says-overflow")
IN_VAIN = ("write-file", "write-own-folder", "disk-bomb", "remove-file", "make-folder", "shared-memory", "open-parent-memory",
           "unix-socket", "input-restored")
if ON_GPU:
    REFUSED = {name: how for name, how in REFUSED.items() if name not in ON_CPU_ALONE + IN_VAIN}
    REFUSED |= {
        "input-written": (("input-changed",), "", "writes inputs"),
        "other-stream": (LATE + ("dirty",), "", None),
        "watched-by-poison": (("crash",), "SIGSEGV in run()", None),  # it looks at a device's memory
        "close-all": (("crash", "fault", "hang"), "", None),
        "drain-bells": (("unwritten", "crash", "hang"), "", None),
    }
NOT_JUDGED = {"refuses-all": "refuses nearly everything", "refuses-most": "refuses nearly everything"}
# A kernel that refuses only once it has run. No domain says what it must take in the first check.
TIRES = "refuses-strides"

if ON_GPU:
    del NOT_JUDGED["refuses-all"]
    TIRES = None

bad = []


def check(kernels, *words):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "check.json")
        ran = subprocess.run(
            [ATTNFUZZ, "check", *kernels, "--cases", "150", "--seed", "1", "--jobs", "2", "--allow-stale", "--reduce-seconds", "0.01",
             "--work", "30000", "--out", os.path.join(folder, "found"), "--json", report, *(("--backend", "cuda") if ON_GPU else ()), *words],
            env=dict(os.environ, ATTN_HARNESS="1"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if not os.path.exists(report):
            sys.exit(ran.stdout[-4000:])
        with open(report) as f:
            return {result["kernel"]: result for result in map(json.loads, f)}, ran


def held_against(name, result):
    if name == "honest":
        return None if result["status"] == "held" else f"{result['status']}: {result.get('failure')}"
    if name in NOT_JUDGED:
        if result["status"] != "not judged":
            return f"status {result['status']}"
        return None if result.get("cheat") == NOT_JUDGED[name] else f"exploit {result.get('cheat')!r}"
    kinds, words, exploit = REFUSED[name]
    if "failure" not in result:
        return f"status {result['status']}"
    failure = result["failure"]
    if failure["kind"] not in kinds or words not in failure["message"]:
        return f"{failure['kind']}: {failure['message']}"
    return f"exploit {failure['cheat']!r}" if exploit and failure["cheat"] != exploit else None


asked = {"honest", *(NAMED or (*REFUSED, *NOT_JUDGED, *(IN_VAIN if ON_GPU else (TIRES,))))}
results, ran = check([f"{STRANGERS}:{name}" for name in sorted(asked)] if NAMED else [STRANGERS], "--untrusted")
if ran.returncode != 1:
    bad.append(f"the check ended with {ran.returncode}")
lacking = results["honest"]["untrusted"]["lacking"]
if lacking:
    print(f"SKIPPED: this machine lacks {', '.join(lacking)}")
    sys.exit(77)
missing = asked ^ results.keys()
if missing:
    bad.append(f"not in both lists: {', '.join(sorted(missing))}")
for name, result in results.items():
    if name in REFUSED or name in NOT_JUDGED or name == "honest":
        why = held_against(name, result)
        if why:
            bad.append(f"{name}: {why}")
    elif name == TIRES:
        pass
    elif results[name]["status"] != "held":
        bad.append(f"{name}: {results[name]['status']}: {results[name].get('failure')}")
for name in asked & {"honest", "says-merges"}:
    if not 0 < results[name].get("declared_share", 0) < 1:
        bad.append(f"{name}: the share of the bound that the kernel declares is missing")
if os.path.exists("/tmp/strangers-were-here") or os.path.exists("/tmp/strangers-folder"):
    bad.append("a file was written")

watched = [name for name in REFUSED if name.startswith("watched-") and not ON_GPU]
trusting, ran = check([f"{STRANGERS}:{name}" for name in watched]) if watched else ({}, None)
for name in watched:
    if trusting[name]["status"] != "held":
        bad.append(f"{name} fails without --untrusted: {trusting[name].get('failure')}")

# With a domain it must take 95 % of the drawn cases, whatever else the domain leaves out.
for domain in ("dim=16,64", "dim=16,64 no_bias") if TIRES and not NAMED else ():
    tired, ran = check([f"{STRANGERS}:honest", f"{STRANGERS}:{TIRES}"], "--untrusted", "--domain", domain)
    if tired["honest"]["status"] != "held":
        bad.append(f"honest, --domain '{domain}': {tired['honest']['status']}: {ran.stdout[-1000:]}")
    if tired[TIRES].get("cheat") != "refuses nearly everything":
        bad.append(f"{TIRES}, --domain '{domain}': {tired[TIRES]['status']}")

in_vain = len(asked & set(IN_VAIN)) if ON_GPU else 0
print("\n".join(bad) or f"{len(asked) - 1 - in_vain} kernels refused, each for what it does"
      + (f"; {in_vain} tried something that has no effect on a GPU" if in_vain else ""))
sys.exit(1 if bad else 0)
