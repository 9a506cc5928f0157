"""untrusted.py ATTNFUZZ [all]: functions of strangers, each refused for what it does; what a file does when imported.
untrusted.py ATTNFUZZ torch [NAME...]: those of torch_strangers.py, on a GPU where there is one; those named, and `honest`.

One check of strangers.py, confined as far as this machine can: of those that SHORT names, or of all.
"""

import json
import os
import subprocess
import sys
import tempfile

ATTNFUZZ = os.path.abspath(sys.argv[1])
TORCH = "torch" in sys.argv[2:3]
ON_GPU = TORCH and os.path.exists("/dev/nvidiactl")
STRANGERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_strangers.py" if TORCH else "strangers.py")

DOMAIN = "dim<=64 seq<=200 no_bias no_mask no_key_lengths"
if TORCH:
    DOMAIN += " seq>=1 batch>=1 no_window no_softcap finite"
NUMBERS = ("wrong", "non-finite", "relation", "dirty", "unwritten")
# Target: kinds, one of which the failure has; words of its message; the exploit that is named, if it is always.
REFUSED = {
    "forks": (("crash",), "of clone()", "starts a process"),
    "executes": (("crash",), "of execve()", "starts a process"),
    "writes_file": (("fault",), "PermissionError", None),
    "writes_beside": (("fault",), "PermissionError", None),
    "reads_files": (("fault",), "PermissionError", None),
    "reads_parent": (("fault",), "PermissionError", None),
    "connects": (("crash",), "of socket()", "uses the network"),
    "kills_parent": (("crash",), "of kill()", "sends signals"),
    "catches_crash": (("crash",), "of sigaction()", "handles crashes"),
    "leaves": (("crash",), "exit status 0 in run()", "ends the process"),
    "uses_memory": (("fault",), "MemoryError", None),
    "writes_inputs": (("crash",), "SIGSEGV in run(), byte", "writes inputs"),
    "writes_nothing": (NUMBERS, "", None),
    "later": (NUMBERS + ("race",), "", None),
    "cached_by_shape": (NUMBERS, "", "earlier answer"),
    "one_behind": (NUMBERS, "", "earlier answer"),
    "watches_environment": (NUMBERS, "", None),
    "watches_arguments": (NUMBERS, "", None),
    "says_merges": (NUMBERS, "", "looser plan"),
    "changes_the_plan": (NUMBERS, "", None),
    "judges_itself": (NUMBERS, "", None),
    "scribbles": (("crash", "guard"), "", None),
    "imaginary": (("fault",), "an O of complex", None),
    "as_text": (("fault",), "an O of <U", None),
    "lying_array": (NUMBERS, "", None),
    "generates": (("fault",), "raised AttributeError", None),
    "edits_its_caller": (NUMBERS, "", None),
    "when_collected": (NUMBERS, "", None),
    "knows_its_inputs": (NUMBERS, "", None),
    "patches_numpy": (NUMBERS + ("fault",), "", None),
    "reads_its_map": (NUMBERS, "", None),
    "says_that_it_compiles": (("hang",), "", None),
}
# In PyTorch: on the CPU, and on a GPU, where it is another. Inputs can be written there, and a system call that fails
# is no reason to end a process that a driver lives in (docs/untrusted.md).
TORCH_REFUSED = {name: REFUSED[name] for name in (
    "forks", "executes", "writes_file", "writes_beside", "reads_files", "reads_parent", "connects", "kills_parent",
    "catches_crash", "leaves", "writes_inputs", "writes_nothing", "later", "cached_by_shape", "one_behind",
    "watches_environment", "watches_arguments", "says_merges", "changes_the_plan", "edits_its_caller")}
TORCH_REFUSED |= {
    "reads_disk": (("fault",), "PermissionError", None),
    "shares_memory": (("fault",), "PermissionError", None),
    "restores_inputs": (("crash",), "SIGSEGV in run(), byte", "writes inputs"),
    "never_written": (NUMBERS, "", None),
    "stale_buffer": (NUMBERS, "", None),
    "other_stream": (NUMBERS + ("race",), "", None),
    "cached_by_pointer": (NUMBERS, "", "earlier answer"),
    "cached_by_sample": (NUMBERS, "", "earlier answer"),
    "cached_by_queries": (NUMBERS, "", "earlier answer"),
    "second_skipped": (NUMBERS, "", "earlier answer"),
    "patches_torch": (NUMBERS, "", None),
}
if ON_GPU:
    TORCH_REFUSED["writes_inputs"] = (("input-changed",), "", "writes inputs")
    del TORCH_REFUSED["restores_inputs"]  # nothing sees it there
REFUSE = ("refuses_most", "mute_refusal")
TIRES = "refuses_from_then_on"  # takes all that it is asked first
SLEEPS = "sleeps"  # holds, and is asked next to nothing in the time that there is
SHORT = ("honest", "forks", "reads_parent", "writes_inputs", "imaginary", "cached_by_shape", "says_merges", "refuses_most")
AT_IMPORT = {
    "import os; os._exit(0)": "exit status 0 while the library was loaded",
    "import os; os.fork()": "of clone(), which no untrusted kernel may call",
    "open('/tmp/strangers-were-here', 'w')": "PermissionError",
    "import strange_helper": "PermissionError",
}
WAKES_DRIVER = """
import ctypes, os, subprocess
driver = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "driver.so"))
if "ATTNFUZZ_IMPORT_LATE" not in os.environ:
    try:
        subprocess.run(["/bin/true"], check=True)
    except OSError as e:
        open(f"/no program was started: {e}")
driver.cuInit(0)

def works():
    return driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) == 0
"""
TARGET = """
import attnfuzz
from attnfuzz.targets import numpy_reference
@attnfuzz.target(bf16="bits", errors=numpy_reference.ERRORS, domain=attnfuzz.Domain(bias=False, mask=False, key_lengths=False))
def mine(p, q, k, v):
"""
RETURN = "    return numpy_reference.attention.function(p, q, k, v)\n"
if TORCH:
    REFUSED, REFUSE, TIRES, SLEEPS = TORCH_REFUSED, ("refuses_most",), None, None
bad = []


def check(folder, *words, length=("--cases", "40"), log=None):
    report = os.path.join(folder, "check.json")
    if os.path.exists(report):
        os.remove(report)
    ran = subprocess.run(
        [ATTNFUZZ, "check", *words, "--untrusted", "--domain", DOMAIN, *length, "--seed", "1", "--jobs", "1", "--reduce-seconds", "0.01", "--work",
         "30000", "--watchdog", "5", *(("--backend", "cuda") if ON_GPU else ()), "--out", os.path.join(folder, "found"), "--json", report],
        env=dict(os.environ, ATTN_HARNESS="1", ATTNFUZZ_PYTHON=sys.executable), cwd=folder,
        stdout=open(log, "w") if log else subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if log:
        with open(log) as f:
            ran.stdout = f.read()
    if not os.path.exists(report):
        return {}, ran
    with open(report) as f:
        return {result["kernel"]: result for result in map(json.loads, f)}, ran


def held_against(name, result):
    if name in ("honest", TIRES, SLEEPS):
        return None if result["status"] == "held" else f"{result['status']}: {result.get('failure')}"
    if name in REFUSE:
        return None if result.get("cheat") == "refuses nearly everything" else f"status {result['status']}"
    kinds, words, exploit = REFUSED[name]
    if "failure" not in result:
        return f"status {result['status']}"
    failure = result["failure"]
    if failure["kind"] not in kinds or words not in failure["message"]:
        return f"{failure['kind']}: {failure['message']}"
    return f"exploit {failure['cheat']!r}" if exploit and failure["cheat"] != exploit else None


with tempfile.TemporaryDirectory() as folder:
    every = "all" in sys.argv[2:]
    if TORCH:
        SHORT = ("honest", *(sys.argv[3:] or (*REFUSED, *REFUSE)))
    results, ran = check(folder, *([STRANGERS] if every else [f"{STRANGERS}:{name}" for name in SHORT]))
    if not results:
        sys.exit(ran.stdout[-4000:])
    lacking = results["honest"]["untrusted"]["lacking"]
    if lacking:
        print(f"SKIPPED: this machine lacks {', '.join(lacking)}")
        sys.exit(77)
    missing = (REFUSED.keys() | {"honest", TIRES, SLEEPS, *REFUSE} if every else set(SHORT)) ^ results.keys()
    if missing:
        bad.append(f"not in both lists: {', '.join(sorted(missing))}")
    bad += [f"{name}: {why}" for name, result in results.items() if (why := held_against(name, result))]

    if every:
        tired, _ = check(folder, f"{STRANGERS}:{TIRES}", length=("--cases", "160"))
        if tired[TIRES].get("cheat") != "refuses nearly everything":
            bad.append(f"{TIRES}: {tired[TIRES]['status']}")

        slept, ran = check(folder, f"{STRANGERS}:{SLEEPS}", length=("--for", "1s"))
        if slept[SLEEPS]["status"] != "not judged" or "too few to say anything" not in ran.stdout:
            bad.append(f"{SLEEPS}: {slept[SLEEPS]['status']}")

    # A file beside it is a part of it; neither does anything before it is confined.
    with open(os.path.join(folder, "strange_helper.py"), "w") as f:
        f.write("open('/tmp/strangers-were-here', 'w')\n")
    for text, words in list(AT_IMPORT.items())[len(AT_IMPORT) if TORCH else 0 if every else 2:]:
        path = os.path.join(folder, "submitted.py")
        with open(path, "w") as f:
            f.write(text + "\n")
        _, ran = check(folder, path)
        if ran.returncode != 2 or words not in ran.stdout:
            bad.append(f"{text}: status {ran.returncode}: {ran.stdout[-300:]}")

    # The process that workers are forked from imports installed modules. It has given up the right to write files by then.
    installed = os.path.join(folder, "installed")
    os.mkdir(installed)
    with open(os.path.join(installed, "writes_when_imported.py"), "w") as f:
        f.write("open('/tmp/strangers-were-here', 'w')\n")
    with open(os.path.join(folder, "submitted.py"), "w") as f:
        f.write("import writes_when_imported\n")
    os.environ["PYTHONPATH"] = installed
    check(folder, os.path.join(folder, "submitted.py"))

    # It may start programs, as some modules do on import, and itself if a module wakes the CUDA driver.
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", os.path.join(installed, "driver.so"),
                    os.path.join(os.path.dirname(STRANGERS), "fake_driver.c")], check=True)
    with open(os.path.join(installed, "wakes_driver.py"), "w") as f:
        f.write(WAKES_DRIVER)
    with open(os.path.join(folder, "submitted.py"), "w") as f:
        f.write("import wakes_driver\n" + TARGET + "    assert wakes_driver.works()\n" + RETURN)
    got, ran = check(folder, os.path.join(folder, "submitted.py"), length=("--cases", "20"))
    if ran.returncode != 0:
        bad.append(f"a file that names a module which wakes the driver: {ran.returncode}: {ran.stdout[-1000:]}")
    del os.environ["PYTHONPATH"]

    # Whatever a file does, there is a verdict on it once a check has begun, and on others in any case.
    leaving, gone = os.path.join(folder, "leaving.py"), os.path.join(folder, "gone")
    with open(leaving, "w") as f:
        f.write(f"import os\nif os.path.exists({gone!r}): os._exit(0)\n" + TARGET
                + f"    if os.path.exists({gone!r}): os._exit(0)\n" + RETURN)
    for words in (), ("--keep-going",):
        # It leaves in the midst of the check, and cannot be imported from then on.
        log = os.path.join(folder, "log")
        timer = subprocess.Popen(["sh", "-c", "until grep -q bound: log; do sleep 0.1; done; sleep 2; touch gone"], cwd=folder,
                                 stderr=subprocess.DEVNULL)
        got, ran = check(folder, f"{leaving}:mine", f"{STRANGERS}:honest", "-v", *words, length=("--for", "4s"), log=log)
        timer.wait()
        os.remove(gone), os.remove(log)
        said = got.get("mine", {}), got.get("honest", {})
        if ran.returncode != 1 or said[0].get("status") != "found" or said[1].get("status") != "held":
            bad.append(f"one that leaves, {words}: {ran.returncode}: {ran.stdout[-1000:]}")
        elif said[0]["failure"]["kind"] != "crash":
            bad.append(f"one that leaves, {words}: {said[0]['failure']}")
    with open(gone, "w"):
        got, ran = check(folder, f"{leaving}:mine", f"{STRANGERS}:honest")
    if ran.returncode != 2 or got.keys() != {"honest"} or "exit status 0 while the library was loaded" not in ran.stdout:
        bad.append(f"one that leaves at once: {ran.returncode}: {ran.stdout[-1000:]}")
for path in ("/tmp/strangers-were-here", "/dev/shm/strangers-were-here", STRANGERS + ".was-here"):
    if os.path.exists(path):
        bad.append(f"{path} was written")

print("\n".join(bad) or f"{len(results) - 1} functions are refused, each for what it does, and files for what they import")
sys.exit(1 if bad else 0)
