// The data that a host and a batch on a device exchange: one Call and one Result for each case, both plain
// data.
//
// A batch (batch_judge.h) gets many cases at once. Each case is laid out on the device from its
// recipe, planned and run, and judged there by the oracle's kernels. Counts come back; if a call
// asks for it, the outputs and their expected values come back too. The batch's verdict counts only for cases
// without an error. A call has no pointers. Its tensors are given by byte offsets in its slot, a piece of
// device memory that belongs to this case while the batch runs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "base/both.h"
#include "kernels/attention.h"
#include "properties/case/case.h"
#include "properties/case/places/geometry.h"
#include "reference/gradients/gradient_pairs.h"
#include "reference/model/error_model.h"
#include "reference/semantics.h"

namespace attnfuzz::batch {

// The multiply-adds of Q.K and P.V, as if each query saw each key. P: Problem or attn_problem.
template <class P>
double multiply_adds(const P& p) {
  const auto real = [](int64_t size) { return static_cast<double>(size); };
  return real(p.dim_qk + p.dim_v) * real(p.batch) * real(p.heads_q) * real(p.seq_q) * real(p.seq_k);
}

inline constexpr uint32_t kMostCalls = 256;  // the most calls of a batch
// The most bytes of a tensor or a workspace, without redzones.
inline constexpr uint64_t kMostTensorBytes = uint64_t{256} << 20;
inline constexpr uint32_t kMostLengths = 136, kMostPlanted = 96, kMostRepeats = 8;
// True if a forward pass or a merge has the tensor, or if it holds lists of blocks. All other tensors of a batch
// belong to backward passes only.
constexpr bool is_of_others(TensorId id) {
  return (spec_of(id).operations & (kOfForward | ATTN_FEATURE_MERGE | ATTN_FEATURE_SELECTED)) != 0;
}
// The tensors that only a backward pass has.
constexpr bool is_of_backward(TensorId id) {
  return !is_of_others(id) && (spec_of(id).operations & ATTN_FEATURE_BACKWARD) != 0;
}
// Inputs come before outputs. Among each, the tensors that only a backward pass has come last. Otherwise the
// order is that of tensor_spec.h.
inline constexpr auto kIds = [] {
  constexpr auto count = [](const auto& ids) {
    return std::ranges::count_if(ids, is_of_others) + std::ranges::count_if(ids, is_of_backward);
  };
  std::array<TensorId, count(kInputs) + count(kOutputs)> ids = {};
  auto to = ids.begin();
  const auto add = [&to](const auto& some) {
    to = std::ranges::copy_if(some, to, is_of_others).out;
    to = std::ranges::copy_if(some, to, is_of_backward).out;
  };
  add(kInputs);
  add(kOutputs);
  return ids;
}();
constexpr int place_of(TensorId id) { return static_cast<int>(std::ranges::find(kIds, id) - kIds.begin()); }
enum Tensor : int {
  kQuery = place_of(TensorId::kQ),
  kKey = place_of(TensorId::kK),
  kValue = place_of(TensorId::kV),
  kBias = place_of(TensorId::kBias),
  kMask = place_of(TensorId::kMask),
  kLengths = place_of(TensorId::kKeyLengths),
  kSinks = place_of(TensorId::kSink),
  kHeadSlopes = place_of(TensorId::kSlopes),
  kBordersQ = place_of(TensorId::kCuQ),
  kBordersK = place_of(TensorId::kCuK),
  kTable = place_of(TensorId::kBlockTable),
  kFirstO = place_of(TensorId::kO1),
  kSecondO = place_of(TensorId::kO2),
  kFirstLse = place_of(TensorId::kLse1),
  kSecondLse = place_of(TensorId::kLse2),
  kListed = place_of(TensorId::kIndices),
  kDout = place_of(TensorId::kDout),  // the first of a backward pass
  kSavedO = place_of(TensorId::kSavedO),
  kSavedLse = place_of(TensorId::kSavedLse),
  kDlse = place_of(TensorId::kDlse),
  kOutput = place_of(TensorId::kO),
  kLse = place_of(TensorId::kLse),
  kDq = place_of(TensorId::kDq),
  kDk = place_of(TensorId::kDk),
  kDv = place_of(TensorId::kDv),
  kDbias = place_of(TensorId::kDbias),
  kDsink = place_of(TensorId::kDsink),
  kTensors = static_cast<int>(kIds.size())
};
inline constexpr int kGradientInputs = kOutput - kDout, kGradients = kTensors - kDq;
static_assert(kGradientInputs == 4 && kGradients == 5 && kDlse + 1 == kOutput && kLse + 1 == kDq);
static_assert(kDq + 1 == kDk && kDk + 1 == kDv && kDv + 1 == kDbias && kDbias + 1 == kDsink);
static_assert(kTensors < 32, "sets of a batch's tensors, and its workspace, have 32 bits");
static_assert(kQuery == 0 && kKey == 1 && kValue == 2, "Recipe::fill");

// One tensor in its slot, with redzones and gaps (extent.h). A tensor at the end of its page has memory of its
// own, and `end` is the end of mapped memory. In a widely spread tensor, offsets skip the unused bytes between
// its blocks; address_of() adds them.
struct TensorSlot {
  uint64_t begin, data, elements_end, end;  // byte offsets; all 0 if there is no such tensor
  uint32_t size[4], stride[4];              // as stored, in elements; strides without their signs
  uint32_t element_bytes;
  uint8_t order[4];          // of the dimensions, outermost first
  uint32_t backwards;        // bits: dimensions whose stride is negative
  uint32_t pattern;          // the content of redzones and gaps, and of outputs before the call
  int64_t given_stride[4];   // strides as the kernel is given them
  uint32_t blocks;           // the number of blocks of a spread tensor; 0: it is not spread
  uint64_t block, left_out;  // bytes of a block in these offsets, and bytes left out between two blocks
};

// Converts the offset `at` to a distance in memory, in bytes.
ATTN_BOTH inline uint64_t address_of(const TensorSlot& place, uint64_t at) {
  if (place.blocks == 0 || at < place.data) return at;
  const uint64_t block = (at - place.data + kGapEnd) / place.block;
  return at + (block < place.blocks ? block : place.blocks - 1) * place.left_out;
}

// The distance, in elements, from the lowest element to the one with this index.
ATTN_BOTH inline uint64_t element_offset(const TensorSlot& place, uint32_t b, uint32_t h, uint32_t s,
                                         uint32_t d) {
  const uint32_t n[4] = {b, h, s, d};
  uint64_t offset = 0;
  for (int i = 0; i < 4; ++i)
    offset +=
        uint64_t{1} * ((place.backwards >> i & 1) != 0 ? place.size[i] - 1 - n[i] : n[i]) * place.stride[i];
  return offset;
}

struct Workspace {
  uint64_t begin, data, end_of_data, end;  // multiples of 4 bytes
  uint32_t pattern;                        // fills the part that the kernel may use; its redzones are all ones
};

// A planted element. It replaces the value of the fill: plant_at().
struct Plant {
  uint32_t bits;
  int32_t tensor;  // Tensor
  uint32_t n[4];
};

// The recipe of the values of all inputs, as recipe.h reads it.
struct Recipe {
  Fill fill[3];  // of Q, K and V
  Bias bias;
  Mask mask;
  Sink sink;
  Slopes slopes;
  // A merge's sides, and which of them saw keys.
  Fill side_o[2], side_lse[2];
  Pattern sides;
  Fill dout, dlse;
  int32_t remapped;  // boolean: some of the axes below are not the identity
  Axis batch, head_q, head_kv, query, key;
  int64_t seq_q, seq_k;  // the lengths that patterns and biases are computed with
  int64_t shared_keys;   // Remap::shared_keys
  int32_t has_k_shift, has_v_added;
  Fill k_shift, v_added;
  int32_t nan_beyond_lengths;
  uint8_t once_batch[3], once_head[3];  // of Q, K and V, boolean: all indices share the values of index 0
  uint8_t once_dout[4];                 // the same for each dimension of dO
  int64_t longest;                      // of the lengths
  uint32_t planted;
  int64_t lengths[kMostLengths];  // attn_tensors.key_lengths, if the problem has them
  // The ends of packed queries and keys, after a 0. Rows behind the last entry hold numbers of the fill, or
  // NaN.
  int64_t borders_q[kMostLengths + 1], borders_k[kMostLengths + 1];
  int32_t numbers_q, numbers_k;  // boolean
  Paging paging;                 // of a call with keys in pages
  Selection selection;           // of a call over listed blocks
  int64_t listed;                // Problem::listed()
  Plant plant[kMostPlanted];
};

// One of the calls of a case: case.h.
struct Repeat {
  uint8_t dirty_workspace, stream;
};

struct Call {
  attn_problem problem;
  attn_env env;  // stream, callbacks and probe NULL
  attn_plan plan;
  ErrorNumbers model;
  // For a backward pass: the model of the forward pass that saves O and LSE, and terms that all bounds share.
  ErrorNumbers saved;
  gradients::Terms terms;
  TensorSlot tensor[kTensors];
  int64_t first[kTensors];  // elements from the lowest one to (0,0,0,0)
  Workspace workspace;
  uint32_t at_page_end;  // bits, by Tensor; of the workspace: by kTensors
  uint32_t spread;       // likewise: tensors with a wide address range that is mostly unmapped
  uint32_t packed_q;     // bits, by Tensor: tensors in which the queries of all entries are packed
  uint32_t packed_k;     // likewise the keys
  uint32_t paged;        // likewise: tensors with keys in pages
  uint32_t repeats;      // how often the kernel is called
  Repeat repeat[kMostRepeats];
  Recipe recipe;
  double overflow;  // Expected::overflow of O, dQ, dK and dV
  double dbias_overflow, dsink_overflow;
  int32_t complete;         // boolean: elements that were never written can be recognised
  uint64_t bytes;           // size of the slot
  uint64_t readback_at;     // begin of its Readback in the batch's; kNoReadback: only counts are wanted
  int32_t readback_all;     // boolean: expected values are read back too, not only bounds and outputs
  int32_t in_place;         // boolean: runs in the previous call's slot, after that call
  int32_t keeps_workspace;  // boolean: the workspace keeps the content that the previous call left
};
static_assert(std::is_trivially_copyable_v<Call>);

ATTN_BOTH inline bool is_backward(const Call& call) {
  return (call.problem.features & (ATTN_FEATURE_BACKWARD | ATTN_FEATURE_SELECTED_BACKWARD)) != 0;
}
// True if queries see only the keys of listed blocks.
ATTN_BOTH inline bool has_lists(const Call& call) {
  return (call.problem.features & (ATTN_FEATURE_SELECTED | ATTN_FEATURE_SELECTED_BACKWARD)) != 0;
}
ATTN_BOTH inline bool is_merge(const Call& call) { return (call.problem.features & ATTN_FEATURE_MERGE) != 0; }

// The lengths of batch entry b, which has `room` keys without a key length. If keys stand for blocks, the key
// length counts positions.
ATTN_BOTH inline Lengths lengths_in(const Call& call, int64_t b, int64_t queries, int64_t room) {
  const attn_problem& p = call.problem;
  return p.has_key_lengths ? entry_lengths(p, queries, room, call.recipe.lengths[b])
                           : entry_lengths(p, queries, room);
}

// The number of keys of batch entry b, if keys lie in pages.
ATTN_BOTH inline int64_t paged_keys_of(const Call& call, int64_t b) {
  return lengths_in(call, b, call.problem.seq_q, call.problem.seq_k).keys;
}

inline constexpr uint64_t kNoReadback = ~uint64_t{0};
inline constexpr uint64_t kReadbackBytes = uint64_t{32} << 20;  // the most bytes that a batch reads back

// Counts of one call. If nothing is wrong, all are 0 except `worst`, the rows and `not_finite`.
struct Counts {
  unsigned long long worst;  // bits of the largest error/bound that is at most 1
  uint32_t outside;          // elements outside of their bound
  uint32_t redzones;         // changed units of redzones and gaps
  uint32_t inputs;           // changed units of inputs
  uint32_t unwritten;        // elements of outputs that were not written
  uint32_t repeated;         // elements that got other bits in a later call, although the plan is deterministic
  uint32_t dead, uninformative, unconstrained, unknown;  // rows; unknown: not evaluated
  uint32_t not_finite;  // NaN and infinities in Q, K, V, dO and dLSE, except in dense keys beyond a length
};

struct Result {
  int32_t status;    // attn_status of plan() or of run()
  int32_t reported;  // boolean: env->report was called
  attn_plan plan;    // of plan()
  Counts counts;     // of run()
  double launch_s;   // of run(): the CPU's time to launch the call
  // The first result has the seconds that run() took for the whole batch: to map memory, to copy the calls to the
  // device, and to wait for them once all are launched.
  double map_s, send_s, flight_s;
};

}  // namespace attnfuzz::batch
