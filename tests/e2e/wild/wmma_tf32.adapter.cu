#include "kernels/adapter.h"
#include "wmma_tf32.cu"

struct WmmaTf32 {
  static constexpr const char* kName = "wmma_tf32";
  static constexpr attn::Takes kTakes = {
      .format = attn::Formats::kF32, .dim = attn::one_of(64), .tile = 16, .in_tf32 = true};
  static void run(const attn::Args& a) { tf32_forward(a.q, a.k, a.v, a.o, a.B * a.H, a.Sq, a.Sk, a.scale); }
};
ATTN_ADAPTER(WmmaTf32)
