#!/usr/bin/env bash
# exact.sh CMAKE SOURCE [NVCC HOST]: checks that an EXACT kernel is refused, with the reason, if it is compiled with an
# option that rounds differently on a GPU; and, if there is an nvcc, if it adds floats atomically, also in PTX.
set -u
cmake=$1 source=$2 nvcc=${3:-} host=${4:-}
source "$(dirname "$0")/../scratch.sh"
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
#include <cuda_bf16.h>
__global__ void mine(int* counts, unsigned* most, float* sums, __half2* halves, __nv_bfloat162* brains, float4* fours) {
  atomicAdd(counts, 1);
  atomicMax(most, 3u);
  const auto another_name = [](float* at, float x) { return atomicAdd(at, x); };
  const float old = another_name(sums, 1.0f);
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(sums), "f"(old));
  asm volatile("red.global.add.v2.f32 [%0], {%1, %1};" ::"l"(sums), "f"(old));
  atomicAdd(halves, __half2{});
  atomicAdd(brains, __nv_bfloat162{});
  atomicAdd(fours, float4{});
}
CUDA
"$cmake" -P "$source/cmake/check-atomics.cmake" -- "$nvcc" -ccbin "$host" -arch=sm_90 -std=c++20 -c "$out/mine.cu" \
  -o "$out/mine.o" >"$out/nvcc.log" 2>&1 && die "atomic additions of floats compile"
[ -e "$out/mine.o" ] && die "the object is there"
seen=$(tr -d '\n' <"$out/nvcc.log" | sed 's/  */ /g; s/.*numbers *(//; s/).*//')
due="atom.global.add.f32, red.global.add.f32, red.global.add.v2.f32, atom.add.noftz.f16x2, atom.add.noftz.bf16x2, atom.global.add.v4.f32"
[ "$seen" = "$due" ] || die "it is refused for '$seen', not '$due'"
echo "options and atomic additions of floats are refused"
