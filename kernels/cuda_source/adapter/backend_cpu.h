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

inline void make_pages(const Call&, const PageTable& table) {
  for (int64_t n = 0; n < table.count(); ++n) table(n);
}

inline void make_borders(const Call& call, int* borders, const void* given, int64_t rows) {
  const attn_problem& p = call.problem;
  for (int64_t n = 0; n <= p.batch; ++n) fill_border(n, borders, given, p.index_dtype, rows);
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

// True if rows of no packed entry were written in the copy of O or of the LSE. The copy was
// filled with kRedzone before the run.
inline bool slack_is_written(const Call& call, const Layout& layout, Piece i, char* space) {
  const Copy& c = layout.pieces[i];
  if (!c.made || (call.problem.ragged & ATTN_RAGGED_QUERIES) == 0) return false;
  const int owned = reinterpret_cast<const int*>(space + layout.pieces[kCuQ].offset)[call.problem.batch];
  for (int64_t h = 0; h < c.shape[1]; ++h) {
    for (int64_t s = owned; s < c.shape[2]; ++s) {
      char* const row = space + c.offset + c.bytes_each * static_cast<size_t>(h * c.stride[1] + s * c.stride[2]);
      const size_t bytes = c.bytes_each * static_cast<size_t>(c.shape[3]);
#if SIMT_MSAN
      __msan_unpoison(row, bytes);
#endif
      for (size_t n = 0; n < bytes; ++n) {
        if (static_cast<unsigned char>(row[n]) != kRedzone) return true;
      }
    }
  }
  return false;
}

// Reports a change of the bytes between copies, of an input, or of rows that belong to no packed entry.
inline bool is_whole(const Call& call, const Layout& layout, char* space) {
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
  for (Piece i : {kO, kLse}) {
    if (slack_is_written(call, layout, i, space))
      tell(std::string("the kernel wrote rows of ") + kPieceNames[i] + " behind the last packed sequence");
  }
  for (Piece i : {kQ, kK, kV}) {
    const Copy& c = layout.pieces[i];
    if (!c.made || c.from.data == nullptr) continue;
    unsigned differences = 0;
    Move move = move_of(call, layout, i, space, false);
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
  return is_whole(call, layout, space) ? ATTN_OK : ATTN_FAULT;
}

}  // namespace attn::adapter
