#include "kernels/adapter.h"
#include "warp_row.cu"

struct WarpRow {
  static constexpr const char* kName = "warp_row";
  static constexpr attn::Takes kTakes = {.dim = attn::one_of(64, 128),
                                         .group = attn::any_size(),
                                         .causal = attn::Causal::kEither,
                                         .lse = attn::Lse::kWritten};
  static void run(const attn::Args& a) {
    warp_attention(a.q, a.k, a.v, a.o, a.lse, a.B, a.H, a.Hkv, a.Sq, a.Sk, a.D, a.scale, a.causal, a.stream);
  }
};
ATTN_ADAPTER(WarpRow)
