#include "cg_block.cu"
#include "kernels/adapter.h"

struct CgBlock {
  static constexpr const char* kName = "cg_block";
  static constexpr attn::Takes kTakes = [] {
    attn::Takes takes = {.format = attn::Formats::kBf16, .causal = attn::Causal::kEither, .in_fp32 = true};
    takes.seq_k = attn::at_most(12288), takes.group = attn::any_size(), takes.align = ATTN_BOTTOM_RIGHT;
    takes.order = attn::Order::kBshd, takes.align_bytes = 2;
    return takes;
  }();
  static void run(const attn::Args& a) {
    attention_cg_launch(a.q, a.k, a.v, a.o, a.B, a.H, a.Hkv, a.Sq, a.Sk, a.D, a.scale, a.causal, a.stream);
  }
};
ATTN_ADAPTER(CgBlock)
