// The shape for which Split-K's path of wide heads is compiled.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/primitives/platform.h"

namespace attn {

// Up to 576 columns of Q and K and 512 of V, the sizes of decoding with multi-head latent attention. 64 rows of
// O with 512 columns fill the registers of eight warps: four warps hold 16 rows each of the first 256 columns,
// four of the last 256.
struct WideSpec {
  static constexpr int kDimQk = 576, kDimV = 512, kTileQ = 64, kTileK = 32;
  static constexpr int kRowWarps = kTileQ / 16, kColumns = 256;
  static constexpr int kThreads = kRowWarps * (kDimV / kColumns) * 32;

  // Dynamic shared memory of a block, in bytes: one tile of Q and two of keys: 144 KiB. sm_80 has 163.
  static constexpr size_t shared() { return (kTileQ + 2 * kTileK) * kDimQk * sizeof(uint16_t); }
};

template <class T_>
struct WideShape : WideSpec {
  using T = T_;
};

}  // namespace attn
