// Flash-decoding: the keys are split over blocks, a second kernel merges the parts.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename scalar_t>
__global__ void split_kernel(const scalar_t* __restrict__ query, const scalar_t* __restrict__ key,
                             const scalar_t* __restrict__ value, float* __restrict__ partial_out,
                             float* __restrict__ partial_max, float* __restrict__ partial_sum, int q_len, int kv_len,
                             int dim, int chunk, float softmax_scale) {
  const int row = blockIdx.x, split = blockIdx.y, bh = blockIdx.z, num_splits = gridDim.y;
  const int begin = split * chunk, end = min(begin + chunk, kv_len);
  const int tid = threadIdx.x;
  extern __shared__ float logits[];
  __shared__ float red[4];

  const scalar_t* q = query + ((size_t)bh * q_len + row) * dim;
  float thread_max = -INFINITY;
  for (int j = begin + tid; j < end; j += blockDim.x) {
    const scalar_t* kp = key + ((size_t)bh * kv_len + j) * dim;
    float dot = 0.f;
    for (int d = 0; d < dim; ++d) dot += static_cast<float>(q[d]) * static_cast<float>(kp[d]);
    logits[j - begin] = dot * softmax_scale;
    thread_max = fmaxf(thread_max, logits[j - begin]);
  }
  for (int offset = 16; offset > 0; offset /= 2)
    thread_max = fmaxf(thread_max, __shfl_down_sync(0xffffffffu, thread_max, offset));
  if (tid % 32 == 0) red[tid / 32] = thread_max;
  __syncthreads();
  float m = red[0];
  for (int w = 1; w < blockDim.x / 32; ++w) m = fmaxf(m, red[w]);
  __syncthreads();

  float thread_sum = 0.f;
  for (int j = tid; j < end - begin; j += blockDim.x) {
    logits[j] = expf(logits[j] - m);
    thread_sum += logits[j];
  }
  for (int offset = 16; offset > 0; offset /= 2) thread_sum += __shfl_down_sync(0xffffffffu, thread_sum, offset);
  if (tid % 32 == 0) red[tid / 32] = thread_sum;
  __syncthreads();

  const size_t at = ((size_t)bh * q_len + row) * num_splits + split;
  for (int d = tid; d < dim; d += blockDim.x) {
    float acc = 0.f;
    for (int j = begin; j < end; ++j) acc += logits[j - begin] * static_cast<float>(value[((size_t)bh * kv_len + j) * dim + d]);
    partial_out[at * dim + d] = acc;
  }
  if (tid == 0) {
    float l = 0.f;
    for (int w = 0; w < blockDim.x / 32; ++w) l += red[w];
    partial_max[at] = m;
    partial_sum[at] = l;
  }
}

template <typename scalar_t>
__global__ void combine_kernel(const float* __restrict__ partial_out, const float* __restrict__ partial_max,
                               const float* __restrict__ partial_sum, scalar_t* __restrict__ out, int num_splits,
                               int dim) {
  const size_t row = blockIdx.x;
  float m = -INFINITY, l = 0.f;
  for (int s = 0; s < num_splits; ++s) m = fmaxf(m, partial_max[row * num_splits + s]);
  for (int s = 0; s < num_splits; ++s) l += partial_sum[row * num_splits + s] * expf(partial_max[row * num_splits + s] - m);
  for (int d = threadIdx.x; d < dim; d += blockDim.x) {
    float acc = 0.f;
    for (int s = 0; s < num_splits; ++s)
      acc += partial_out[(row * num_splits + s) * dim + d] * expf(partial_max[row * num_splits + s] - m);
    out[row * dim + d] = static_cast<scalar_t>(acc / l);
  }
}

template <typename scalar_t>
cudaError_t flash_decode(const scalar_t* q, const scalar_t* k, const scalar_t* v, scalar_t* out, int bh, int q_len,
                         int kv_len, int dim, float scale, cudaStream_t stream) {
  const int chunk = 64;
  const int splits = (kv_len + chunk - 1) / chunk;
  float* buffer = nullptr;
  const size_t rows = (size_t)bh * q_len;
  cudaError_t err = cudaMallocAsync(&buffer, rows * splits * (dim + 2) * sizeof(float), stream);
  if (err != cudaSuccess) return err;
  float* part_max = buffer + rows * splits * dim;
  float* part_sum = part_max + rows * splits;
  split_kernel<<<dim3(q_len, splits, bh), 128, chunk * sizeof(float), stream>>>(q, k, v, buffer, part_max, part_sum,
                                                                              q_len, kv_len, dim, chunk, scale);
  combine_kernel<<<rows, 64, 0, stream>>>(buffer, part_max, part_sum, out, splits, dim);
  cudaFreeAsync(buffer, stream);
  return cudaPeekAtLastError();
}
