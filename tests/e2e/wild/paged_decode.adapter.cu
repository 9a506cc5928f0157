#include "kernels/adapter.h"
#include "paged_decode.cu"

struct PagedDecode {
  static constexpr const char* kName = "paged_decode";
  static constexpr attn::Takes kTakes = {
      .seq = attn::one_of(1), .seq_k = attn::at_most(8192), .group = attn::any_size(), .page = 16, .tile = 16};
  static void run(const attn::Args& a) {
    paged_attention(a.o, a.q, a.k, a.v, a.B, a.H, a.Hkv, a.D, a.scale, a.pages, a.lengths, a.pages_each, a.Sk,
                    a.stream);
  }
};
ATTN_ADAPTER(PagedDecode)
