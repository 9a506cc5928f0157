#include "kernels/adapter.h"
#include "wmma_tiles.cu"

struct WmmaTiles {
  static constexpr const char* kName = "wmma_tiles";
  static constexpr attn::Takes kTakes = {.dim = attn::one_of(64, 128), .tile = 16};
  static void run(const attn::Args& a) {
    wmma_forward(a.q, a.k, a.v, a.o, a.B * a.H, a.Sq, a.Sk, a.D, a.scale);
  }
};
ATTN_ADAPTER(WmmaTiles)
