#include "cg_block.cu"

#include "kernels/adapter.h"

struct CgBlock {
  static constexpr const char* kName = "cg_block";
  static constexpr attn::Takes kTakes = {.format = attn::Formats::kBf16, .seq_k = attn::at_most(12288),
                                         .group = attn::any_size(), .causal = attn::Causal::kEither,
                                         .align = ATTN_BOTTOM_RIGHT, .order = attn::Order::kBshd, .align_bytes = 2};
  static void run(const attn::Args& a) {
    attention_cg_launch(a.q, a.k, a.v, a.o, a.B, a.H, a.Hkv, a.Sq, a.Sk, a.D, a.scale, a.causal, a.stream);
  }
};
ATTN_ADAPTER(CgBlock)
