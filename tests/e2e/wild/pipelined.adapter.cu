#include "kernels/adapter.h"
#include "pipelined.cu"

struct Pipelined {
  static constexpr const char* kName = "pipelined";
  static constexpr attn::Takes kTakes = {
      .format = attn::Formats::kBf16, .dim = attn::one_of(64), .tile = 32, .in_fp32 = true};
  static void run(const attn::Args& a) {
    pipelined_attention(a.q, a.k, a.v, a.o, a.B * a.H, a.Sq, a.Sk, a.scale, a.stream);
  }
};
ATTN_ADAPTER(Pipelined)
