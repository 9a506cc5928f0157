#!/usr/bin/env bash
# torch.sh ATTNFUZZ PYTHON PACKAGE: what needs PyTorch and Triton, on the CPU; skipped where no Python with them is named.
set -u
attnfuzz=$1 package=$3
export ATTNFUZZ_PYTHON=$2 PYTHONPATH=$3
here=$(cd "$(dirname "$0")" && pwd)
[ -n "$ATTNFUZZ_PYTHON" ] && "$ATTNFUZZ_PYTHON" -c "import torch, triton" 2>/dev/null || {
  echo "SKIPPED: no Python with PyTorch and Triton (-DATTNFUZZ_TORCH_PYTHON=...)"
  exit 77
}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1
die() {
  echo "$*"
  cat log
  exit 1
}
check() { "$attnfuzz" check "$1" --jobs 2 --work "${work:-20000}" --out "$out" "${@:2}" >log 2>&1; }

# By Triton's interpreter: the target, and the same with one wrong line.
kernel=$package/attnfuzz/targets/triton_attention.py
export TRITON_INTERPRET=1
check "$kernel" --cases 40 || die "the kernel in Triton does not hold"
sed 's/acc = acc \* rescale\[:, None\]/acc = acc * 1.0/' "$kernel" >mine.py
check ./mine.py --cases 40 --reduce-seconds 20 && die "a line of Triton was wrong, and it was not found"
grep -q ", reduced in [0-9]* evaluations\?" log || die "it was not reduced"
# The same for listed blocks: a wrong line shifts the keys of the second block.
kernel=$package/attnfuzz/targets/triton_selected.py
check "$kernel" --cases 40 --domain "seq_q=0..4 seq_k=0..70 batch=1..2 heads_q=1..4 dim=1..32" ||
  die "the kernel of listed blocks in Triton does not hold"
sed 's/keys = names \* block + numbers % block/& + tl.where(places == 1, 1, 0)/' "$kernel" >shifted.py
check ./shifted.py --cases 40 --domain "seq_q=1 seq_k=0..100 batch=1 heads_q=1 dim=1..32" --reduce-seconds 0.1 &&
  die "shifted keys of a listed block were not found"
unset TRITON_INTERPRET

check "$package/attnfuzz/targets/torch_cpu.py:cpu_math" --cases 100 || die "SDPA's math on the CPU does not hold"
check "$package/attnfuzz/targets/flex_selected.py:selected_eager" --cases 60 || die "FlexAttention over listed blocks does not hold"

# The GPU targets declare what PyTorch takes, and enough of their arithmetic that most cases are judged.
for target in fake_sdpa.py:{efficient,cudnn} fake_libraries.py:xformers_{cutlass,flash,splitk,splitk_bias} \
    fake_libraries.py:flashinfer_{prefill,prefill_fa3,decode}; do
  # So many that the share means something, and fewer than floors of the draw are judged of.
  work=100000 check "$here/$target" --cases 499 --json json || die "$target does not hold, on the CPU"
  "$ATTNFUZZ_PYTHON" - json <<'END' || die "less than 95 % of the cases of $target are judged"
import json, sys
every = json.load(open(sys.argv[1]))["all"]
sys.exit(every["passed"] < 0.95 * every["cases"])
END
done

# Memory that PyTorch allocates is poison, too.
cat >fresh.py <<'END'
import torch
import attnfuzz
from attnfuzz.targets import torch_cpu

@attnfuzz.target(arrays="torch", errors=torch_cpu.ERRORS, domain=torch_cpu.DOMAIN)
def fresh(p, q, k, v, bias=None, mask=None):
    sums = torch.empty((p.batch, p.heads_q, p.seq_q, p.dim_v))
    sums += torch_cpu.cpu_math.function(p, q, k, v, bias, mask)
    return sums
END
check ./fresh.py --cases 20 --reduce-seconds 1 && die "memory that was read before it was written was not found"
grep -q "^FAIL (reference, non-finite): .* is nan" log || die "and not told as NaN"
unset ATTNFUZZ_PYTHON
PYTHONPATH=$package:$PYTHONPATH "$2" "$here/harness_test.py" torch >log 2>&1 || die "submissions in PyTorch"
