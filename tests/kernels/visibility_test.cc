// Tests masks that differ between rows of one tile: windows that move within a tile, and
// tiles that several heads share.
#include "tests/kernels/call.h"

namespace attnfuzz {
namespace {

class Visibility : public OfKernel {};

// The first row of a block sees a whole key tile, and the last row does not.
TEST_P(Visibility, WindowThatLeavesATile) {
  for (int64_t left : {0, 20, 63, 64}) {
    for (int64_t right : {-1, 0, 63, 64, 200}) {
      SCOPED_TRACE("window " + std::to_string(left) + ", " + std::to_string(right));
      attn_problem p = square(64, 16);
      p.causal = 0;
      p.seq_k = 192;
      p.window_left = left, p.window_right = right;
      Call call(p);
      holds_in_parts(call);
      call.problem.align = ATTN_BOTTOM_RIGHT;
      holds_in_parts(call);
    }
  }
}

// Query tiles past the last key still see some keys through a window; and one query tile sees a whole key tile,
// and the next does not.
TEST_P(Visibility, WindowOfQueriesPastTheKeys) {
  for (int64_t left : {-1, 70, 130, 200, 250, 300}) {
    for (int64_t right : {-1, 0, 100}) {
      for (int64_t seq_q : {384, 60}) {
        SCOPED_TRACE("window " + std::to_string(left) + ", " + std::to_string(right) + ", queries " +
                     std::to_string(seq_q));
        attn_problem p = square(seq_q, 16);
        p.causal = 0;
        p.seq_k = seq_q == 384 ? 128 : 40;
        p.window_left = left, p.window_right = right;
        Call call(p);
        holds(call);
        call.problem.align = ATTN_BOTTOM_RIGHT;
        holds(call);
      }
    }
  }
}

// More heads share a tile than it has rows. A block then begins in the middle of a
// query, and each row must see the keys of its own query.
TEST_P(Visibility, HeadsOfAGroupBeyondOneTile) {
  for (int64_t group : {2, 3, 40, 64, 65, 130}) {
    for (int32_t align : {ATTN_TOP_LEFT, ATTN_BOTTOM_RIGHT}) {
      for (int64_t left : {-1, 0, 5}) {
        SCOPED_TRACE("group " + std::to_string(group) + ", align " + std::to_string(align) + ", left " +
                     std::to_string(left));
        attn_problem p = square(80, 16);
        p.heads_q = group;
        p.seq_q = group > 64 ? 3 : 32;
        p.align = align;
        p.window_left = left;
        Call call(p);
        holds_in_parts(call);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Visibility, testing::Values("fa1", "splitk", "fa1a", "fa1h", "splitkh"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace attnfuzz
