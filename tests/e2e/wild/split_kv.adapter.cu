#include "kernels/adapter.h"
#include "split_kv.cu"

struct SplitKv {
  static constexpr const char* kName = "split_kv";
  static constexpr attn::Takes kTakes = {
      .seq = attn::at_most(4096), .seq_k = attn::at_most(4096), .align_bytes = 2};
  static void run(const attn::Args& a) {
    flash_decode<half>(a.q, a.k, a.v, a.o, a.B * a.H, a.Sq, a.Sk, a.D, a.scale, a.stream);
  }
};
ATTN_ADAPTER(SplitKv)
