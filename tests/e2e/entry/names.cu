// Legal CUDA whose names once clashed with ours: host variables called blockDim and gridDim, a constant called
// warpSize at the top of the file and in a namespace, macros of one letter and of words that our headers use,
// functions and types called attn, attn_kernel, Call, Entry, Args and Takes.
#include <cuda_runtime.h>
#include <math.h>

constexpr int warpSize = 32;
namespace common {
constexpr int warpSize = 32;
}

#define B 2
#define D 64
#define S 128
#define T float
#define d 64
#define o out
#define Lanes 32
#define result 1
#define now 2
#define Shape 3

namespace Entry {
struct Args {
  const float *q, *k, *v;
  float* out;
  int s, dim;
};
}  // namespace Entry
struct Call {
  int heads, s;
};
struct Takes : Call {};

template <class Number>
__device__ Number attn(const Entry::Args& a, int at, int i, int j) {
  Number x = 0;
  for (int c = 0; c < a.dim; ++c) x += a.q[(at + i) * a.dim + c] * a.k[(at + j) * a.dim + c];
  return x * rsqrtf(static_cast<Number>(a.dim));
}

__global__ void attn_kernel(Entry::Args a) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x / warpSize * common::warpSize + threadIdx.x % warpSize;
  const int at = blockIdx.y * a.s;
  if (i >= a.s) return;
  T top = -INFINITY, sum = 0;
  for (int j = 0; j < a.s; ++j) top = fmaxf(top, attn<T>(a, at, i, j));
  for (int c = 0; c < a.dim; ++c) a.out[(at + i) * a.dim + c] = 0;
  for (int j = 0; j < a.s; ++j) {
    const T p = expf(attn<T>(a, at, i, j) - top);
    sum += p;
    for (int c = 0; c < a.dim; ++c) a.o[(at + i) * a.dim + c] += p * a.v[(at + j) * a.dim + c];
  }
  for (int c = 0; c < a.dim; ++c) a.o[(at + i) * a.dim + c] /= sum;
}

__global__ void attend(const float* q, const float* k, const float* v, float* out, int s, int dim) {
  if (blockIdx.x || threadIdx.x) return;
  // These members of a launch configuration are not the built-in variables.
  struct {
    dim3 gridDim, blockDim;
  } config{gridDim, blockDim};
  const Entry::Args a = {q, k, v, out, s, dim};
  for (int i = 0; i < s * static_cast<int>(config.gridDim.x * config.blockDim.x / blockDim.x); ++i) {
    T top = -INFINITY, sum = 0;
    for (int j = 0; j < s; ++j) top = fmaxf(top, attn<T>(a, blockIdx.y * s, i, j));
    for (int j = 0; j < s; ++j) sum += expf(attn<T>(a, blockIdx.y * s, i, j) - top);
    for (int c = 0; c < dim; ++c) {
      T all = 0;
      for (int j = 0; j < s; ++j)
        all += expf(attn<T>(a, blockIdx.y * s, i, j) - top) * v[(blockIdx.y * s + j) * dim + c];
      out[(blockIdx.y * s + i) * dim + c] = all / sum;
    }
  }
}

namespace launch {
void attn(const float* q, const float* k, const float* v, float* out, const Call& call, int dim) {
  cudaDeviceProp prop;
  cudaGetDeviceProperties(&prop, 0);
  dim3 blockDim(2 * prop.warpSize);
  dim3 gridDim((call.s + blockDim.x - 1) / blockDim.x, call.heads);
  attn_kernel<<<gridDim, blockDim>>>({q, k, v, out, call.s, dim});
}
}  // namespace launch
