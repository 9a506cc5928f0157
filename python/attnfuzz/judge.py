"""Runs the command on a function: check() for tests, judge() for harnesses that take untrusted kernels."""

import ast
import hashlib
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile

from attnfuzz import home
from attnfuzz.cache import Cache
from attnfuzz.declare import Target, definition_of, target
from attnfuzz.domain import dtype_named
from attnfuzz.tensor import to_bits_of_bf16

_WRAPPER = """import importlib.util
import sys

from attnfuzz.domain import Domain, Size
from attnfuzz.errors import Errors
from attnfuzz.judge import redeclared

sys.path.insert(0, {folder!r})
{imports}
_spec = importlib.util.spec_from_file_location({module!r}, {path!r})
_module = importlib.util.module_from_spec(_spec)
sys.modules.setdefault({module!r}, _module)
_spec.loader.exec_module(_module)
{name} = redeclared(_module.{name}, {path!r}, {name!r}, {given})
"""


def redeclared(f, path, name, given):
    """A target with the arguments of target() that are `given`. If `f` is a target, it has the others, and its operation."""
    if isinstance(f, Cache):
        raise TypeError(_is_class(path, name))
    if not isinstance(f, Target):
        return target(f, **given)
    own = {x: getattr(f, x) for x in inspect.signature(target).parameters if x != "function"}
    return target(f.function, **{**own, **given, "operation": f.operation})


def named_modules(path):
    """The modules that a file names at its top. The file is read, not run; none if it cannot be read."""
    try:
        with open(path, "rb") as f:
            tree = ast.parse(f.read())
    except Exception:
        return []
    names = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.append(node.module)
    return sorted(set(names))


class Failed(AssertionError):
    """A check found a failure, or judged too little to say anything."""


def _is_class(path, name):
    return f"{name} is a class. Check it with the command: attnfuzz sequence {path}:{name}"


def _place(function):
    """File and name of a function that a worker can import; ValueError if it cannot."""
    if isinstance(function, Cache) or inspect.isclass(function):
        module = sys.modules.get(function.__module__)
        names = [n for n, value in vars(module).items() if value is function] if module else []
        raise TypeError(_is_class(getattr(module, "__file__", None) or "FILE.py", (names or [function.__name__])[0])
                        + ("" if isinstance(function, Cache) else " (with @attnfuzz.cache above it)"))
    inner = getattr(function, "function", function)
    definition = definition_of(inner)
    code = getattr(definition, "__code__", None)
    path = code.co_filename if code else inspect.getsourcefile(definition)
    name = definition.__qualname__
    # The function's name in its module may differ from __name__.
    given = []
    for module in (sys.modules.get(definition.__module__), sys.modules.get(getattr(function, "__module__", None))):
        given = [n for n, value in vars(module).items() if value is function] if module else []
        if given and getattr(module, "__file__", None):
            path, name = module.__file__, given[0]
            break
    if definition is not inner and not given:
        raise ValueError(f"{function!r} has no name in {path}, so no worker can import it: assign it to one at the top of the "
                         f"file that defines {name}")
    if not os.path.exists(path) or not path.endswith(".py"):
        raise ValueError(f"{name} is not in a file: a worker imports the file of a target, so write it into one")
    if "." in name:
        raise ValueError(f"{name} is inside of another function or class: a worker imports a target by its name, so "
                         "define it at the top of its file")
    return os.path.abspath(path), name


def _run(name, words, readable=None):
    if home.worker_of:
        raise RuntimeError(f"check() and judge() cannot run in a worker, and a worker imports {home.worker_of}: write them under "
                           "if __name__ == '__main__':")
    environment = dict(os.environ, ATTNFUZZ_PYTHON=sys.executable)
    if readable:
        environment["ATTNFUZZ_READABLE"] = ":".join(p for p in (readable, os.environ.get("ATTNFUZZ_READABLE")) if p)
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "check.json")
        ran = subprocess.run([home.command(), "check", name, *words, "--json", report], env=environment,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if not os.path.exists(report):
            raise RuntimeError(f"attnfuzz check {name}: {ran.stdout.strip()}")
        with open(report) as f:
            result = json.load(f)
    return result, ran


def check(function, cases=2000, seconds=None, seed=1, properties=(), out="found", errors=None, domain=None,
          operation="forward"):
    """Checks a target as `attnfuzz check` does; raises Failed with the reduced case and how to replay it.

    `function` is a target, or any function of (p, q, k, v, ...) at the top of a file; `errors`, `domain` and `operation`
    are then as attnfuzz.target() takes them. Returns the check's result as a dict.
    """
    words = ["--for", f"{seconds}s"] if seconds else ["--cases", str(cases)]
    words += ["--seed", str(seed), "--out", out]
    for name in properties:
        words += ["--property", name]
    result, ran = _run(_target_name(function, errors, domain, out, operation=operation), words)
    if ran.returncode != 0:
        raise Failed(failure_first(ran.stdout))
    return result


def failure_first(text):
    """The output of a check, with the failure and its replay line first."""
    text = text.strip()
    begin = re.search(r"^FAIL \(.*$", text, re.MULTILINE)
    if not begin:
        return text
    replay = re.search(r"^replay: .*$", text[begin.start():], re.MULTILINE)
    end = begin.start() + replay.end() if replay else len(text)
    return f"{text[begin.start():end]}\n\nThe whole check:\n{text}"


def _target_name(function, errors, domain, folder, device=None, arrays=None, untrusted=False, operation="forward"):
    """A target as the command names it. If the function is none, or gets another declaration, a file is written to `folder`.
    The file's name is made from what it declares, so that a later check finds its reproducers by the same name."""
    if isinstance(function, str):
        path, _, name = os.path.abspath(function).rpartition(":")
    else:
        path, name = _place(function)
    given = {"errors": errors, "domain": domain, "device": device, "arrays": arrays}
    given = {x: value for x, value in given.items() if value is not None}
    if operation != "forward":
        given["operation"] = operation
    if isinstance(function, Target) and not given:
        return f"{path}:{name}"
    # The installed ones of these modules are imported before a worker is confined (worker.py).
    imports = "\n".join(f"import {module}" for module in named_modules(path) if untrusted and module != "attnfuzz")
    text = _WRAPPER.format(folder=os.path.dirname(path), imports=imports, module=os.path.splitext(os.path.basename(path))[0],
                           path=path, name=name, given=given)
    wrapper = os.path.join(os.path.abspath(folder), f"judged_{name}_{hashlib.sha256(text.encode()).hexdigest()[:12]}.py")
    if not os.path.exists(wrapper):
        os.makedirs(folder, exist_ok=True)
        part = f"{wrapper}.{os.getpid()}"  # another process may check the same function
        with open(part, "w") as f:
            f.write(text)
        os.replace(part, wrapper)
    return f"{wrapper}:{name}"


def smallest_detectable(errors=None, length=1024, dim=64, dtype="f16"):
    """The smallest relative error of O that is detected, in the median element and relative to its root mean square, for
    Gaussian inputs of f16, bf16 or f32 with one head and this many keys."""
    import numpy

    from attnfuzz.oracle import oracle

    random = numpy.random.default_rng(1)
    rounded = {"f16": numpy.float16, "bf16": to_bits_of_bf16, "f32": numpy.float32}[dtype_named(dtype)]
    q = rounded(random.standard_normal((1, 1, 16, dim)))
    k, v = (rounded(random.standard_normal((1, 1, length, dim))) for _ in range(2))
    expected, bound = oracle(q, k, v, errors=errors)
    return float(numpy.median(bound) / numpy.sqrt((expected**2).mean()))


def judge(function, seconds=20, seed=None, errors=None, domain=None, device=None, arrays=None, untrusted=False,
          operation="forward"):
    """A verdict on a function, as a dict that json.dumps takes:

    verdict              "held", "failed", or "not judged"
    cases, judged        the number of drawn cases, and the share of them that was compared with the oracle
    worst                the largest error/bound of passing cases
    smallest_detectable  the relative error of O that would have been found, at 1024 keys, in the first of f16, bf16 and f32
                         that was drawn; if the function is given by its name, of the loosest classes unless `errors` are
                         given; only for a forward pass, else None
    declared             the share of the bound that the function declares or leaves open
    cheat                None, or the exploit that a failure or a refusal looks like (docs/untrusted.md)
    failure              None, or kind, message, the reduced case in a line and the largest error/bound
    why_not_judged       reasons in words

    `failure` is set exactly if the verdict is "failed", and `why_not_judged` is non-empty exactly if it is "not judged". A
    failure counts however little else was judged.

    What is given of `errors`, `domain`, `device` and `arrays` overrides the function's declaration. `seed`: of the stream
    of cases. None means 1; with `untrusted`, the system draws one, so that nobody knows the cases.

    untrusted: True, or "strict" for all measures. Give the function as "FILE.py:NAME": this process then does not import
    it; a worker does once it is confined. `errors` and `domain` are the caller's, and the function's declaration cannot
    extend them. What neither says is assumed at the loosest documented class.

    operation: of a plain function; a target has its own.
    """
    with tempfile.TemporaryDirectory() as folder:
        name = _target_name(function, errors, domain, folder, device, arrays, untrusted, operation)
        beside = None
        if untrusted:
            beside = os.path.dirname(os.path.abspath(function) if isinstance(function, str) else _place(function)[0])
        of = function if isinstance(function, Target) else None
        return verdict_on(name, seconds, seed, errors, domain, untrusted, beside, of, operation)


def _answer(result):
    """The verdict, the reasons and the failure of a check's result. If it does not pass, exactly
    one of the last two is set."""
    verdict = {"held": "held", "found": "failed"}.get(result["status"], "not judged")
    why = list(result["not_judged"]) if verdict == "not judged" else []
    if verdict == "not judged" and not why:
        why = [f"the check was {result['status']}"]
    return verdict, why, result["failure"] if verdict == "failed" else None


def verdict_on(name, seconds, seed, errors, domain, untrusted, beside=None, of=None, operation="forward"):
    """judge() for a target as the command names it. `beside`: a folder that it may read."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["--for", f"{seconds}s", "--out", os.path.join(folder, "found")]
        words += [] if seed is None else ["--seed", str(seed)]
        if untrusted:
            words += ["--untrusted=strict" if untrusted == "strict" else "--untrusted"]
            words += ["--errors", errors.words()] if errors else []
            words += ["--domain", domain.words()] if domain and domain.words() else []
        result, ran = _run(name, words, beside)
    every = result["all"]
    answer, why, failure = _answer(result)
    stated = errors or (of.errors if of else None)
    drawn = result["census"]["fields"]["dtype"]  # the number of calls in each format
    dtype = next((name for name in ("f16", "bf16", "f32") if drawn[name]), "f16")
    forward = (of.operation if of else operation) == "forward"
    verdict = {
        "verdict": answer,
        "cases": every["cases"],
        "judged": (every["passed"] + every["failed"]) / max(every["cases"], 1),
        "worst": every["worst"],
        "smallest_detectable": smallest_detectable(stated, dtype=dtype) if forward else None,
        "declared": result.get("declared_share"),
        "why_not_judged": why,
        "cheat": result.get("cheat") or (failure or {}).get("cheat") or None,
        "failure": None,
    }
    if failure:
        verdict["failure"] = {"kind": failure.get("kind"), "message": failure["message"], "index": failure.get("index"),
                              "case": result.get("reduction", {}).get("minimal"), "reduction": result.get("reduction", {})}
    if "untrusted" in result:
        verdict["untrusted"] = result["untrusted"]
    return verdict
