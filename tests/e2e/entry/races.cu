// A kernel whose threads exchange scores through a dynamic shared array that is declared outside of functions, and
// meet at the stages of a pipeline alone.
#include <cooperative_groups.h>
#include <cuda/pipeline>

extern __shared__ float scores[];

__global__ void attend(const float* q, const float* k, const float* v, float* o, int S, int D) {
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 1> state;
  auto pipe = cuda::make_pipeline(cooperative_groups::this_thread_block(), &state);
  const int first = blockIdx.x / S * S;  // row 0 of this head
  q += (size_t)blockIdx.x * D, k += (size_t)first * D, v += (size_t)first * D, o += (size_t)blockIdx.x * D;
  const auto score = [&] {
    for (int j = threadIdx.x; j < S; j += blockDim.x) {
      float s = 0;
      for (int d = 0; d < D; ++d) s += q[d] * k[(size_t)j * D + d];
      scores[j] = s / sqrtf(D);
    }
  };
  pipe.producer_acquire();
  score();  // before the commit
  pipe.producer_commit();
  pipe.consumer_wait();
  float m = -INFINITY, l = 0;
  for (int j = 0; j < S; ++j) m = fmaxf(m, scores[j]);
  for (int j = 0; j < S; ++j) l += expf(scores[j] - m);
  for (int d = threadIdx.x; d < D; d += blockDim.x) {
    float sum = 0;
    for (int j = 0; j < S; ++j) sum += expf(scores[j] - m) * v[(size_t)j * D + d];
    o[d] = sum / l;
  }
  pipe.consumer_release();
}

void launch(const float* q, const float* k, const float* v, float* o, int B, int H, int S, int D) {
  attend<<<B * H * S, 32, S * sizeof(float)>>>(q, k, v, o, S, D);
}
