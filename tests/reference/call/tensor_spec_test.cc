// Compares the table of tensors with the contract, and tests the numbering of rows.
#include "reference/call/tensor_spec.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <vector>

#include "reference/call/row_space.h"

namespace attnfuzz {
namespace {

using enum TensorId;

// These lists decide what a seed draws: a change here changes the cases of all seeds.
static_assert(kOfForwardIn<kMovedTensors> == std::array{kQ, kK, kV, kO, kLse});
static_assert(kSpreadTensors == std::array{kQ, kK, kV, kO, kBias, kMask});
static_assert(kMatrixTensors == std::array{kQ, kK, kV, kO});
static_assert(kOfForwardIn<kPlantedTensors> == std::array{kQ, kK, kV});
static_assert(kStoredOnceTensors == std::array{kQ, kK, kV});
static_assert(kOfForwardIn<kFiniteTensors> == std::array{kQ, kK, kV});

TEST(TensorSpec, EveryRowNamesAnotherMemberOfTheContract) {
  std::set<std::string> names;
  attn_tensors tensors = {};
  for (const TensorSpec& spec : kTensors) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    EXPECT_EQ(view_of(tensors, spec).data != nullptr, shares_member(spec)) << spec.name;
    char* mark = reinterpret_cast<char*>(0x1000) + static_cast<int>(spec.id);
    set_view(tensors, spec, {mark, {5, 6, 7, 8}});
    const attn_tensor back = view_of(tensors, spec);
    EXPECT_EQ(back.data, mark) << spec.name;
    EXPECT_EQ(back.stride[0], spec.strided() ? 5 : 0) << spec.name;
    EXPECT_EQ(back.stride[3], spec.strided() ? 8 : 1) << spec.name;
  }
  EXPECT_EQ(tensors.bias.data, reinterpret_cast<char*>(0x1000) + static_cast<int>(TensorId::kBias));
  EXPECT_EQ(static_cast<const void*>(tensors.key_lengths),
            reinterpret_cast<char*>(0x1000) + static_cast<int>(TensorId::kKeyLengths));
  EXPECT_EQ(tensors.workspace_bytes, 0u) << "a pointer's neighbour is left alone";
  EXPECT_EQ(tensors.size, 0u);
}

// O and LSE are outputs of the forward pass and inputs of the backward pass.
TEST(TensorSpec, TwoRowsMayHaveOneMemberInDifferentOperations) {
  std::vector<TensorId> sharing;
  for (const TensorSpec& spec : kTensors) {
    if (shares_member(spec)) sharing.push_back(spec.id);
  }
  EXPECT_EQ(sharing, (std::vector{TensorId::kSavedO, TensorId::kSavedLse, TensorId::kCacheK, TensorId::kCacheV,
                                  TensorId::kChosen, TensorId::kBlockScores}));
  EXPECT_EQ(spec_of(TensorId::kSavedO).at.offset, spec_of(TensorId::kO).at.offset);
  EXPECT_TRUE(in_problem(spec_of(TensorId::kSavedO), ATTN_FEATURE_BACKWARD));
  EXPECT_FALSE(in_problem(spec_of(TensorId::kO), ATTN_FEATURE_BACKWARD));
  EXPECT_TRUE(gives_gradients(ATTN_FEATURE_BACKWARD) && gives_gradients(ATTN_FEATURE_SELECTED_BACKWARD));
  EXPECT_FALSE(gives_gradients(0) || gives_gradients(ATTN_FEATURE_SELECTED));
  EXPECT_TRUE(in_problem(spec_of(TensorId::kIndices), ATTN_FEATURE_SELECTED_BACKWARD));
  EXPECT_FALSE(in_problem(spec_of(TensorId::kDsink), ATTN_FEATURE_SELECTED_BACKWARD | ATTN_FEATURE_DSINK));
  EXPECT_FALSE(in_problem(spec_of(TensorId::kSavedO), 0));
  EXPECT_TRUE(attends(0) && attends(ATTN_FEATURE_BACKWARD) && attends(ATTN_FEATURE_SELECTED) && !attends(ATTN_FEATURE_MERGE));
  EXPECT_TRUE(in_problem(spec_of(TensorId::kK), ATTN_FEATURE_NSA_COMPRESS)) << "it has keys and no queries";
  EXPECT_FALSE(attends(ATTN_FEATURE_NSA_COMPRESS) || attends(ATTN_FEATURE_NSA_COMBINE));
  EXPECT_TRUE(attends(ATTN_FEATURE_NSA_SCORE)) << "it has queries and keys, and no values";
  EXPECT_FALSE(in_problem(spec_of(TensorId::kV), ATTN_FEATURE_NSA_SCORE));
}

TEST(TensorSpec, ShapesAreThoseOfTheContract) {
  attn_problem p = {};
  p.batch = 2, p.heads_q = 6, p.heads_kv = 3, p.seq_q = 5, p.seq_k = 7, p.dim_qk = 8, p.dim_v = 9;
  const auto is = [&](TensorId t, std::array<int64_t, 4> size) { EXPECT_EQ(shape_of(spec_of(t), p), size); };
  is(TensorId::kQ, {2, 6, 5, 8});
  is(TensorId::kK, {2, 3, 7, 8});
  is(TensorId::kV, {2, 3, 7, 9});
  is(TensorId::kO, {2, 6, 5, 9});
  is(TensorId::kLse, {2, 6, 5, 1});
  is(TensorId::kMask, {2, 6, 5, 7});
  is(TensorId::kKeyLengths, {1, 1, 1, 2});
  is(TensorId::kCuQ, {1, 1, 1, 3});
  EXPECT_EQ(element_bytes(spec_of(TensorId::kQ), {ATTN_BF16, ATTN_NONE, ATTN_F16}), 2);
  EXPECT_EQ(element_bytes(spec_of(TensorId::kQ), {ATTN_F32, ATTN_NONE, ATTN_F16}), 4);
  EXPECT_EQ(element_bytes(spec_of(TensorId::kBias), {ATTN_F16, ATTN_F32, ATTN_F16}), 4);
  EXPECT_EQ(element_bytes(spec_of(TensorId::kBias), {ATTN_F32, ATTN_BF16, ATTN_F16}), 2);
  EXPECT_EQ(std::vector<TensorId>(kOutputs.begin(), kOutputs.end()),
            (std::vector{TensorId::kO, TensorId::kLse, TensorId::kDq, TensorId::kDk, TensorId::kDv,
                         TensorId::kDbias, TensorId::kDsink, TensorId::kChosen, TensorId::kKCmp, TensorId::kVCmp,
                         TensorId::kBlockScores}));
  EXPECT_EQ(std::vector<TensorId>(kStates.begin(), kStates.end()), (std::vector{TensorId::kCacheK, TensorId::kCacheV}));
  EXPECT_EQ(kInputs.size() + kOutputs.size() + kStates.size() + 1, static_cast<size_t>(kTensorCount));
}

TEST(TensorSpec, KeysAndValuesMayHaveAnotherFormatThanQ) {
  attn_problem p = {};
  p.batch = 2, p.heads_q = 6, p.heads_kv = 3, p.seq_q = 5, p.seq_k = 7, p.dim_qk = 8, p.dim_v = 9;
  p.dtype = ATTN_BF16, p.features = ATTN_FEATURE_KV8;
  for (const int32_t format : {ATTN_E4M3, ATTN_E5M2}) {
    p.kv_dtype = format;
    for (const TensorId t : {TensorId::kK, TensorId::kV}) {
      EXPECT_EQ(dtype_of(spec_of(t), formats_of(p)), format) << name_of(t);
      EXPECT_EQ(element_bytes(spec_of(t), formats_of(p)), 1) << name_of(t);
    }
    for (const TensorId t : {TensorId::kQ, TensorId::kO, TensorId::kDk, TensorId::kCacheK, TensorId::kKNew})
      EXPECT_EQ(dtype_of(spec_of(t), formats_of(p)), ATTN_BF16) << name_of(t);
  }
  p.kv_dtype = 0;
  EXPECT_EQ(dtype_of(spec_of(TensorId::kV), formats_of(p)), ATTN_BF16);
  EXPECT_EQ(element_bytes(spec_of(TensorId::kV), formats_of(p)), 2);
  // Scales are numbered by entry and key, wherever the keys lie.
  p.ragged = ATTN_RAGGED_KEYS, p.total_k = 11;
  for (const TensorId t : {TensorId::kKScale, TensorId::kVScale}) {
    EXPECT_EQ(stored_shape_of(spec_of(t), p), (std::array<int64_t, 4>{2, 3, 7, 1}));
    EXPECT_EQ(dtype_of(spec_of(t), formats_of(p)), ATTN_F32);
    EXPECT_TRUE(in_problem(spec_of(t), ATTN_FEATURE_KV8) && !in_problem(spec_of(t), 0));
    EXPECT_FALSE(in_problem(spec_of(t), ATTN_FEATURE_KV8 | ATTN_FEATURE_APPEND));
  }
}

TEST(TensorSpec, IndicesHaveNames) {
  using Names = std::array<const char*, 4>;
  const auto third = [](TensorId t) { return std::string(index_names(spec_of(t))[2]); };
  EXPECT_EQ(third(TensorId::kO), "q");
  EXPECT_EQ(third(TensorId::kDk), "k");
  EXPECT_EQ(third(TensorId::kKScale), "k");
  EXPECT_EQ(third(TensorId::kChosen), "q");
  EXPECT_EQ(third(TensorId::kCacheV), "slot");
  const Names of_cache = index_names(spec_of(TensorId::kCacheK));
  EXPECT_STREQ(of_cache[0], "store");
  EXPECT_STREQ(of_cache[3], "d");
}

TEST(TensorSpec, ACacheIsItsEntriesOrItsPages) {
  attn_problem p = {};
  p.batch = 2, p.heads_q = 3, p.heads_kv = 3, p.seq_q = 5, p.seq_k = 7, p.dim_qk = 8, p.dim_v = 9;
  p.features = ATTN_FEATURE_APPEND;
  const auto is = [&](TensorId t, std::array<int64_t, 4> size) {
    EXPECT_EQ(stored_shape_of(spec_of(t), p), size) << name_of(t);
  };
  is(TensorId::kCacheK, {2, 3, 7, 8});
  is(TensorId::kCacheV, {2, 3, 7, 9});
  is(TensorId::kKNew, {2, 3, 5, 8});
  p.ragged = ATTN_RAGGED_QUERIES, p.total_q = 6, p.page_size = 4, p.pages = 10, p.pages_per_seq = 2;
  is(TensorId::kCacheK, {10, 3, 4, 8});
  is(TensorId::kVNew, {1, 3, 6, 9});
  is(TensorId::kCopies, {2, 1, 1, 2});
  EXPECT_TRUE(in_problem(spec_of(TensorId::kCacheK), ATTN_FEATURE_APPEND));
  EXPECT_FALSE(in_problem(spec_of(TensorId::kCacheK), 0) || in_problem(spec_of(TensorId::kK), ATTN_FEATURE_APPEND));
  EXPECT_TRUE(is_written(spec_of(TensorId::kCacheV)) && read_as_integers(spec_of(TensorId::kCacheV)));
  EXPECT_FALSE(is_integer(spec_of(TensorId::kCacheV)) || attends(ATTN_FEATURE_APPEND));
  EXPECT_TRUE(writes_cache(ATTN_FEATURE_APPEND) && writes_cache(ATTN_FEATURE_COPY_PAGES | ATTN_FEATURE_PAGED));
  EXPECT_FALSE(writes_cache(ATTN_FEATURE_PAGED) || writes_cache(ATTN_FEATURE_SELECTED));
  EXPECT_TRUE(may_have_pages(0) && may_have_pages(ATTN_FEATURE_COPY_PAGES) && !may_have_pages(ATTN_FEATURE_MERGE));
}

TEST(TensorSpec, PackedEntriesAreOneInMemory) {
  attn_problem p = {};
  p.batch = 2, p.heads_q = 6, p.heads_kv = 3, p.seq_q = 5, p.seq_k = 7, p.dim_qk = 8, p.dim_v = 9;
  p.total_q = 6, p.total_k = 11, p.block = 4, p.select = 3;
  const auto is = [&](TensorId t, std::array<int64_t, 4> size) {
    EXPECT_EQ(stored_shape_of(spec_of(t), p), size) << name_of(t) << " " << p.ragged;
  };
  for (p.ragged = 0; p.ragged < 4; ++p.ragged) {
    const bool q = (p.ragged & ATTN_RAGGED_QUERIES) != 0, k = (p.ragged & ATTN_RAGGED_KEYS) != 0;
    is(TensorId::kQ, {q ? 1 : 2, 6, q ? 6 : 5, 8});
    is(TensorId::kO, {q ? 1 : 2, 6, q ? 6 : 5, 9});
    is(TensorId::kLse, {q ? 1 : 2, 6, q ? 6 : 5, 1});
    is(TensorId::kK, {k ? 1 : 2, 3, k ? 11 : 7, 8});
    is(TensorId::kV, {k ? 1 : 2, 3, k ? 11 : 7, 9});
    is(TensorId::kBias, {2, 6, 5, 7});
    is(TensorId::kMask, {2, 6, 5, 7});
    is(TensorId::kSlopes, {2, 6, 1, 1});
    for (const TensorId t : {TensorId::kIndices, TensorId::kChosen}) is(t, {q ? 1 : 2, 3, q ? 6 : 5, 3});
    for (const TensorId t : {TensorId::kScores, TensorId::kBlockScores}) is(t, {q ? 1 : 2, 3, q ? 6 : 5, 2});
    is(TensorId::kVCmp, {q ? 1 : 2, 3, q ? 6 : 5, 9});
    is(TensorId::kGates, {2, 6, 5, 3});
  }
  p.ragged = ATTN_RAGGED_QUERIES, p.page_size = 4, p.pages = 10, p.pages_per_seq = 3;
  is(TensorId::kQ, {1, 6, 6, 8});
  is(TensorId::kK, {10, 3, 4, 8});
  is(TensorId::kV, {10, 3, 4, 9});
  is(TensorId::kMask, {2, 6, 5, 7});
  is(TensorId::kBlockTable, {2, 1, 1, 3});
  p.ragged = 0, p.page_size = 0, p.block = 16, p.select = 4;
  is(TensorId::kIndices, {2, 3, 5, 4});
  is(TensorId::kScores, {2, 3, 5, 1});
  p.key_step = 4, p.key_offset = 7;
  is(TensorId::kBlockScores, {2, 3, 5, 3});  // of 7 * 4 + 7 positions
  p.key_step = p.key_offset = 0;
  is(TensorId::kKCmp, {2, 3, 5, 8});
  is(TensorId::kVCmp, {2, 3, 5, 9});
  is(TensorId::kO3, {2, 6, 5, 9});
  is(TensorId::kGates, {2, 6, 5, 3});
  for (const uint64_t operation : {ATTN_FEATURE_SELECTED, ATTN_FEATURE_NSA_SELECT, ATTN_FEATURE_APPEND, uint64_t{0}})
    EXPECT_TRUE(in_problem(spec_of(TensorId::kCuQ), operation | ATTN_FEATURE_RAGGED)) << operation;
  for (const uint64_t operation : {ATTN_FEATURE_MERGE, ATTN_FEATURE_NSA_COMBINE, ATTN_FEATURE_COPY_PAGES})
    EXPECT_FALSE(in_problem(spec_of(TensorId::kCuQ), operation | ATTN_FEATURE_RAGGED)) << operation;
  EXPECT_FALSE(in_problem(spec_of(TensorId::kCuK), ATTN_FEATURE_APPEND | ATTN_FEATURE_RAGGED)) << "a cache is not packed";
  EXPECT_EQ(element_bytes(spec_of(TensorId::kCuK), {.input = ATTN_F16, .bias = 0, .index = ATTN_INDEX_32}), 4);
  EXPECT_EQ(element_bytes(spec_of(TensorId::kKeyLengths), {.input = ATTN_F16, .bias = 0, .index = ATTN_INDEX_64}), 8);
}

TEST(RowSpace, CountsQueriesOfHeadsOfEntries) {
  const RowSpace rows(2, 3, 5);
  ASSERT_EQ(rows.count(), 30);
  int64_t row = 0;
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t h = 0; h < 3; ++h) {
      for (int64_t i = 0; i < 5; ++i, ++row) {
        EXPECT_EQ(rows.of(b, h, i), row);
        EXPECT_EQ(rows.of(Row{b, h, i}), row);
        const Row at = rows.at(row);
        EXPECT_TRUE(at.b == b && at.h == h && at.i == i) << row;
      }
    }
  }
}

}  // namespace
}  // namespace attnfuzz
