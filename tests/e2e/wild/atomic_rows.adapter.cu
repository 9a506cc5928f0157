#include "atomic_rows.cu"
#include "kernels/adapter.h"

struct AtomicRows {
  static constexpr const char* kName = "atomic_rows";
  static constexpr attn::Takes kTakes = {.format = attn::Formats::kF32,
                                         .seq = attn::at_most(256),
                                         .seq_k = attn::at_most(2048),
                                         .scale = attn::Scale::kOwn,
                                         .tile = 32};
  static void run(const attn::Args& a) { attention(a.q, a.k, a.v, a.o, a.B * a.H, a.Sq, a.Sk, a.D); }
};
ATTN_ADAPTER(AtomicRows)
