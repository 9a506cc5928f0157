// The CPU body of stsm4(). matrix_store.h documents it and includes this file.
#pragma once

#include <string.h>

#include "kernels/primitives/warp.h"
#include "kernels/executor/hopper.h"

namespace attn {
namespace cpu {

// Writes a row of a matrix to shared memory. It is recorded as a write of `lane`, which gave the address.
inline void store_row(void* row, const uint32_t (&words)[4], int lane) {
  memcpy(row, words, sizeof words);
  simt::generic_write16(row, lane);
}

struct StoreMatrix {
  static constexpr const char* kName = "stsm4";
  void* row;
  const uint32_t* r;
  SIMT_SLOTS static void run(simt::Lanes<StoreMatrix> lanes, const simt::Meeting& meeting) {
    WarpReduce<Sum>::need_whole_warp(meeting, kName);
    for (int at = 0; at < 32; ++at) {
      char* row = static_cast<char*>(lanes[at].row);
      if (reinterpret_cast<uintptr_t>(row) % 16 != 0) {
        simt::fault(ATTN_REPORT_ALIGNMENT, simt::lane_of_warp(at), meeting.here,
                    "%s to shared address %p: not a multiple of 16", kName, static_cast<void*>(row));
      }
      uint32_t words[4];
      for (int t = 0; t < 4; ++t) words[t] = lanes[4 * (at % 8) + t].r[at / 8];
      store_row(row, words, at);
    }
  }
};

}  // namespace cpu
}  // namespace attn
