#!/usr/bin/env bash
# any_torch.sh ATTNFUZZ PACKAGE PYTHON...: what needs PyTorch, of whatever version, by the first Python that has it: views of guarded
# memory, strides below 0 too, poison in what it allocates, strangers. Skipped where none has it.
set -u
attnfuzz=$1 package=$2
here=$(cd "$(dirname "$0")" && pwd)
python=""
for one in "${@:3}"; do
  [ -z "$python" ] && "$one" -c "import torch, numpy" 2>/dev/null && python=$one
done
[ -n "$python" ] || {
  echo "SKIPPED: no Python with PyTorch (python3-torch, or -DATTNFUZZ_TORCH_PYTHON=...)"
  exit 77
}
export ATTNFUZZ_PYTHON=$python PYTHONPATH=$package
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1
die() {
  echo "$*"
  cat log
  exit 1
}
check() { "$attnfuzz" check "$here/torch_strangers.py:$1" --jobs 2 -v --work 20000 --out "$out" "${@:2}" >log 2>&1; }

check honest --cases 200 || die "attention in plain operators does not hold"
grep -q "negative strides [1-9]" log || die "no stride below 0 was drawn"
check differentiated --cases 150 || die "automatic differentiation of plain operators does not hold"
check differentiated_in_all --cases 150 || die "automatic differentiation of O and the LSE does not hold"
check never_written --cases 20 --reduce-seconds 0.1 && die "memory that was never written was not found"
grep -q "^FAIL (.*non-finite): .* is nan" log || die "and not told as NaN"
# 77: this machine confines nothing.
"$python" "$here/untrusted.py" "$attnfuzz" torch reads_parent writes_inputs cached_by_pointer second_skipped says_merges \
  refuses_most >log 2>&1 || [ $? -eq 77 ] || die "strangers in PyTorch"
echo "$("$python" -c 'import torch; print(torch.__version__)'): views, poison and strangers"
