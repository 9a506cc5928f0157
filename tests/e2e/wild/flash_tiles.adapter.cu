#include "flash_tiles.cu"
#include "kernels/adapter.h"

struct FlashTiles {
  static constexpr const char* kName = "flash_tiles";
  static constexpr attn::Takes kTakes = {
      .format = attn::Formats::kF32, .dim = attn::at_most(128), .equal_lengths = true, .tile = 32};
  static void run(const attn::Args& a) { flash_forward(a.q, a.k, a.v, a.o, a.B, a.H, a.S, a.D, a.scale); }
};
ATTN_ADAPTER(FlashTiles)
