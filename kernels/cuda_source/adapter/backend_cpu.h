// backend.h on the executor, where the redzones are checked as well.
#pragma once

#include "kernels/cuda_source/runtime.h"

#if SIMT_ASAN
#include <sanitizer/asan_interface.h>
#elif SIMT_MSAN
#include <sanitizer/msan_interface.h>
#endif

namespace attn::adapter {

inline void fill(const Call&, char* at, unsigned char value, uint64_t bytes) {
  if (bytes == 0) return;
  memset(at, value, bytes);
#if SIMT_MSAN
  __msan_poison(at, bytes);
#endif
}

inline void make_pages(const Call& call, int* pages, int* lengths, const int64_t* given, int64_t each) {
  const attn_problem& p = call.problem;
  for (int64_t n = 0; n < p.batch * each; ++n) fill_page(n, pages, lengths, given, p.batch, each, p.seq_k);
}

inline void move_each(const Call&, const Move& move, int64_t count) {
  for (int64_t n = 0; n < count; ++n) move(n);
}

// While the kernel runs, AddressSanitizer watches the gaps between copies.
inline void watch_redzones([[maybe_unused]] const Layout& layout, [[maybe_unused]] char* space,
                           [[maybe_unused]] bool on) {
#if SIMT_ASAN
  each_gap(layout, [&](uint64_t begin, uint64_t end, int) {
    if (on) {
      __asan_poison_memory_region(space + begin, end - begin);
    } else {
      __asan_unpoison_memory_region(space + begin, end - begin);
    }
  });
#endif
}

// Reports a change of the bytes between copies, or of an input.
inline bool is_whole(const Call& call, const Takes& takes, const Layout& layout, char* space) {
  bool whole = true;
  const auto tell = [&](const std::string& words) {
    if (whole) report_launch(&call.env, ATTN_REPORT_ADDRESS, words.c_str());
    whole = false;
  };
  each_gap(layout, [&](uint64_t begin, uint64_t end, int piece) {
#if SIMT_MSAN
    __msan_unpoison(space + begin, end - begin);
#endif
    for (uint64_t n = begin; n < end; ++n) {
      if (static_cast<unsigned char>(space[n]) != kRedzone)
        return tell(std::string("the kernel wrote outside of ") + kPieceNames[piece]);
    }
  });
  for (Piece i : {kQ, kK, kV}) {
    const Copy& c = layout.pieces[i];
    if (!c.made || c.from.data == nullptr) continue;
    unsigned differences = 0;
    Move move = move_of(takes, call, layout, i, space, false);
    move.differences = &differences;
    move_each(call, move, c.count());
    if (differences) tell(std::string("the kernel wrote into its input ") + kPieceNames[i]);
  }
  return whole;
}

template <class F>
attn_status run_between_redzones(const Call& call, const Takes& takes, const Layout& layout, char* space,
                                 F run) {
  watch_redzones(layout, space, true);
  simt::HostCall host(call.env);
  run();
  const attn_status status = host.end(takes.keeps_scratch);
  watch_redzones(layout, space, false);
  if (status != ATTN_OK) return status;
  return is_whole(call, takes, layout, space) ? ATTN_OK : ATTN_FAULT;
}

}  // namespace attn::adapter
