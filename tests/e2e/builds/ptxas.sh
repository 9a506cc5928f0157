#!/usr/bin/env bash
# ptxas.sh CMAKE CHECK_PTXAS NVCC HOST_CXX
#
# Checks that the build fails on a kernel that spills registers and on one whose wgmma
# products are serialised, prints what ptxas said, and leaves no object file. A kernel that
# does neither is compiled. Without -Xptxas=-v nothing is checked.
set -u
cmake=$1 check=$2 nvcc=$3 cxx=$4
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1
wrong=0

cat >clean.cu <<'CUDA'
__global__ void clean(float* x) { x[threadIdx.x] += 1; }
CUDA
cat >spill.cu <<'CUDA'
__global__ void __launch_bounds__(1024, 2) spill(float* x) {  // 32 registers a thread
  float held[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) held[i] = x[threadIdx.x + 1024 * i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; ++i) x[threadIdx.x * 64 + i] = held[63 - i] * held[i];
}
CUDA
cat >serial.cu <<'CUDA'
__device__ __noinline__ float elsewhere(float x) { return x * x + 1; }
__global__ void serial(float* out, unsigned long long a, unsigned long long b) {
  float d[4] = {out[0], out[1], out[2], out[3]};
  asm volatile("wgmma.fence.sync.aligned;");
  for (int i = 0; i < 2; ++i) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
    out[8 + i] = elsewhere(d[0]);  // reads what is under way
  }
  asm volatile("wgmma.commit_group.sync.aligned;");
  asm volatile("wgmma.wait_group.sync.aligned 0;");
  for (int i = 0; i < 4; ++i) out[i] = d[i];
}
CUDA

# expect NAME STATUS WORDS [OPTION...]: compiles NAME.cu. The output must have WORDS, and an object must exist if STATUS
# is 0.
expect() {
  local name=$1 status=$2 words=$3
  shift 3
  "$cmake" -P "$check" -- "$nvcc" -ccbin "$cxx" --generate-code=arch=compute_90a,code=[sm_90a] "$@" -c "$name.cu" -o "$name.o" \
    >"$name.log" 2>&1
  local failed=$(($? != 0)) object=0
  [ -e "$name.o" ] && object=1
  if [ $failed -ne "$status" ] || [ $object -eq "$status" ] || { [ "$words" ] && ! grep -q -e "$words" "$name.log"; }; then
    echo "$name.cu $*: failed $failed (expected $status), object $object, '$words' expected in"
    cat "$name.log"
    wrong=1
  fi
  rm -f "$name.o"
}
expect clean 0 ''
expect clean 0 '' -Xptxas=-v
expect spill 0 ''
expect spill 1 'spill.cu.*not as fast' -Xptxas=-v
grep -q 'bytes spill stores' spill.log || { echo "spill.cu: no number of bytes"; wrong=1; }
expect serial 1 'C75' -Xptxas=-v
# A launcher that is not there is named.
"$cmake" -P "$check" -- no-such-launcher "$nvcc" -c clean.cu -o clean.o >absent.log 2>&1 && { echo 'absent launcher: passed'; wrong=1; }
grep -q 'no-such-launcher' absent.log || { echo 'absent launcher: not named:'; cat absent.log; wrong=1; }
exit $wrong
