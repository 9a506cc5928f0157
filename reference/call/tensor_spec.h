// The tensors of a call, one row of a table each: name, shape, format, role, and its
// field of attn_tensors. All code that lays out, sends, checks, exports or hashes
// tensors loops over this table, so that a new tensor is a new row.
//
//   for (const TensorId id : kInputs) {
//     const TensorSpec& spec = spec_of(id);
//     const std::array<int64_t, 4> size = shape_of(spec, problem);
//     const attn_tensor view = view_of(tensors, spec);
//   }
//
// Two tensors may use the same member of attn_tensors if no operation has both (shares_member()).
//
// A row's place in the table is its TensorId, its slot in guarded memory and its
// place in the wire. Files name tensors by `name`, so that rows may be added
// anywhere; a worker and its parent are built from one table (wire::kVersion).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/attention.h"
#include "kernels/contract/problem_fields.h"

namespace attnfuzz {

// clang-format off
enum class TensorId : uint8_t { kQ, kK, kV, kO, kLse, kBias, kMask, kKeyLengths, kWorkspace, kO1, kO2, kLse1, kLse2, kSink,
                               kDout, kSavedO, kSavedLse, kDq, kDk, kDv, kSlopes, kCuQ, kCuK, kBlockTable, kDlse, kDbias,
                               kDsink, kKScale, kVScale, kCacheK, kCacheV, kKNew, kVNew, kCopies,
                               kIndices, kScores, kChosen, kKCmp, kVCmp, kO3, kGates, kBlockScores };
// clang-format on

// The size of a dimension, and the format of an element: the
// problem's dtype, fp32, the bias's own, ... size_of() and dtype_of() list them in the same order.
enum class Size : uint8_t { kOne, kBatch, kHeadsQ, kHeadsKv, kSeqQ, kSeqK, kDimQk, kDimV, kPlanned, kBorders,
                            kPagesPerSeq, kSelect, kBlocks, kStores, kSlots, kTwo, kThree };
enum class Element : uint8_t { kInput, kF32, kBias, kByte, kInt64, kSink, kIndex, kKv };

enum class Role : uint8_t {
  kInput,    // read, never written
  kOutput,   // written to the last element, and judged
  kScratch,  // its content does not matter; its size comes from the plan
  kState     // read and written in part; all of it is judged, by its bits
};

// The ways in which a check varies a tensor. Each row states all of them, so that no check omits a
// new tensor silently.
struct Varied {
  bool moved = false;        // the property `layout` moves it
  bool spread = false;       // the draw spreads its elements over more than 2^31
  bool planted = false;      // the draw and the reducer plant single values in it
  bool stored_once = false;  // case.h stores it once for several heads or batch entries (StoredOnce)
  bool finite = false;       // kernels for finite inputs do not run if it has a NaN or an infinity
  bool by_plan = false;      // its values depend on the plan: an LSE in the form that the kernel uses
};

// The operations, and the bit of attn_problem.features that asks for each. The forward pass has no bit: 0.
struct OperationBit {
  const char* name;
  uint64_t feature;
};
inline constexpr OperationBit kOperationBits[] = {
    {"forward", 0},
    {"merge", ATTN_FEATURE_MERGE},
    {"backward", ATTN_FEATURE_BACKWARD},
    {"append", ATTN_FEATURE_APPEND},
    {"copy_pages", ATTN_FEATURE_COPY_PAGES},
    {"selected", ATTN_FEATURE_SELECTED},
    {"nsa_select", ATTN_FEATURE_NSA_SELECT},
    {"nsa_compress", ATTN_FEATURE_NSA_COMPRESS},
    {"nsa_combine", ATTN_FEATURE_NSA_COMBINE},
    {"selected_backward", ATTN_FEATURE_SELECTED_BACKWARD},
    {"nsa_score", ATTN_FEATURE_NSA_SCORE}};
inline constexpr uint64_t kOperations = [] {
  uint64_t bits = 0;
  for (const OperationBit& operation : kOperationBits) bits |= operation.feature;
  return bits;
}();
// Stands for the forward pass in TensorSpec::operations; no problem has this bit.
inline constexpr uint64_t kOfForward = uint64_t{1} << 63;
inline constexpr uint64_t kOfAll = kOperations | kOfForward;

struct TensorSpec {
  TensorId id;
  const char* name;
  std::array<Size, 4> shape;  // kOne for dimensions that it does not have
  Element element;
  Role role;
  contract::Field at;  // in attn_tensors: an attn_tensor, or a pointer if the tensor is dense
  Varied varied;
  const char* asked_by;  // the field of attn_problem that says whether it is there; nullptr: it always is
  uint64_t feature = 0;  // the bit of attn_problem.features whose problems have it; 0: no bit asks for it
  uint64_t operations = kOfForward;  // the operations that have it: bits of kOperations, and kOfForward

  constexpr bool strided() const { return at.type == contract::Type::kTensor; }
};

namespace tensor_table {
using enum Size;
inline constexpr auto kIn = Role::kInput, kOut = Role::kOutput, kScratch = Role::kScratch,
                      kState = Role::kState;
inline constexpr auto k16 = Element::kInput, k32 = Element::kF32, kByte = Element::kByte;
inline constexpr Varied kOperand = {true, true, true, true, true}, kFixed = {}, kSpread = {.spread = true};
// The operations that attend over keys, and those that write caches.
inline constexpr uint64_t kAppend = ATTN_FEATURE_APPEND, kCopyPages = ATTN_FEATURE_COPY_PAGES,
                          kOfCaches = kAppend | kCopyPages;
inline constexpr uint64_t kBackward = ATTN_FEATURE_BACKWARD, kAttend = kOfForward | kBackward;
inline constexpr uint64_t kSelected = ATTN_FEATURE_SELECTED, kOfSelected = ATTN_FEATURE_SELECTED_BACKWARD,
                          kLists = kSelected | kOfSelected, kGradients = kBackward | kOfSelected,
                          kAnyKeys = kAttend | kLists;
inline constexpr uint64_t kChoose = ATTN_FEATURE_NSA_SELECT, kCompress = ATTN_FEATURE_NSA_COMPRESS,
                          kCombine = ATTN_FEATURE_NSA_COMBINE, kScoring = ATTN_FEATURE_NSA_SCORE;
// The operations whose batch entries may lie packed: all but merges, combinations by gates and copies of pages.
inline constexpr uint64_t kPackable = kAnyKeys | kAppend | kChoose | kCompress | kScoring;
inline constexpr uint64_t kMerge = ATTN_FEATURE_MERGE, kGiveLse = kOfForward | kMerge | kSelected,
                          kOfSides = kMerge | kCombine;
inline constexpr Varied kSide = {.moved = true, .planted = true, .finite = true}, kMoved = {.moved = true},
                        kGivenLse = {.moved = true, .by_plan = true}, kScales = {.finite = true},
                        kCopied = {.moved = true, .planted = true};
using T = attn_tensors;
using enum TensorId;

// clang-format off
inline constexpr TensorSpec kRows[] = {
    {kQ, "q", {kBatch, kHeadsQ, kSeqQ, kDimQk}, k16, kIn, ATTN_FIELD(T, q), kOperand, nullptr, 0,
     kAnyKeys | kScoring},
    {kK, "k", {kBatch, kHeadsKv, kSeqK, kDimQk}, Element::kKv, kIn, ATTN_FIELD(T, k), kOperand, nullptr, 0,
     kAnyKeys | kCompress | kScoring},
    {kV, "v", {kBatch, kHeadsKv, kSeqK, kDimV}, Element::kKv, kIn, ATTN_FIELD(T, v), kOperand, nullptr, 0,
     kAnyKeys | kCompress},
    {kO, "o", {kBatch, kHeadsQ, kSeqQ, kDimV}, k16, kOut, ATTN_FIELD(T, o), {.moved = true, .spread = true}, nullptr,
     0, kGiveLse | kCombine},
    {kLse, "lse", {kBatch, kHeadsQ, kSeqQ, kOne}, k32, kOut, ATTN_FIELD(T, lse), kMoved, nullptr, 0, kGiveLse},
    {kBias, "bias", {kBatch, kHeadsQ, kSeqQ, kSeqK}, Element::kBias, kIn, ATTN_FIELD(T, bias), kSpread, "bias_dtype", 0,
     kAttend},
    {kMask, "mask", {kBatch, kHeadsQ, kSeqQ, kSeqK}, kByte, kIn, ATTN_FIELD(T, mask), kSpread, "has_mask", 0, kAttend},
    {kKeyLengths, "key_lengths", {kOne, kOne, kOne, kBatch}, Element::kIndex, kIn, ATTN_FIELD(T, key_lengths), kFixed,
     "has_key_lengths", 0, kAnyKeys | kChoose | kAppend | kCompress | kScoring},
    {kWorkspace, "workspace", {kOne, kOne, kOne, kPlanned}, kByte, kScratch, ATTN_FIELD(T, workspace), kFixed, nullptr, 0,
     kOfAll},
    {kO1, "o1", {kBatch, kHeadsQ, kSeqQ, kDimV}, k16, kIn, ATTN_FIELD(T, o1), kSide, nullptr, 0, kOfSides},
    {kO2, "o2", {kBatch, kHeadsQ, kSeqQ, kDimV}, k16, kIn, ATTN_FIELD(T, o2), kSide, nullptr, 0, kOfSides},
    {kLse1, "lse1", {kBatch, kHeadsQ, kSeqQ, kOne}, k32, kIn, ATTN_FIELD(T, lse1), kGivenLse, nullptr, 0, kMerge},
    {kLse2, "lse2", {kBatch, kHeadsQ, kSeqQ, kOne}, k32, kIn, ATTN_FIELD(T, lse2), kGivenLse, nullptr, 0, kMerge},
    {kSink, "sink", {kOne, kHeadsQ, kOne, kOne}, Element::kSink, kIn, ATTN_FIELD(T, sink), kFixed, "has_sink",
     ATTN_FEATURE_SINK, kAttend},
    {kDout, "dout", {kBatch, kHeadsQ, kSeqQ, kDimV}, k16, kIn, ATTN_FIELD(T, dout), kSide, nullptr, 0, kGradients},
    {kSavedO, "saved_o", {kBatch, kHeadsQ, kSeqQ, kDimV}, k16, kIn, ATTN_FIELD(T, o), kMoved, nullptr, 0, kGradients},
    {kSavedLse, "saved_lse", {kBatch, kHeadsQ, kSeqQ, kOne}, k32, kIn, ATTN_FIELD(T, lse), kMoved, nullptr, 0,
     kGradients | kScoring},
    {kDq, "dq", {kBatch, kHeadsQ, kSeqQ, kDimQk}, k16, kOut, ATTN_FIELD(T, dq), kMoved, nullptr, 0, kGradients},
    {kDk, "dk", {kBatch, kHeadsKv, kSeqK, kDimQk}, k16, kOut, ATTN_FIELD(T, dk), kMoved, nullptr, 0, kGradients},
    {kDv, "dv", {kBatch, kHeadsKv, kSeqK, kDimV}, k16, kOut, ATTN_FIELD(T, dv), kMoved, nullptr, 0, kGradients},
    {kSlopes, "slopes", {kBatch, kHeadsQ, kOne, kOne}, k32, kIn, ATTN_FIELD(T, slopes), kFixed, "has_alibi",
     ATTN_FEATURE_ALIBI, kOfForward},
    {kCuQ, "cu_q", {kOne, kOne, kOne, kBorders}, Element::kIndex, kIn, ATTN_FIELD(T, cu_q), kFixed, "ragged",
     ATTN_FEATURE_RAGGED, kPackable},
    {kCuK, "cu_k", {kOne, kOne, kOne, kBorders}, Element::kIndex, kIn, ATTN_FIELD(T, cu_k), kFixed, "ragged",
     ATTN_FEATURE_RAGGED, kPackable & ~kAppend},
    {kBlockTable, "block_table", {kBatch, kOne, kOne, kPagesPerSeq}, Element::kIndex, kIn, ATTN_FIELD(T, block_table),
     kFixed, "page_size", ATTN_FEATURE_PAGED, kOfForward | kAppend},
    {kDlse, "dlse", {kBatch, kHeadsQ, kSeqQ, kOne}, k32, kIn, ATTN_FIELD(T, dlse), kSide, nullptr, ATTN_FEATURE_DLSE,
     kGradients},
    {kDbias, "dbias", {kBatch, kHeadsQ, kSeqQ, kSeqK}, Element::kBias, kOut, ATTN_FIELD(T, dbias), kMoved, "bias_dtype",
     ATTN_FEATURE_DBIAS, kBackward},
    {kDsink, "dsink", {kOne, kHeadsQ, kOne, kOne}, k32, kOut, ATTN_FIELD(T, dsink), kMoved, "has_sink",
     ATTN_FEATURE_DSINK, kBackward},
    {kKScale, "k_scale", {kBatch, kHeadsKv, kSeqK, kOne}, k32, kIn, ATTN_FIELD(T, k_scale), kScales, "kv_dtype",
     ATTN_FEATURE_KV8, kOfForward},
    {kVScale, "v_scale", {kBatch, kHeadsKv, kSeqK, kOne}, k32, kIn, ATTN_FIELD(T, v_scale), kScales, "kv_dtype",
     ATTN_FEATURE_KV8, kOfForward},
    {kCacheK, "cache_k", {kStores, kHeadsKv, kSlots, kDimQk}, k16, kState, ATTN_FIELD(T, k), kMoved, nullptr, 0,
     kOfCaches},
    {kCacheV, "cache_v", {kStores, kHeadsKv, kSlots, kDimV}, k16, kState, ATTN_FIELD(T, v), kMoved, nullptr, 0,
     kOfCaches},
    {kKNew, "k_new", {kBatch, kHeadsKv, kSeqQ, kDimQk}, k16, kIn, ATTN_FIELD(T, k_new), kCopied, nullptr, 0, kAppend},
    {kVNew, "v_new", {kBatch, kHeadsKv, kSeqQ, kDimV}, k16, kIn, ATTN_FIELD(T, v_new), kCopied, nullptr, 0, kAppend},
    {kCopies, "copies", {kBatch, kOne, kOne, kTwo}, Element::kIndex, kIn, ATTN_FIELD(T, copies), kFixed, nullptr, 0,
     kCopyPages},
    {kIndices, "indices", {kBatch, kHeadsKv, kSeqQ, kSelect}, Element::kIndex, kIn, ATTN_FIELD(T, indices), kMoved,
     nullptr, 0, kLists},
    {kScores, "scores", {kBatch, kHeadsKv, kSeqQ, kBlocks}, k32, kIn, ATTN_FIELD(T, scores), kMoved, nullptr, 0,
     kChoose},
    {kChosen, "chosen", {kBatch, kHeadsKv, kSeqQ, kSelect}, Element::kIndex, kOut, ATTN_FIELD(T, indices), kMoved,
     nullptr, 0, kChoose | kScoring},
    {kKCmp, "k_cmp", {kBatch, kHeadsKv, kSeqQ, kDimQk}, k16, kOut, ATTN_FIELD(T, k_cmp), kMoved, nullptr, 0, kCompress},
    {kVCmp, "v_cmp", {kBatch, kHeadsKv, kSeqQ, kDimV}, k16, kOut, ATTN_FIELD(T, v_cmp), kMoved, nullptr, 0, kCompress},
    {kO3, "o3", {kBatch, kHeadsQ, kSeqQ, kDimV}, k16, kIn, ATTN_FIELD(T, o3), kSide, nullptr, 0, kCombine},
    {kGates, "gates", {kBatch, kHeadsQ, kSeqQ, kThree}, k16, kIn, ATTN_FIELD(T, gates), kSide, nullptr, 0, kCombine},
    {kBlockScores, "block_scores", {kBatch, kHeadsKv, kSeqQ, kBlocks}, k32, kOut, ATTN_FIELD(T, scores), kMoved, nullptr, 0,
     kScoring},
};
// clang-format on
}  // namespace tensor_table

inline constexpr auto& kTensors = tensor_table::kRows;
inline constexpr int kTensorCount = static_cast<int>(std::size(kTensors));

constexpr const TensorSpec& spec_of(TensorId t) { return kTensors[static_cast<size_t>(t)]; }
constexpr const char* name_of(TensorId t) { return spec_of(t).name; }
constexpr bool is_integer(const TensorSpec& spec) {
  return spec.element == Element::kInt64 || spec.element == Element::kIndex;
}
// True for a tensor whose elements are read as integers: integers as they are, elements of a state as their bits.
constexpr bool read_as_integers(const TensorSpec& spec) { return is_integer(spec) || spec.role == Role::kState; }
// True for a tensor with one row for each query, or each key, of a head.
constexpr bool of_queries(const TensorSpec& spec) { return spec.shape[2] == Size::kSeqQ; }
constexpr bool of_keys(const TensorSpec& spec) { return spec.shape[2] == Size::kSeqK; }
// The names of an element's four indices, as messages have them: o(b=0,h=1,q=2,d=3).
constexpr std::array<const char*, 4> index_names(const TensorSpec& spec) {
  if (spec.role == Role::kState) return {"store", "h", "slot", "d"};
  return {"b", "h", of_keys(spec) ? "k" : "q", "d"};
}

inline constexpr std::array<const char*, kTensorCount> kTensorNames = [] {
  std::array<const char*, kTensorCount> names = {};
  for (size_t t = 0; t < kTensorCount; ++t) names[t] = kTensors[t].name;
  return names;
}();

// The tensors of a role, in the order of the table. (A standard-library view here would take a
// tenth of the compile time of each file that includes this.)
template <Role role>
inline constexpr auto kTensorsOf = [] {
  constexpr auto wanted = [](const TensorSpec& spec) { return spec.role == role; };
  std::array<TensorId, std::ranges::count_if(kTensors, wanted)> ids = {};
  size_t at = 0;
  for (const TensorSpec& spec : kTensors) {
    if (wanted(spec)) ids[at++] = spec.id;
  }
  return ids;
}();
inline constexpr auto kInputs = kTensorsOf<Role::kInput>;
inline constexpr auto kOutputs = kTensorsOf<Role::kOutput>;
inline constexpr auto kStates = kTensorsOf<Role::kState>;
// True if a kernel writes it and it is judged.
constexpr bool is_written(const TensorSpec& spec) {
  return spec.role == Role::kOutput || spec.role == Role::kState;
}

// The tensors that have all of these members of Varied, in the order of the table.
template <bool Varied::*... done>
inline constexpr auto kTensorsWith = [] {
  constexpr auto wanted = [](const TensorSpec& spec) { return ((spec.varied.*done) && ...); };
  std::array<TensorId, std::ranges::count_if(kTensors, wanted)> ids = {};
  size_t at = 0;
  for (const TensorSpec& spec : kTensors) {
    if (wanted(spec)) ids[at++] = spec.id;
  }
  return ids;
}();
inline constexpr auto kMovedTensors = kTensorsWith<&Varied::moved>;
inline constexpr auto kSpreadTensors = kTensorsWith<&Varied::spread>;
// Tensors that kernels load and store in vectors: Q, K, V and O.
inline constexpr auto kMatrixTensors = kTensorsWith<&Varied::moved, &Varied::spread>;
inline constexpr auto kPlantedTensors = kTensorsWith<&Varied::planted>;
inline constexpr auto kStoredOnceTensors = kTensorsWith<&Varied::stored_once>;
inline constexpr auto kFiniteTensors = kTensorsWith<&Varied::finite>;

// True if a problem with these features has the tensor; a case may still leave it out.
constexpr bool in_problem(const TensorSpec& spec, uint64_t features) {
  const uint64_t asked = features & kOperations;
  return (spec.operations & (asked != 0 ? asked : kOfForward)) != 0 &&
         (spec.feature == 0 || (spec.feature & features) != 0);
}

// True if a problem with these features writes caches of keys and values, and computes nothing.
constexpr bool writes_cache(uint64_t features) { return (features & tensor_table::kOfCaches) != 0; }

// True if a problem with these features may have keys in pages: pools of pages that it reads or writes.
constexpr bool may_have_pages(uint64_t features) {
  return (features & kOperations & ~tensor_table::kOfCaches) == 0;
}

// True if a problem with these features asks for gradients, from dO.
constexpr bool gives_gradients(uint64_t features) { return in_problem(spec_of(TensorId::kDout), features); }

// True if a problem with these features has queries that see keys.
constexpr bool attends(uint64_t features) { return in_problem(spec_of(TensorId::kQ), features); }

// The tensors of `list` that belong to the forward pass. A draw begins with these.
template <const auto& list>
inline constexpr auto kOfForwardIn = [] {
  constexpr auto wanted = [](TensorId t) { return in_problem(spec_of(t), 0); };
  std::array<TensorId, std::ranges::count_if(list, wanted)> ids = {};
  std::ranges::copy_if(list, ids.begin(), wanted);
  return ids;
}();

static_assert(
    [] {
      for (size_t t = 0; t < kTensorCount; ++t) {
        if (kTensors[t].id != static_cast<TensorId>(t)) return false;
      }
      return true;
    }(),
    "rows stand in the order of TensorId");
static_assert(std::ranges::all_of(kTensors,
                                  [](const TensorSpec& spec) {
                                    return !spec.asked_by ||
                                           contract::find(contract::kProblemFields, spec.asked_by);
                                  }),
              "a tensor is asked for by a field of attn_problem");

// True if an earlier row has the same member of attn_tensors. Operations may use a member in different ways: O is
// an output of the forward pass, and an input of the backward pass.
constexpr bool shares_member(const TensorSpec& spec) {
  return std::ranges::any_of(
      kTensors, [&](const TensorSpec& other) { return other.id < spec.id && other.at.offset == spec.at.offset; });
}
inline constexpr size_t kMemberCount =
    kTensorCount - static_cast<size_t>(std::ranges::count_if(kTensors, shares_member));
static_assert(std::ranges::all_of(kTensors,
                                  [](const TensorSpec& spec) {
                                    return std::ranges::none_of(kTensors, [&](const TensorSpec& other) {
                                      return other.id < spec.id && other.at.offset == spec.at.offset &&
                                             (other.operations & spec.operations) != 0;
                                    });
                                  }),
              "an operation has one tensor at a member of attn_tensors");

// The fields of attn_tensors in their order: the tensors above, and the fields that are no tensors.
struct TensorsField {
  contract::Field at;
};
inline constexpr auto kTensorsFields = [] {
  std::array<TensorsField, kMemberCount + 3> all = {{{ATTN_FIELD(attn_tensors, size)},
                                                     {ATTN_FIELD(attn_tensors, reserved)},
                                                     {ATTN_FIELD(attn_tensors, workspace_bytes)}}};
  size_t next = 3;
  for (const TensorSpec& spec : kTensors) {
    if (!shares_member(spec)) all[next++] = {spec.at};
  }
  std::ranges::sort(all, {}, [](const TensorsField& field) { return field.at.offset; });
  return all;
}();
static_assert(contract::covers(kTensorsFields, sizeof(attn_tensors)), "each field of attn_tensors has a row");

// The number of entries in a row of the block table. `p` is an attn_problem, or a struct that
// computes the number.
template <class Problem>
constexpr int64_t pages_per_seq_of(const Problem& p) {
  if constexpr (requires { p.pages_per_seq(); })
    return p.pages_per_seq();
  else if constexpr (requires { p.pages_per_seq; })
    return p.pages_per_seq;
  else
    return 0;
}

// The batch entries and the rows of a cache as it lies in memory: pages and their slots, or entries and their keys.
template <class Problem>
constexpr int64_t stores_of(const Problem& p) {
  if constexpr (requires { p.stores(); })
    return p.stores();
  else if constexpr (requires { p.page_size; })
    return p.page_size != 0 ? p.pages : p.batch;
  else
    return p.batch;
}
template <class Problem>
constexpr int64_t slots_of(const Problem& p) {
  if constexpr (requires { p.slots(); })
    return p.slots();
  else if constexpr (requires { p.page_size; })
    return p.page_size != 0 ? p.page_size : p.seq_k;
  else
    return p.seq_k;
}

// The number of indices in the list of a query. `p`: as for pages_per_seq_of().
template <class Problem>
constexpr int64_t select_of(const Problem& p) {
  if constexpr (requires { p.select(); })
    return p.select();
  else if constexpr (requires { p.select; })
    return p.select;
  else
    return 0;
}

// The number of blocks of keys; if keys stand for blocks, the number of blocks of positions. `p`: as for
// pages_per_seq_of().
template <class Problem>
constexpr int64_t blocks_of(const Problem& p) {
  if constexpr (requires { p.blocks(); }) {
    return p.blocks();
  } else if constexpr (requires { p.block; }) {
    const int64_t positions = p.key_step > 0 ? p.seq_k * p.key_step + p.key_offset : p.seq_k;
    return p.block == 0 ? 0 : positions / p.block + (positions % p.block != 0);
  } else {
    return 0;
  }
}

// A size of attn_problem, or of any struct that has its sizes under the same names; 0 for kPlanned.
template <class Problem>
constexpr int64_t size_of(Size size, const Problem& p) {
  if (size == Size::kStores) return stores_of(p);
  if (size == Size::kSlots) return slots_of(p);
  if (size == Size::kTwo) return 2;
  if (size == Size::kThree) return 3;
  const int64_t sizes[] = {1,        p.batch, p.heads_q, p.heads_kv,  p.seq_q, p.seq_k,
                           p.dim_qk, p.dim_v, 0,         p.batch + 1, pages_per_seq_of(p), select_of(p),
                           blocks_of(p)};
  return sizes[static_cast<size_t>(size)];
}

// The sizes of the indices (b, h, i or j, d) that name an element. A packed tensor lacks some of
// these elements.
template <class Problem>
constexpr std::array<int64_t, 4> shape_of(const TensorSpec& spec, const Problem& p) {
  const auto [b, h, s, d] = spec.shape;
  return {size_of(b, p), size_of(h, p), size_of(s, p), size_of(d, p)};
}

// True if the entries of the tensor may lie packed (ATTN_FEATURE_RAGGED), or its keys in pages (ATTN_FEATURE_PAGED).
// Such a tensor has a row for each query (of_queries) or each key of a batch entry, and no other dimension of
// positions. A bias, its gradient, a mask and the scales of K and V are no such tensors.
constexpr bool may_be_packed(const TensorSpec& spec) {
  return spec.shape[0] == Size::kBatch && (of_queries(spec) || of_keys(spec)) && spec.shape[3] != Size::kSeqK &&
         spec.feature != ATTN_FEATURE_KV8 &&
         (spec.operations & tensor_table::kPackable) != 0;
}

// The sizes of a tensor as it lies in memory: packed entries are one, with the rows of all of them; keys in pages have
// a page for each index of the first dimension.
constexpr std::array<int64_t, 4> stored_shape_of(const TensorSpec& spec, const attn_problem& p) {
  std::array<int64_t, 4> shape = shape_of(spec, p);
  if (!may_be_packed(spec)) return shape;
  const bool queries = of_queries(spec);
  if (!queries && p.page_size != 0) shape[0] = p.pages, shape[2] = p.page_size;
  if ((p.ragged & (queries ? ATTN_RAGGED_QUERIES : ATTN_RAGGED_KEYS)) == 0) return shape;
  shape[0] = 1, shape[2] = queries ? p.total_q : p.total_k;
  return shape;
}

// The formats that a problem chooses, as attn_dtype; `index` as attn_index.
struct Formats {
  int32_t input, bias, sink, index = ATTN_INDEX_64, kv = 0;  // kv 0: K and V are of the format of the input
  constexpr int32_t of_kv() const { return kv != 0 ? kv : input; }
};
constexpr Formats formats_of(const attn_problem& p) {
  return {p.dtype, p.bias_dtype, p.sink_dtype, p.index_dtype, p.kv_dtype};
}

// Bytes of a number of an attn_dtype.
constexpr int64_t dtype_bytes(int32_t dtype) {
  return dtype == ATTN_F16 || dtype == ATTN_BF16 ? 2 : dtype == ATTN_E4M3 || dtype == ATTN_E5M2 ? 1 : 4;
}

// attn_dtype of an element; ATTN_NONE for bytes and integers.
constexpr int32_t dtype_of(const TensorSpec& spec, const Formats& formats) {
  const int32_t dtypes[] = {formats.input, ATTN_F32,     formats.bias, ATTN_NONE,
                            ATTN_NONE,     formats.sink, ATTN_NONE,    formats.of_kv()};
  return dtypes[static_cast<size_t>(spec.element)];
}

constexpr int64_t element_bytes(const TensorSpec& spec, const Formats& formats) {
  const int64_t index = formats.index == ATTN_INDEX_32 ? 4 : 8;
  const int64_t bytes[] = {dtype_bytes(formats.input), 4, dtype_bytes(formats.bias), 1, 8, dtype_bytes(formats.sink),
                           index, dtype_bytes(formats.of_kv())};
  return bytes[static_cast<size_t>(spec.element)];
}

// Returns a pointer as a dense view.
inline attn_tensor view_of(const attn_tensors& tensors, const TensorSpec& spec) {
  attn_tensor view = {nullptr, {0, 0, 0, 1}};
  const auto* from = reinterpret_cast<const char*>(&tensors) + spec.at.offset;
  std::memcpy(&view, from, spec.at.bytes);
  return view;
}

inline void set_view(attn_tensors& tensors, const TensorSpec& spec, const attn_tensor& view) {
  std::memcpy(reinterpret_cast<char*>(&tensors) + spec.at.offset, &view, spec.at.bytes);
}

}  // namespace attnfuzz
