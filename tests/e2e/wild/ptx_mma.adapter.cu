#include "kernels/adapter.h"
#include "ptx_mma.cu"

struct PtxMma {
  static constexpr const char* kName = "ptx_mma";
  static constexpr attn::Takes kTakes = {.dim = attn::one_of(64), .tile = 32};
  static void run(const attn::Args& a) {
    fa_forward(a.q, a.k, a.v, a.o, a.B * a.H, a.Sq, a.Sk, a.scale, a.stream);
  }
};
ATTN_ADAPTER(PtxMma)
