// Computes the places of the elements of a case's tensors, before there is any memory.
//
// This is the one interpretation of TensorLayout. illegal() uses it to check whether a tensor fits, and
// LaidOut uses it to lay the tensor out.
//
//   Geometry g = *geometry(c, TensorId::kK);
//   int64_t at = b * g.stride[0] + h * g.stride[1] + j * g.stride[2] + t;   // elements from the first
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "properties/case/case.h"

namespace attnfuzz {

// The address space of one tensor in guarded memory.
inline constexpr uint64_t kSlotBytes = uint64_t{1} << 35;

// Redzones and gaps. A gap of up to two pages is filled whole; a longer one is filled for one page at
// either end. A tensor that is spread over gigabytes therefore touches few pages.
inline constexpr int64_t kGapEnd = 4096;
inline constexpr int64_t kRedzoneBefore = 256;
inline constexpr int64_t kMaxRedzoneAfter = 16384;

// Junk for strides of dimensions of size 1: it exceeds 32 bits, and no slot has room for one step of it.
inline constexpr int64_t kJunkStride = 1'234'567'890'123;

// Poison of outputs before a call: a NaN in every format with a payload that no arithmetic produces. A NaN
// that a kernel wrote is therefore not mistaken for an element that it did not write.
inline constexpr uint32_t kNeverWritten = 0x7fa57fa5;

struct Geometry {
  bool present = false;
  int64_t element_bytes = 0;
  // As stored: a broadcast dimension has size 1. Strides are negative where the layout says so. The last stride
  // is 1 unless the tensor is scattered.
  std::array<int64_t, 4> size = {};
  std::array<int64_t, 4> stride = {};
  std::array<uint8_t, 3> order = {0, 1, 2};  // outermost first
  int64_t offset_bytes = 0;                  // the lowest element, from a 256-byte boundary
  int64_t span_bytes = 0;                    // from the lowest element to the end of the highest
  int64_t first = 0;                         // element (0,0,0,0), in elements from the lowest
  int64_t touched_bytes = 0;                 // upper bound, with gaps and redzones

  bool empty() const { return size[0] == 0 || size[1] == 0 || size[2] == 0 || size[3] == 0; }
  // True if columns do not lie side by side in their order.
  bool scattered() const { return stride[3] != 1; }
  int64_t row_bytes() const { return size[3] * element_bytes; }
  // Room for a kernel that reads a whole tile where only a few rows are left.
  int64_t redzone_after() const;
};

// Sizes of a tensor as the contract has them; 1 for dimensions that it lacks.
inline std::array<int64_t, 4> logical_size(const Problem& p, TensorId t) { return shape_of(spec_of(t), p); }
// Sizes of a tensor as it lies in memory: packed entries count as one entry, with the rows of all.
std::array<int64_t, 4> stored_size(const Problem& p, TensorId t);
// The scales that tensor t holds; nullptr if t is no tensor of scales or the case has no 8-bit K and V.
inline const KvScales* scales_of(const Problem& p, TensorId t) {
  if (!p.kv8 || (t != TensorId::kKScale && t != TensorId::kVScale)) return nullptr;
  return t == TensorId::kKScale ? &p.kv8->k : &p.kv8->v;
}
// The dimensions that are stored once and repeated. The entries of a packed tensor never are.
std::array<bool, 4> repeated(const Case& c, TensorId t);
// attn_dtype of the elements; ATTN_NONE if they are no numbers.
int32_t dtype_of(const Problem& p, TensorId t);
int64_t element_bytes(const Problem& p, TensorId t);
// The tensor in whose memory the tensor lies: its own, but O or LSE for the first side of a merge in place.
TensorId home_of(const Case& c, TensorId t);
// True if the case has memory for the tensor. A latent V has none: it lies in K's. The first side of a merge in
// place has none either.
bool is_present(const Case& c, TensorId t);
// True if the case says what the tensor holds: it has memory, or is the first side of a merge in place.
inline bool is_given(const Case& c, TensorId t) { return is_present(c, home_of(c, t)); }
// Gives the case what it lacks for the tensor to be present: an LSE that is wanted, a mask that hides nothing,
// a bias of 0.
void make_present(Case& c, TensorId t);
// True if single values can be planted: in numbers that a kernel reads.
constexpr bool takes_planted(TensorId t) { return fill_of(t) || t == TensorId::kBias; }

// The geometry of a tensor, or nothing if it does not fit a slot of the arena. `c.problem` must have sizes
// of 0 to 2^31, and a layout that illegal() accepts. The workspace has no geometry: its size comes from the
// plan.
std::optional<Geometry> geometry(const Case& c, TensorId t);

// The step, in elements, of the outermost dimension with a second index, without a spread. A spread must be
// larger. 0 if no dimension has a second index.
int64_t step_without_spread(const Case& c, TensorId t);

}  // namespace attnfuzz
