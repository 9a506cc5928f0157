#include "kernels/adapter.h"
#include "naive.cu"

struct Naive {
  static constexpr const char* kName = "naive";
  static constexpr attn::Takes kTakes = {
      .format = attn::Formats::kF32, .equal_lengths = true, .scale = attn::Scale::kOwn};
  static void run(const attn::Args& a) { attention_forward(a.q, a.k, a.v, a.o, a.B, a.H, a.S, a.D); }
};
ATTN_ADAPTER(Naive)
