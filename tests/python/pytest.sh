#!/usr/bin/env bash
# pytest.sh PYTHON PACKAGE: the fixture's options, what a failure shows first, and reproducers that are tried again.
set -u
python=$1
export PYTHONPATH=$2
"$python" -c "import pytest" 2>/dev/null || { echo "SKIPPED: $python has no pytest (python3-pytest)"; exit 77; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1
cat >mine.py <<'END'
import attnfuzz
from attnfuzz.targets.numpy_reference import attention as right

@attnfuzz.target(domain=attnfuzz.Domain(bias=False, mask=False, key_lengths=False))
def mine(p, q, k, v):
    o, lse = right.function(p, q, k, v)
    return o, lse + (p.seq_k > 64)
END
cat >test_mine.py <<'END'
import pytest
from mine import mine, right

def test_mine(attnfuzz):
    attnfuzz.check(mine, cases=100)

def test_right(attnfuzz):
    result = attnfuzz.check(right)
    print("CASES", result["all"]["cases"], "SEED", result["seed"])
END
touch pytest.ini
die() { echo "$*"; cat log; exit 1; }
run() { "$python" -m pytest -q -s -p attnfuzz.pytest_plugin -p no:cacheprovider "$@" >log 2>&1; }

run test_mine.py::test_right --attnfuzz-cases 30 --attnfuzz-seed 7 || die "a right function fails"
grep -q "CASES 30 SEED 7" log || die "--attnfuzz-cases and --attnfuzz-seed say nothing"
run test_mine.py::test_right --attnfuzz-profile ci || die "a right function fails"
grep -q "CASES 200 " log || die "the profile ci is not 200 cases"
run test_mine.py::test_mine && die "the bug passes"
grep -m1 '^E  ' log | grep -q "Failed: FAIL (" || die "what is wrong is not the first line of the failure"
ls .attnfuzz/test_mine.py_test_mine/*.attn.json >/dev/null || die "no reproducer is kept"
run test_mine.py::test_mine --attnfuzz-cases 0 && die "what was found before is not tried first"
grep -q "found before, and still there" log || die "it is not told that it was found before"
exit 0
