#include "half2_rows.cu"
#include "kernels/adapter.h"

struct Half2Rows {
  static constexpr const char* kName = "half2_rows";
  static constexpr attn::Takes kTakes = {
      .dim = attn::multiple_of(16).from(16).up_to(256), .equal_lengths = true, .tile = 8};
  static void run(const attn::Args& a) { half2_attention(a.q, a.k, a.v, a.o, a.B * a.H, a.S, a.D, a.scale); }
};
ATTN_ADAPTER(Half2Rows)
