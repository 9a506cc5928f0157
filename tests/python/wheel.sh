#!/usr/bin/env bash
# wheel.sh PYTHON CMAKE BUILD SOURCES: the wheel of a build asks for no newer C library than glibc 2.34, says what it is,
# and, installed into a fresh virtual environment without a network, has the command in it. That finds a bug in a function
# of three lines, and builds and checks a CUDA source without a source tree of ours.
set -u
python=$1 cmake=$2 build=$3 sources=$4
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
"$cmake" --install "$build" --component package --prefix "$out/stage" >"$out/log" 2>&1 || die "it cannot be installed"
"$python" "$sources/python/make_wheel.py" "$out/stage" "$out/wheel" >"$out/log" 2>&1 || die "no wheel"
newest=$(find "$out/stage" -type f \( -path '*/bin/*' -o -name '*.so' \) -exec readelf -W --dyn-syms {} + 2>/dev/null |
  grep -o '@GLIBC_[0-9.]*' | sort -uV | tail -1)
echo "newest: $newest; $(cd "$out/wheel" && ls)" >"$out/log"
[ "$(printf '%s\n@GLIBC_2.34\n' "$newest" | sort -V | tail -1)" = @GLIBC_2.34 ] || die "the wheel needs glibc ${newest#@GLIBC_}"
ls "$out"/wheel/attnfuzz-*-py3-none-manylinux_2_34_*.whl >/dev/null 2>&1 || die "its name says another C library"
rm -r "$out/stage"
"$out/venv/bin/python" -m pip install -q --no-index --no-deps "$out"/wheel/*.whl >"$out/log" 2>&1 || die "the wheel cannot be installed"
"$out/venv/bin/python" - >"$out/log" 2>&1 <<'END' || die "the wheel does not say what it is"
import importlib.metadata, os
import attnfuzz
about = importlib.metadata.metadata("attnfuzz")
assert about["Version"] == attnfuzz.__version__, (about["Version"], attnfuzz.__version__)
assert about["Summary"] and about["License"] == "Apache-2.0" and len(about.get_all("Classifier")) > 5, about.items()
assert "numpy" in importlib.metadata.requires("attnfuzz"), importlib.metadata.requires("attnfuzz")
files = {str(file) for file in importlib.metadata.files("attnfuzz")}
assert "attnfuzz/py.typed" in files and any(file.endswith(".dist-info/LICENSE") for file in files)
assert os.access(os.path.join(os.path.dirname(attnfuzz.__file__), "bin", "attnfuzz"), os.X_OK)
END
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
cp "$sources/tests/e2e/wild/naive.cu" mine.cu
venv/bin/attnfuzz check mine.cu --entry 'attention_forward(q, k, v, o, B, H, S, D)' --cases 40 --jobs 1 --out entry >log 2>&1 ||
  die "a CUDA source is not built and checked"
grep -q ": 40 cases, " log || die "its 40 cases were not drawn"
# On a machine that has g++ and no clang.
if command -v g++ >log; then
  mkdir tools && for tool in sh sed grep cat cmake ninja make as ld ar ranlib g++; do
    ln -s "$(command -v $tool)" tools/ 2>>log
  done
  PATH=$out/tools CXX= venv/bin/attnfuzz check mine.cu --entry 'attention_forward(q, k, v, o, B, H, S, D)' --cases 40 \
    --jobs 1 --out by_gxx >log 2>&1 || die "g++ alone does not build and check a CUDA source"
  grep -q "built for the CPU executor by g++" log && grep -q ": 40 cases, " log || die "g++ has not built it"
fi
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
  grep -q ", reduced in [0-9]* evaluations\?" log || die "the fixture does not show the reduced case"
else
  echo "not tried: the pytest fixture (no pytest)"
fi
exit 0
