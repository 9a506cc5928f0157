#!/usr/bin/env bash
# any_torch.sh ATTNFUZZ PACKAGE PYTHON...: what needs PyTorch, of whatever version, by the first Python that has it: views of guarded
# memory, strides below 0 too, poison in what it allocates, steps of training, strangers. Skipped where none has it.
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
check_nsa() {
  "$attnfuzz" check "$package/attnfuzz/targets/torch_nsa.py:nsa_score" --cases 150 --jobs 2 --work 20000 --out "$out" >log 2>&1
}
check_nsa || die "scores of blocks in plain operators do not hold"
check never_written --cases 20 --reduce-seconds 0.1 && die "memory that was never written was not found"
grep -q "^FAIL (.*non-finite): .* is nan" log || die "and not told as NaN"

# Two steps of training: right passes, and passes with a planted fault.
training=$package/attnfuzz/targets/torch_training.py faults=$here/torch_training_faults.py
# step STATUS WORDS FORWARD BACKWARD...: runs the step, and checks its status and that it says WORDS.
step() {
  "$attnfuzz" train-step "${@:3}" --reduce-seconds 2 --out "$out" >log 2>&1
  [ $? -eq "$1" ] || die "train-step ${*:3}: status $1 is due"
  grep -qE -- "$2" log || die "train-step ${*:3}: it does not say: $2"
}
right=$training:forward
gradients=$training:backward
step 0 ': 6 batches of S = 127 to 129, 2 steps each, 0 failed' "$right" "$gradients" --lengths 127:129
step 0 '^  note: all gates are equal \(0\): ' "$right" "$gradients" --lengths 64 --gates zero
step 1 'S = 512, step 1: forward: o\(.* is nan, .*; the loss is nan$' "$faults:nan_at_512" "$gradients" --lengths 511:513
grep -q '^  it fails so dense at S = 512 only, of 3 lengths$' log || die "and not told with its length"
step 1 'step 1: backward changed the saved tensor o: ' "$right" "$faults:saved_in_place" --lengths 64
step 1 'S = 64, packed as .*; the longest sequence alone, not packed, is right$' "$faults:uninitialised_cu" "$gradients" --lengths 64
step 1 'step 2: forward: lse\(.*; O is right$' "$faults:lse_of_an_earlier_call" "$gradients" --lengths 64
step 1 'step 1: backward: dk\(.*; DQ is right; DV is right$' "$right" "$faults:losing_last_key" --lengths 64
step 0 '^  left out: dense at S = 41 only, of 2 lengths: up_to_40: ' "$faults:up_to_40" "$gradients" --lengths 40:41
# 77: this machine confines nothing.
"$python" "$here/untrusted.py" "$attnfuzz" torch reads_parent writes_inputs cached_by_pointer second_skipped says_merges \
  refuses_most >log 2>&1 || [ $? -eq 77 ] || die "strangers in PyTorch"
echo "$("$python" -c 'import torch; print(torch.__version__)'): views, poison, steps of training and strangers"
