// A typical CUDA extension of PyTorch, for entry/extension.sh: one query a thread, with a row of scores in memory that
// the extension allocates, and a header in another folder.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include "check.h"

template <class T>
__global__ void rows(const T* q, const T* k, const T* v, T* out, float* scores, int H, int S, int D) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= S) return;
  const int64_t head = blockIdx.y, at = (head * S + row) * D;
  float* const mine = scores + (head * S + row) * S;
  float most = -INFINITY, sum = 0;
  for (int j = 0; j < S; ++j) {
    float dot = 0;
    for (int d = 0; d < D; ++d)
      dot += static_cast<float>(q[at + d]) * static_cast<float>(k[(head * S + j) * D + d]);
    mine[j] = dot * rsqrtf(static_cast<float>(D));
    most = mine[j] > most || mine[j] != mine[j] ? mine[j] : most;
  }
  for (int j = 0; j < S; ++j) sum += mine[j] = expf(mine[j] - most);
  for (int d = 0; d < D; ++d) {
    float o = 0;
    for (int j = 0; j < S; ++j) o += mine[j] * static_cast<float>(v[(head * S + j) * D + d]);
    out[at + d] = static_cast<T>(o / sum);
  }
}

torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
  CHECK_INPUT(q);
  CHECK_INPUT(k);
  const auto B = q.size(0), H = q.size(1), S = q.size(2), D = q.size(-1);
  TORCH_CHECK(D <= 32, "no more than 32 columns, not ", D);
  auto out = torch::empty_like(q);
  auto scores = torch::zeros({B, H, S, S}, q.options().dtype(torch::kFloat32));
  const dim3 grid((S + 63) / 64, B * H);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, q.scalar_type(), "forward",
                                  ([&] {
                                    rows<scalar_t><<<grid, 64, 0, at::cuda::getCurrentCUDAStream()>>>(
                                        q.data_ptr<scalar_t>(), k.data_ptr<scalar_t>(), v.data_ptr<scalar_t>(),
                                        out.data_ptr<scalar_t>(), scores.data_ptr<float>(), H, S, D);
                                  }));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

// Also returns the LSE. Uses accessors, and launches the kernel by its name. The scale must be positive, because scores
// are masked before they are scaled.
template <class T>
__global__ void whole(const torch::PackedTensorAccessor32<T, 4, torch::RestrictPtrTraits> q,
                      const torch::PackedTensorAccessor32<T, 4, torch::RestrictPtrTraits> k,
                      const torch::PackedTensorAccessor64<T, 4> v, torch::PackedTensorAccessor32<T, 4> out,
                      torch::PackedTensorAccessor32<float, 3> lse, float scale) {
  const int b = blockIdx.z, h = blockIdx.y, row = blockIdx.x, keys = k.size(2);
  const auto score = [&](int j) {
    float dot = j < keys ? 0 : -INFINITY;
    for (int d = 0; d < q.size(3) && j < keys; ++d)
      dot += static_cast<float>(q[b][h][row][d]) * static_cast<float>(k[b][h][j][d]);
    return dot * scale;
  };
  float most = -INFINITY, sum = 0;
  for (int j = 0; j < keys + 1; ++j) most = score(j) > most || score(j) != score(j) ? score(j) : most;
  for (int j = 0; j < keys + 1; ++j) sum += expf(score(j) - most);
  for (int d = threadIdx.x; d < v.size(3); d += blockDim.x) {
    float o = 0;
    for (int j = 0; j < keys; ++j) o += expf(score(j) - most) * static_cast<float>(v[b][h][j][d]);
    out[b][h][row][d] = static_cast<T>(o / sum);
  }
  if (threadIdx.x == 0) lse[b][h][row] = most + logf(sum);
}

std::vector<torch::Tensor> forward_both(torch::Tensor q, torch::Tensor k, torch::Tensor v, double given) {
  auto out = torch::empty_like(q);
  auto lse = torch::full({q.size(0), q.size(1), q.size(2)}, -INFINITY, q.options().dtype(torch::kFloat32));
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(q.scalar_type(), "forward_both", [&] {
    auto a = q.packed_accessor32<scalar_t, 4, torch::RestrictPtrTraits>();
    auto b = k.packed_accessor32<scalar_t, 4, torch::RestrictPtrTraits>();
    auto c = v.packed_accessor64<scalar_t, 4>();
    auto o = out.packed_accessor32<scalar_t, 4>();
    auto l = lse.packed_accessor32<float, 3>();
    float scale = static_cast<float>(given);
    void* arguments[] = {&a, &b, &c, &o, &l, &scale};
    AT_CUDA_CHECK(cudaLaunchKernel((const void*)whole<scalar_t>, dim3(q.size(2), q.size(1), q.size(0)), dim3(32),
                                   arguments, 0, at::cuda::getCurrentCUDAStream()));
  });
  return {out, lse};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "attention"); }
