#include "kernels/adapter.h"
#include "row_thread.cu"

struct RowThread {
  static constexpr const char* kName = "row_thread";
  static constexpr attn::Takes kTakes = {.dim = attn::one_of(32, 64),
                                         .equal_lengths = true,
                                         .causal = attn::Causal::kOnly,
                                         .lse = attn::Lse::kWritten,
                                         .tile = 32};
  static void run(const attn::Args& a) {
    causal_attention(a.q, a.k, a.v, a.o, a.lse, a.B, a.H, a.S, a.D, a.scale, a.stream);
  }
};
ATTN_ADAPTER(RowThread)
