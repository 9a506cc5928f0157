// Tests the arguments that plug_in.h asks for, and the problems that it refuses, for operations on lists of
// blocks and for the stages of native sparse attention.
#include "tests/kernels/plug_in/kernels.h"

namespace attnfuzz {
namespace {

struct Selected : Paged {
  static constexpr uint64_t kFeatures = ATTN_FEATURE_SELECTED | ATTN_FEATURE_PAGED | ATTN_FEATURE_BACKWARD;
};

// It has only the gradients over listed blocks.
struct SelectedGrading : One {
  static constexpr const char* kName = "selected_grading";
  static constexpr uint64_t kFeatures = ATTN_FEATURE_SELECTED_BACKWARD | ATTN_FEATURE_NO_FORWARD |
                                        ATTN_FEATURE_SELECTED | ATTN_FEATURE_BACKWARD | ATTN_FEATURE_DBIAS |
                                        ATTN_FEATURE_DSINK | ATTN_FEATURE_DLSE | ATTN_FEATURE_SINK;
};

TEST(PlugIn, GradientsOverListedBlocksHaveTheTensorsOfBoth) {
  constexpr attn_kernel kGrading = attn::plug_in<SelectedGrading>();
  static int64_t list[64] = {};
  Offer backward;
  backward.env.backend = ATTN_CUDA, backward.env.variant = 0;
  attn_problem& p = backward.problem;
  backward.dense();
  p.features = ATTN_FEATURE_SELECTED_BACKWARD;
  p.block = 16, p.select = 2;
  attn_tensors& t = backward.tensors;
  t.dout = t.o, t.dq = t.q, t.dk = t.k, t.dv = t.v;
  t.indices = {list, {2, 2, 2, 1}};
  EXPECT_EQ(answer(kGrading, backward).status, ATTN_OK) << answer(kGrading, backward).reason;
  const auto refuses = [&](void (*change)(Offer&), const char* words) {
    expect_refusal(kGrading, backward, change, words);
  };
  refuses([](Offer& x) { x.tensors.indices.data = nullptr; }, "indices is a null pointer");
  refuses([](Offer& x) { x.tensors.dout.data = nullptr; }, "dout is a null pointer");
  refuses([](Offer& x) { x.tensors.lse.data = nullptr; }, "lse is a null pointer");
  refuses([](Offer& x) { x.tensors.dk.data = nullptr; }, "dk is a null pointer");
  refuses([](Offer& x) { x.problem.features |= ATTN_FEATURE_DLSE, x.tensors.dlse.data = nullptr; },
          "dlse is a null pointer");
  refuses([](Offer& x) { x.problem.block = 0; }, "asks for attention over listed blocks");
  refuses([](Offer& x) { x.problem.features |= ATTN_FEATURE_SELECTED; }, "two operations");
  refuses([](Offer& x) { x.problem.features |= ATTN_FEATURE_BACKWARD; }, "two operations");
  refuses([](Offer& x) { x.problem.features |= ATTN_FEATURE_DBIAS; }, "dbias is wanted of no bias");
  refuses([](Offer& x) { x.problem.window_left = 1; }, "has no window");
  refuses([](Offer& x) { x.problem.num_splits = 1; }, "no slopes, latent V or splits");
}

TEST(PlugIn, ListedBlocksHaveIndices) {
  constexpr attn_kernel kSelected = attn::plug_in<Selected>();
  static int64_t list[64] = {};
  Offer selected;
  selected.env.backend = ATTN_CUDA, selected.env.variant = 0;
  attn_problem& p = selected.problem;
  selected.dense();
  p.features = ATTN_FEATURE_SELECTED;
  p.block = 16, p.select = 2;
  selected.tensors.indices = {list, {2, 2, 2, 1}};
  EXPECT_EQ(answer(kSelected, selected).status, ATTN_OK) << answer(kSelected, selected).reason;
  const auto refuses = [&](void (*change)(Offer&), const char* words) {
    Offer other = selected;
    change(other);
    const Told told = answer(kSelected, other);
    EXPECT_NE(told.status, ATTN_OK) << words;
    EXPECT_NE(told.reason.find(words), std::string::npos) << told.reason;
  };
  refuses([](Offer& x) { x.tensors.indices.data = nullptr; }, "indices is a null pointer");
  refuses([](Offer& x) { x.tensors.indices.data = reinterpret_cast<char*>(list) + 4; }, "not aligned");
  refuses([](Offer& x) { x.problem.block = 0; }, "asks for attention over listed blocks");
  refuses([](Offer& x) { x.problem.select = 0; }, "asks for attention over listed blocks");
  refuses([](Offer& x) { x.problem.select = -1; }, "select = -1 is outside");
  refuses([](Offer& x) { x.problem.features = 0; },
          "asks neither for listed blocks nor for a choice of blocks");
  refuses([](Offer& x) { x.problem.features |= ATTN_FEATURE_BACKWARD; }, "two operations");
  refuses([](Offer& x) { x.problem.window_left = 1; }, "has no window");
  refuses([](Offer& x) { x.problem.num_splits = 1; }, "has no window");
  refuses([](Offer& x) { x.problem.features |= ATTN_FEATURE_PAGED, x.problem.page_size = 1; },
          "only the forward pass, an append and a copy of pages have pages");
}

struct Choice : Paged {
  static constexpr uint64_t kFeatures = ATTN_FEATURE_NSA_SELECT | ATTN_FEATURE_SELECTED | ATTN_FEATURE_RAGGED;
};

TEST(PlugIn, AChoiceOfBlocksHasScores) {
  constexpr attn_kernel kChoice = attn::plug_in<Choice>();
  static int64_t list[8] = {};
  static float scores[8] = {};
  Offer choice;
  choice.env.backend = ATTN_CUDA, choice.env.variant = 0;
  attn_problem& p = choice.problem;
  p = {};
  p.size = sizeof p;
  p.bias_dtype = ATTN_NONE, p.window_left = p.window_right = -1;
  p.batch = p.heads_q = p.heads_kv = p.dim_qk = p.dim_v = 1, p.seq_q = 2, p.seq_k = 7;
  p.features = ATTN_FEATURE_NSA_SELECT;
  p.block = 2, p.select = 3, p.select_first = 1, p.select_last = 2;
  choice.tensors = {};
  choice.tensors.size = sizeof choice.tensors;
  choice.tensors.indices = {list, {6, 6, 3, 1}};
  choice.tensors.scores = {scores, {8, 8, 4, 1}};
  EXPECT_EQ(answer(kChoice, choice).status, ATTN_OK) << answer(kChoice, choice).reason;
  EXPECT_EQ(attn::blocks_of_keys(p), 4);
  const auto refuses = [&](void (*change)(Offer&), const char* words) {
    Offer other = choice;
    change(other);
    const Told told = answer(kChoice, other);
    EXPECT_NE(told.status, ATTN_OK) << words;
    EXPECT_NE(told.reason.find(words), std::string::npos) << told.reason;
  };
  refuses([](Offer& x) { x.tensors.scores.data = nullptr; }, "scores is a null pointer");
  refuses([](Offer& x) { x.tensors.indices.data = nullptr; }, "indices is a null pointer");
  refuses([](Offer& x) { x.tensors.indices.stride[2] = 2; }, "the strides of indices");
  refuses([](Offer& x) { x.problem.select_last = 3; }, "is less than select_first + select_last");
  refuses([](Offer& x) { x.problem.select_first = -1; }, "select_first = -1 is outside");
  refuses([](Offer& x) { x.problem.dim_v = 2; }, "dim_qk = dim_v = 1");
  refuses([](Offer& x) { x.problem.block = 0; }, "asks for a choice of blocks");
  refuses([](Offer& x) { x.problem.window_left = 1; }, "a choice of blocks has no window");
  refuses([](Offer& x) { x.problem.features |= ATTN_FEATURE_SELECTED; }, "two operations");
  refuses([](Offer& x) { x.problem.features = ATTN_FEATURE_SELECTED, x.problem.select_last = 0; },
          "only a choice of blocks has select_first");
}

TEST(PlugIn, ListsOfPackedEntriesLieInOneEntry) {
  constexpr attn_kernel kChoice = attn::plug_in<Choice>();
  static int64_t lists[9] = {};
  static float scores[12] = {};
  static const int64_t kBorders[] = {0, 1, 3};
  Offer packed;
  packed.env.backend = ATTN_CUDA, packed.env.variant = 0;
  attn_problem& p = packed.problem;
  p = {};
  p.size = sizeof p;
  p.bias_dtype = ATTN_NONE, p.window_left = p.window_right = -1;
  p.batch = 2, p.heads_q = p.heads_kv = p.dim_qk = p.dim_v = 1, p.seq_q = 2, p.seq_k = 7;
  p.features = ATTN_FEATURE_NSA_SELECT | ATTN_FEATURE_RAGGED;
  p.ragged = ATTN_RAGGED_QUERIES | ATTN_RAGGED_KEYS, p.total_q = 3, p.total_k = 9;
  p.block = 2, p.select = 3;
  packed.tensors = {};
  packed.tensors.size = sizeof packed.tensors;
  packed.tensors.cu_q = packed.tensors.cu_k = kBorders;
  packed.tensors.indices = {lists, {0, 9, 3, 1}};
  packed.tensors.scores = {scores, {0, 12, 4, 1}};
  EXPECT_EQ(answer(kChoice, packed).status, ATTN_OK) << answer(kChoice, packed).reason;
  const attn_tensors t = attn::strided(p, packed.tensors);
  EXPECT_TRUE(t.indices.stride[0] == 0 && t.indices.stride[2] == 3 && t.scores.stride[2] == 4);
  packed.tensors.indices.stride[2] = 2;
  EXPECT_NE(answer(kChoice, packed).reason.find("the strides of indices"), std::string::npos);
  packed.tensors.indices.stride[2] = 3, packed.tensors.cu_k = nullptr;
  EXPECT_NE(answer(kChoice, packed).reason.find("cu_k is a null pointer"), std::string::npos);
}

struct Stages : Paged {
  static constexpr uint64_t kFeatures =
      ATTN_FEATURE_NSA_COMPRESS | ATTN_FEATURE_NSA_COMBINE | ATTN_FEATURE_MERGE | ATTN_FEATURE_PAGED;
};
constexpr attn_kernel kStages = attn::plug_in<Stages>();

// A call with one row of one column. refuses() changes it and expects a refusal.
struct StageOffer : Offer {
  explicit StageOffer(uint64_t feature) {
    env.backend = ATTN_CUDA, env.variant = 0;
    problem = {};
    problem.size = sizeof problem;
    problem.bias_dtype = ATTN_NONE, problem.window_left = problem.window_right = -1;
    problem.batch = problem.heads_q = problem.heads_kv = problem.dim_qk = problem.dim_v = 1, problem.seq_q = 2;
    problem.features = feature;
    tensors = {};
    tensors.size = sizeof tensors;
  }
  void refuses(void (*change)(Offer&), const char* words) const {
    Offer other = *this;
    change(other);
    const Told told = answer(kStages, other);
    EXPECT_NE(told.status, ATTN_OK) << words;
    EXPECT_NE(told.reason.find(words), std::string::npos) << told.reason;
  }
};

TEST(PlugIn, ACompressionHasKeysAndSteps) {
  static uint16_t data[64] = {};
  StageOffer x(ATTN_FEATURE_NSA_COMPRESS);
  x.problem.seq_k = 7, x.problem.key_step = 2, x.problem.key_offset = 3;
  x.tensors.k = x.tensors.v = {data, {7, 7, 1, 1}};
  x.tensors.k_cmp = x.tensors.v_cmp = {data, {2, 2, 1, 1}};
  EXPECT_EQ(answer(kStages, x).status, ATTN_OK) << answer(kStages, x).reason;
  x.refuses([](Offer& y) { y.tensors.v.data = nullptr; }, "v is a null pointer");
  x.refuses([](Offer& y) { y.tensors.k_cmp.data = nullptr; }, "k_cmp is a null pointer");
  x.refuses([](Offer& y) { y.tensors.v_cmp.stride[2] = 0; }, "the strides of v_cmp");
  x.refuses([](Offer& y) { y.problem.key_step = 0; }, "asks for compressed keys");
  x.refuses([](Offer& y) { y.problem.key_offset = -1; }, "key_offset = -1 is outside");
  x.refuses([](Offer& y) { y.problem.features = 0; }, "does not ask for compressed keys");
  x.refuses([](Offer& y) { y.problem.features |= ATTN_FEATURE_NSA_COMBINE; }, "two operations");
  x.refuses([](Offer& y) { y.problem.heads_q = 2; }, "heads_kv = heads_q");
  x.refuses([](Offer& y) { y.problem.causal = 1; }, "has no softcap, causal order");
  x.refuses([](Offer& y) { y.problem.features |= ATTN_FEATURE_PAGED, y.problem.page_size = 1; }, "have pages");
  x.problem.seq_k = 0;
  x.tensors.k = x.tensors.v = {};
  EXPECT_EQ(answer(kStages, x).status, ATTN_OK) << "without keys, all rows are 0";
}

struct Scores : Paged {
  static constexpr uint64_t kFeatures = ATTN_FEATURE_NSA_SCORE | ATTN_FEATURE_KEY_STEP | ATTN_FEATURE_PAGED;
};

TEST(PlugIn, ComputedScoresHaveQueriesCompressedKeysAndAnLse) {
  constexpr attn_kernel kScores = attn::plug_in<Scores>();
  static uint16_t data[64] = {};
  static float lse[8] = {}, scores[16] = {};
  static int64_t list[16] = {};
  StageOffer x(ATTN_FEATURE_NSA_SCORE);
  x.problem.heads_q = 2, x.problem.seq_k = 3, x.problem.dim_qk = 4, x.problem.scale = 1;
  x.problem.key_step = 2, x.problem.key_offset = 3;
  x.problem.block = 4, x.problem.select = 2, x.problem.select_last = 1;
  x.tensors.q = {data, {16, 8, 4, 1}}, x.tensors.k = {data, {12, 12, 4, 1}};
  x.tensors.lse = {lse, {4, 2, 1, 1}};
  x.tensors.indices = {list, {4, 4, 2, 1}};
  EXPECT_EQ(answer(kScores, x).status, ATTN_OK) << answer(kScores, x).reason;
  x.tensors.scores = {scores, {6, 6, 3, 1}};
  EXPECT_EQ(answer(kScores, x).status, ATTN_OK) << answer(kScores, x).reason;
  EXPECT_EQ(attn::blocks_of_keys(x.problem), 3) << "3 * 2 + 3 positions";
  const auto refuses = [&](void (*change)(Offer&), const char* words) {
    Offer other = x;
    change(other);
    const Told told = answer(kScores, other);
    EXPECT_NE(told.status, ATTN_OK) << words;
    EXPECT_NE(told.reason.find(words), std::string::npos) << told.reason;
  };
  refuses([](Offer& y) { y.tensors.q.data = nullptr; }, "q is a null pointer");
  refuses([](Offer& y) { y.tensors.k.data = nullptr; }, "k is a null pointer");
  refuses([](Offer& y) { y.tensors.lse.data = nullptr; }, "lse is a null pointer");
  refuses([](Offer& y) { y.tensors.indices.data = nullptr; }, "indices is a null pointer");
  refuses([](Offer& y) { y.tensors.scores.stride[2] = 2; }, "the strides of scores");
  refuses([](Offer& y) { y.problem.dim_v = 2; }, "has dim_v = 1 and no softcap");
  refuses([](Offer& y) { y.problem.key_step = 0; }, "asks for compressed keys");
  refuses([](Offer& y) { y.problem.key_offset = 65537; }, "of scores of blocks is more than 2^16");
  refuses([](Offer& y) { y.problem.select_first = 2; }, "is less than select_first + select_last");
  refuses([](Offer& y) { y.problem.window_left = 1; }, "a choice of blocks has no window");
  refuses([](Offer& y) { y.problem.features |= ATTN_FEATURE_KEY_STEP; }, "only the forward pass");
  refuses([](Offer& y) { y.problem.features |= ATTN_FEATURE_PAGED, y.problem.page_size = 1; }, "have pages");
}

TEST(PlugIn, ACombinationHasThreeSidesAndGates) {
  static uint16_t data[64] = {};
  StageOffer x(ATTN_FEATURE_NSA_COMBINE);
  x.tensors.o = x.tensors.o1 = x.tensors.o2 = x.tensors.o3 = {data, {2, 2, 1, 1}};
  x.tensors.gates = {data, {6, 6, 3, 1}};
  EXPECT_EQ(answer(kStages, x).status, ATTN_OK) << answer(kStages, x).reason;
  x.refuses([](Offer& y) { y.tensors.o3.data = nullptr; }, "o3 is a null pointer");
  x.refuses([](Offer& y) { y.tensors.gates.data = nullptr; }, "gates is a null pointer");
  x.refuses([](Offer& y) { y.tensors.gates.data = reinterpret_cast<char*>(data) + 1; }, "gates is not aligned");
  x.refuses([](Offer& y) { y.tensors.o.stride[2] = 0; }, "the strides of o");
  x.refuses([](Offer& y) { y.problem.seq_k = 1; }, "seq_k = 0 and dim_qk = 1");
  x.refuses([](Offer& y) { y.problem.has_key_lengths = 1; }, "has no softcap");
  x.refuses([](Offer& y) { y.problem.key_step = 1; }, "does not ask for compressed keys");
  x.refuses([](Offer& y) { y.problem.features |= ATTN_FEATURE_MERGE; }, "two operations");
}

}  // namespace
}  // namespace attnfuzz
