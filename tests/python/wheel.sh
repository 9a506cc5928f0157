#!/usr/bin/env bash
# wheel.sh PYTHON SOURCES VERSION BINARY...: the wheel, installed into a fresh virtual environment without a
# network, has the command in it, and that finds a bug in a function of three lines.
set -u
python=$1 sources=$2 version=$3
shift 3
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
die() {
  echo "$*"
  cat "$out/log"
  exit 1
}
# With the system's packages: NumPy is one.
"$python" -m venv --system-site-packages "$out/venv" >"$out/log" 2>&1 && "$out/venv/bin/python" -m pip --version >>"$out/log" 2>&1 || {
  echo "SKIPPED: $python makes no virtual environment with pip (python3-venv)"
  exit 77
}
# Also where $python is one of a virtual environment itself, whose packages are nobody's system's.
"$python" -c 'import numpy, os; print(os.path.dirname(os.path.dirname(numpy.__file__)))' >"$("$out/venv/bin/python" -c \
  'import sysconfig; print(sysconfig.get_path("purelib"))')/beside.pth"
"$python" "$sources/make_wheel.py" --version "$version" --package "$sources/attnfuzz" --to "$out/wheel" "$@" >"$out/log" 2>&1 ||
  die "no wheel"
"$out/venv/bin/python" -m pip install -q --no-index --no-deps "$out"/wheel/*.whl >"$out/log" 2>&1 || die "the wheel cannot be installed"
cat >"$out/mine.py" <<'END'
import attnfuzz
from attnfuzz.targets.numpy_reference import attention as right

@attnfuzz.target(domain=attnfuzz.Domain(bias=False, mask=False, key_lengths=False))
def mine(p, q, k, v):
    o, lse = right.function(p, q, k, v)
    return o, lse + (p.seq_k > 64)

def test_mine(attnfuzz):
    attnfuzz.check(mine, cases=100)
END
cd "$out" || exit 1
unset PYTHONPATH
venv/bin/attnfuzz check ./mine.py:mine --cases 100 --reduce-seconds 5 --out found >log 2>&1
[ $? -eq 1 ] && grep -q "^  B=1 H=1/1 S=1/65 D=1/1 f16; Q, K, V zero" log || die "the installed command does not find and reduce the bug"
venv/bin/python -m attnfuzz replay found/*.attn.json --kernel ./mine.py:mine >log 2>&1
[ $? -eq 1 ] || die "python -m attnfuzz does not replay it"
venv/bin/python - >log 2>&1 <<'END' || die "judge() does not say so"
import json, sys
sys.path.insert(0, ".")
import attnfuzz, mine
verdict = json.loads(json.dumps(attnfuzz.judge(mine.mine, seconds=2)))
assert verdict["verdict"] == "failed" and "S=1/65" in verdict["failure"]["case"], verdict
right = attnfuzz.judge(mine.right, seconds=2)
assert right["verdict"] == "held" and right["judged"] > 0.9 and 0 < right["smallest_detectable"] < 0.1, right
END
if venv/bin/python -c "import pytest" 2>/dev/null; then
  venv/bin/python -m pytest -q mine.py -p no:cacheprovider >log 2>&1 && die "the fixture lets the bug pass"
  grep -q "REDUCED in" log || die "the fixture does not show the reduced case"
else
  echo "not tried: the pytest fixture (no pytest)"
fi
exit 0
