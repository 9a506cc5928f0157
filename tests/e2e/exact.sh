#!/usr/bin/env bash
# exact.sh CMAKE SOURCE [NVCC HOST]: an EXACT kernel is refused, with the reason, where it is compiled with an option that
# rounds otherwise on a GPU, and, where there is an nvcc, where it adds floats atomically.
set -u
cmake=$1 source=$2 nvcc=${3:-} host=${4:-}
source "$(dirname "$0")/scratch.sh"
printf 'include(%s/cmake/AttnfuzzExact.cmake)\nattnfuzz_refuse_inexact(mine "${options}")\n' "$source" >"$out/refuse.cmake"
for option in -use_fast_math --use_fast_math -Xcompiler=-ffast-math -Ofast -ftz=true "--ftz;true" -fmad=true -prec-div=false \
  -prec-sqrt=false -ffp-contract=fast; do
  "$cmake" -D "options=-O2;$option" -P "$out/refuse.cmake" >"$out/refuse.log" 2>&1 && die "$option is not refused"
  grep -q "attnfuzz_add_kernel(mine EXACT)" "$out/refuse.log" || die "$option: refused without a word of EXACT"
done
for option in -O3 -ftz=false -fmad=false -ffp-contract=off; do
  "$cmake" -D "options=-O2;$option" -P "$out/refuse.cmake" >"$out/refuse.log" 2>&1 || die "$option is refused"
done
[ -n "$nvcc" ] || { echo "options are refused; no nvcc: atomics not tried"; exit 0; }
cat >"$out/mine.cu" <<'CUDA'
__global__ void mine(int* counts, float* sums) {
  atomicAdd(counts, 1);
  ::atomicAdd(sums, 1.0f);
}
CUDA
"$nvcc" -ccbin "$host" -std=c++20 -I"$source" -include kernels/exact.h --ptx -o "$out/mine.ptx" "$out/mine.cu" >"$out/nvcc.log" 2>&1 &&
  die "an atomicAdd of floats compiles"
grep -q "EXACT: an atomicAdd of floating-point" "$out/nvcc.log" || die "it does not compile for another reason"
grep -q "T=int" "$out/nvcc.log" && die "an atomicAdd of integers does not compile"
echo "options and an atomicAdd of floats are refused"
