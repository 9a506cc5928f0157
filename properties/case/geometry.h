// Where the elements of a case's tensors lie, before there is any memory.
//
// One reading of TensorLayout, shared by illegal(), which asks whether it fits,
// and by LaidOut, which does it.
//
//   Geometry g = *geometry(c, TensorId::kK);
//   int64_t at = b * g.stride[0] + h * g.stride[1] + j * g.stride[2] + t;   // elements from the first
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "properties/case/case.h"

namespace attnfuzz {

// Address space that a tensor has in guarded memory.
inline constexpr uint64_t kSlotBytes = uint64_t{1} << 35;

// Guards and gaps. Gaps are filled whole up to two pages, beyond that one page
// at either end: so a tensor spread over gigabytes touches few pages.
inline constexpr int64_t kGapEnd = 4096;
inline constexpr int64_t kGuardBefore = 256;
inline constexpr int64_t kMaxGuardAfter = 16384;

// What strides of size-1 dimensions hold when a layout wants junk there: does
// not fit 32 bits, and no slot has room for one step of it.
inline constexpr int64_t kJunkStride = 1'234'567'890'123;

// Outputs before a call: a NaN in every format, and one that no arithmetic makes
// (of neither the all-ones nor the canonical payload), so that a NaN a kernel
// wrote is not taken for an element that it did not write.
inline constexpr uint32_t kNeverWritten = 0x7fa57fa5;

struct Geometry {
  bool present = false;
  int64_t element_bytes = 0;
  // As stored: 1 where broadcast. Negative strides where the layout says so; the last is 1 but where it
  // is scattered.
  std::array<int64_t, 4> size = {};
  std::array<int64_t, 4> stride = {};
  std::array<uint8_t, 3> order = {0, 1, 2};  // outermost first
  int64_t offset_bytes = 0;                  // of the lowest element from a 256-byte boundary
  int64_t span_bytes = 0;                    // from the lowest to the end of the highest element
  int64_t first = 0;                         // of element (0,0,0,0), in elements from the lowest
  int64_t touched_bytes = 0;                 // with gaps and guards, at most

  bool empty() const { return size[0] == 0 || size[1] == 0 || size[2] == 0 || size[3] == 0; }
  // Columns that do not lie side by side, in their order.
  bool scattered() const { return stride[3] != 1; }
  int64_t row_bytes() const { return size[3] * element_bytes; }
  // Room for what a kernel reads that takes a whole tile where a few rows are left.
  int64_t guard_after() const;
};

// Sizes of a tensor as the contract has them, (1) for what has fewer dimensions.
inline std::array<int64_t, 4> logical_size(const Problem& p, TensorId t) { return shape_of(spec_of(t), p); }
// Which of its dimensions are stored once and repeated.
std::array<bool, 4> repeated(const Case& c, TensorId t);
// attn_dtype of its elements; ATTN_NONE for what is no number.
int32_t dtype_of(const Problem& p, TensorId t);
int64_t element_bytes(const Problem& p, TensorId t);
bool is_present(const Case& c, TensorId t);
// Whether single values can be planted in it: in numbers that a kernel reads.
constexpr bool takes_planted(TensorId t) { return fill_of(t) || t == TensorId::kBias; }

// Nothing if it does not fit a slot of the arena. `c.problem` has sizes that are
// not negative and at most 2^31, and a layout that illegal() has nothing against.
// The workspace has no geometry of its own: its size comes from the plan.
std::optional<Geometry> geometry(const Case& c, TensorId t);

// By how many elements the outermost dimension with a second index steps where nothing is spread: a spread
// has to be more. 0 if no dimension has one.
int64_t step_without_spread(const Case& c, TensorId t);

}  // namespace attnfuzz
