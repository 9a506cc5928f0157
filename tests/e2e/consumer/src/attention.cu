// FlashAttention's first algorithm, as one writes it in an afternoon. A block
// takes 64 queries of one head, one query a thread, and walks over tiles of 64
// keys in shared memory. The softmax of each tile is merged into the running
// softmax by rescaling.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "launch.cuh"

namespace {

template <class T>
__device__ float to_float(T value) {
  return static_cast<float>(value);
}

template <class T>
__global__ void __launch_bounds__(kThreads) attention_forward(AttentionArgs a) {
  __shared__ T k_tile[kTile][kMaxDim];
  __shared__ T v_tile[kTile][kMaxDim];

  const int tile = blockIdx.x % a.tiles_q;
  const int head = blockIdx.x / a.tiles_q % a.heads_q;
  const int64_t batch = blockIdx.x / a.tiles_q / a.heads_q;
  const int kv_head = head / (a.heads_q / a.heads_kv);
  const int64_t row = static_cast<int64_t>(tile) * kTile + threadIdx.x;
  const bool active = row < a.seq_q;

  int64_t keys = a.seq_k;
  if (a.key_lengths != nullptr) {
    keys = a.key_lengths[batch];
    keys = keys < 0 ? 0 : keys > a.seq_k ? a.seq_k : keys;
  }
  const int64_t diagonal = a.bottom_right ? row + keys - a.seq_q : row;
  const int64_t first = diagonal - a.left > 0 ? diagonal - a.left : 0;
  const int64_t last = diagonal + a.right < keys - 1 ? diagonal + a.right : keys - 1;

  float q[kMaxDim];
  float o[kMaxDim];
  const T* q_row =
      static_cast<const T*>(a.q) + batch * a.q_strides.batch + head * a.q_strides.head + row * a.q_strides.seq;
  for (int d = 0; d < kMaxDim; ++d) {
    q[d] = active && d < a.dim_qk ? to_float(q_row[d * a.q_strides.col]) : 0.0f;
    o[d] = 0.0f;
  }
  float m = -INFINITY;  // maximum so far
  float l = 0.0f;       // sum of exponentials so far

  for (int64_t begin = 0; begin < keys; begin += kTile) {
    // Every thread fetches one key and its value; keys past the end are zero.
    const int64_t key = begin + threadIdx.x;
    const T* k_row = static_cast<const T*>(a.k) + batch * a.k_strides.batch + kv_head * a.k_strides.head +
                     key * a.k_strides.seq;
    const T* v_row = static_cast<const T*>(a.v) + batch * a.v_strides.batch + kv_head * a.v_strides.head +
                     key * a.v_strides.seq;
    for (int d = 0; d < kMaxDim; ++d) {
      k_tile[threadIdx.x][d] = key < keys && d < a.dim_qk ? k_row[d * a.k_strides.col] : T(0.0f);
      v_tile[threadIdx.x][d] = key < keys && d < a.dim_v ? v_row[d * a.v_strides.col] : T(0.0f);
    }
    __syncthreads();

    float s[kTile];
    float m_tile = -INFINITY;
    bool seen = false;
    for (int j = 0; j < kTile; ++j) {
      const int64_t at = begin + j;
      bool visible = active && at >= first && at <= last;
      if (visible && a.mask != nullptr) {
        visible = a.mask[batch * a.mask_strides.batch + head * a.mask_strides.head + row * a.mask_strides.seq +
                         at * a.mask_strides.col] != 0;
      }
      float dot = 0.0f;
      for (int d = 0; d < kMaxDim; ++d) dot += q[d] * to_float(k_tile[j][d]);
      s[j] = visible ? dot * a.scale : -INFINITY;
      m_tile = fmaxf(m_tile, s[j]);
      seen = seen || visible;
    }

    // A tile that this row does not see leaves the row as it is.
    if (seen) {
      float l_tile = 0.0f;
      float o_tile[kMaxDim] = {0.0f};
      for (int j = 0; j < kTile; ++j) {
        const float p = __expf(s[j] - m_tile);
        l_tile += p;
        for (int d = 0; d < kMaxDim; ++d) o_tile[d] += p * to_float(v_tile[j][d]);
      }
      const float m_new = fmaxf(m, m_tile);
      const float keep = __expf(m - m_new);
      const float take = __expf(m_tile - m_new);
      l = keep * l + take * l_tile;
      for (int d = 0; d < kMaxDim; ++d) o[d] = keep * o[d] + take * o_tile[d];
      m = m_new;
    }
    __syncthreads();  // before the tile is overwritten
  }

  if (!active) return;
  const bool dead = l == 0.0f;  // it saw no key at all
  T* o_row = static_cast<T*>(a.o) + batch * a.o_strides.batch + head * a.o_strides.head + row * a.o_strides.seq;
  for (int d = 0; d < a.dim_v; ++d) o_row[d * a.o_strides.col] = T(dead ? 0.0f : o[d] / l);
  if (a.lse != nullptr) {
    a.lse[batch * a.lse_strides.batch + head * a.lse_strides.head + row * a.lse_strides.seq] =
        dead ? -INFINITY : m + logf(l);
  }
}

}  // namespace

attn_status launch_attention(bool bf16, const AttentionArgs& args, unsigned blocks, const attn_env* env) {
  // `attention_forward<T><<<blocks, kThreads>>>(args)`, for both back ends.
  return bf16 ? attn::launch(attention_forward<__nv_bfloat16>, dim3(blocks), dim3(kThreads), 0, env, args)
              : attn::launch(attention_forward<__half>, dim3(blocks), dim3(kThreads), 0, env, args);
}
