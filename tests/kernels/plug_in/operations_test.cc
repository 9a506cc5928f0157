// Tests the arguments that plug_in.h asks for, and the problems that it refuses, for operations other than the
// forward pass.
#include "tests/kernels/plug_in/kernels.h"

namespace attnfuzz {
namespace {

// It has only merges.
struct Merging : One {
  static constexpr const char* kName = "merging";
  static constexpr uint64_t kFeatures = ATTN_FEATURE_MERGE | ATTN_FEATURE_NO_FORWARD;
};

TEST(PlugIn, AMergeHasItsTensorsAndNoOtherFeatures) {
  constexpr attn_kernel kMerging = attn::plug_in<Merging>();
  Offer merge;
  merge.env.backend = ATTN_CUDA, merge.env.variant = 0;
  merge.problem.features = ATTN_FEATURE_MERGE;
  merge.problem.seq_k = 0, merge.problem.dim_qk = 1;
  attn_tensors& t = merge.tensors;
  t.o1 = t.o2 = t.o, t.lse1 = t.lse2 = t.lse;
  EXPECT_EQ(answer(kMerging, merge).status, ATTN_OK) << answer(kMerging, merge).reason;
  const auto refuses = [&](void (*change)(Offer&), const char* words) {
    expect_refusal(kMerging, merge, change, words);
  };
  refuses([](Offer& x) { x.tensors.lse2.data = nullptr; }, "lse2 is a null pointer");
  refuses([](Offer& x) { x.problem.seq_k = 5; }, "seq_k = 0");
  refuses([](Offer& x) { x.problem.causal = 1; }, "a merge has no softcap, causal order");
  refuses([](Offer& x) { x.problem.num_splits = 2; }, "a merge has no softcap, causal order");
  refuses([](Offer& x) { x.problem.features = 0; }, "this kernel has no forward pass");
}

// It merges in place, too.
struct MergingInPlace : Merging {
  static constexpr const char* kName = "merging_in_place";
  static constexpr uint64_t kFeatures = Merging::kFeatures | ATTN_FEATURE_IN_PLACE;
};

TEST(PlugIn, AMergeInPlaceHasItsResultWhereTheFirstSideIs) {
  constexpr attn_kernel kMerging = attn::plug_in<MergingInPlace>();
  Offer merge;
  merge.env.backend = ATTN_CUDA, merge.env.variant = 0;
  merge.problem.features = ATTN_FEATURE_MERGE | ATTN_FEATURE_IN_PLACE;
  merge.problem.seq_k = 0, merge.problem.dim_qk = 1;
  attn_tensors& t = merge.tensors;
  t.o1 = t.o, t.lse1 = t.lse;
  t.o2 = t.o, t.lse2 = t.lse;
  t.o2.data = t.q.data, t.lse2.data = t.k.data;
  EXPECT_EQ(answer(kMerging, merge).status, ATTN_OK) << answer(kMerging, merge).reason;
  const auto refuses = [&](void (*change)(Offer&), const char* words) {
    expect_refusal(kMerging, merge, change, words);
  };
  refuses([](Offer& x) { std::swap(x.tensors.o1, x.tensors.o2); }, "o is not at the address of the side");
  refuses([](Offer& x) { std::swap(x.tensors.lse1, x.tensors.lse2); }, "lse is not at the address of the side");
  refuses([](Offer& x) { x.tensors.o1.stride[2] += 8; }, "o has not the strides of the side");
  refuses([](Offer& x) { x.tensors.lse1.stride[2] += 8; }, "lse has not the strides of the side");
  merge.tensors.lse.data = nullptr, merge.tensors.lse1.data = t.k.data;
  EXPECT_EQ(answer(kMerging, merge).status, ATTN_OK) << "no LSE is wanted, and lse1 is an input";
  merge.problem.features = ATTN_FEATURE_IN_PLACE;
  EXPECT_NE(answer(kMerging, merge).status, ATTN_OK);
}

// It has a backward pass with all optional parts.
struct GradingMore : One {
  static constexpr const char* kName = "grading_more";
  static constexpr uint64_t kFeatures = ATTN_FEATURE_BACKWARD | ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_SINK |
                                        ATTN_FEATURE_DSINK | ATTN_FEATURE_DLSE | ATTN_FEATURE_DBIAS;
};

TEST(PlugIn, OptionalPartsOfABackwardPassNeedTheirTensors) {
  constexpr attn_kernel kMore = attn::plug_in<GradingMore>();
  Offer backward;
  backward.env.backend = ATTN_CUDA, backward.env.variant = 0;
  attn_problem& p = backward.problem;
  p.features = GradingMore::kFeatures & ~ATTN_FEATURE_NO_FORWARD;
  p.has_sink = 1, p.sink_dtype = ATTN_F32, p.bias_dtype = ATTN_F32;
  attn_tensors& t = backward.tensors;
  t.dout = t.o, t.dq = t.q, t.dk = t.k, t.dv = t.v;
  static float room[1 << 16];
  t.sink = t.dsink = {room, {0, 1, 0, 1}};
  t.dlse = {room, {p.heads_q * p.seq_q, p.seq_q, 1, 1}};
  t.bias = t.dbias = {room, {0, p.seq_q * p.seq_k, p.seq_k, 1}};  // one for all batch entries
  EXPECT_EQ(answer(kMore, backward).status, ATTN_OK) << answer(kMore, backward).reason;
  const auto refuses = [&](void (*change)(Offer&), const char* words) {
    expect_refusal(kMore, backward, change, words);
  };
  refuses([](Offer& x) { x.tensors.dlse.data = nullptr; }, "dlse is a null pointer");
  refuses([](Offer& x) { x.tensors.dbias.data = nullptr; }, "dbias is a null pointer");
  refuses([](Offer& x) { x.tensors.dsink.data = nullptr; }, "dsink is a null pointer");
  refuses([](Offer& x) { x.problem.bias_dtype = ATTN_NONE; }, "dbias is wanted of no bias");
  refuses([](Offer& x) { x.problem.features &= ~ATTN_FEATURE_DSINK; }, "needs ATTN_FEATURE_DSINK");
  refuses([](Offer& x) { x.problem.features &= ~ATTN_FEATURE_BACKWARD; }, "this kernel has no forward pass");
}

// It has only the backward pass.
struct Grading : One {
  static constexpr const char* kName = "grading";
  static constexpr uint64_t kFeatures = ATTN_FEATURE_BACKWARD | ATTN_FEATURE_NO_FORWARD;
};

TEST(PlugIn, ABackwardPassHasItsTensorsAndNoOtherFeatures) {
  constexpr attn_kernel kGrading = attn::plug_in<Grading>();
  Offer backward;
  backward.env.backend = ATTN_CUDA, backward.env.variant = 0;
  backward.problem.features = ATTN_FEATURE_BACKWARD;
  attn_tensors& t = backward.tensors;
  t.dout = t.o, t.dq = t.q, t.dk = t.k, t.dv = t.v;
  EXPECT_EQ(answer(kGrading, backward).status, ATTN_OK) << answer(kGrading, backward).reason;
  const auto refuses = [&](void (*change)(Offer&), const char* words) {
    expect_refusal(kGrading, backward, change, words);
  };
  refuses([](Offer& x) { x.tensors.dout.data = nullptr; }, "dout is a null pointer");
  refuses([](Offer& x) { x.tensors.lse.data = nullptr; }, "lse is a null pointer");
  refuses([](Offer& x) { x.tensors.dv.data = nullptr; }, "dv is a null pointer");
  refuses([](Offer& x) { x.problem.num_splits = 2; }, "no slopes, latent V or splits");
  refuses([](Offer& x) { x.problem.features = 0; }, "this kernel has no forward pass");
  refuses([](Offer& x) { x.problem.features |= ATTN_FEATURE_MERGE; }, "attn_problem.features asks for");
  refuses(
      [](Offer& x) {
        x.problem.seq_k = 2;
        x.tensors.dk.stride[2] = 0;
      },
      "the strides of dk make its elements overlap");
  // O is an input: it may repeat one row.
  Offer repeated = backward;
  repeated.problem.seq_q = 2;
  repeated.tensors.o.stride[2] = 0;
  repeated.tensors.dq.stride[2] = repeated.problem.dim_qk;
  EXPECT_EQ(answer(kGrading, repeated).status, ATTN_OK) << answer(kGrading, repeated).reason;
}

// It has appends and copies of pages, and no forward pass.
struct Writes : One {
  static constexpr const char* kName = "writes";
  static constexpr uint64_t kFeatures = ATTN_FEATURE_APPEND | ATTN_FEATURE_COPY_PAGES |
                                        ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_PAGED | ATTN_FEATURE_RAGGED |
                                        ATTN_FEATURE_MERGE;
};

TEST(PlugIn, AnAppendHasNewRowsAndLengths) {
  constexpr attn_kernel kWrites = attn::plug_in<Writes>();
  static const int64_t kLengths[] = {2, 0};
  Offer append;
  append.env.backend = ATTN_CUDA, append.env.variant = 0;
  attn_problem& p = append.problem;
  p.batch = 2, p.seq_k = 4;
  append.dense();
  p.heads_q = p.heads_kv;
  p.features = ATTN_FEATURE_APPEND, p.has_key_lengths = 1;
  attn_tensors& t = append.tensors;
  t.key_lengths = kLengths;
  t.k_new = t.k, t.v_new = t.v;
  t.q = t.o = t.lse = {};
  EXPECT_EQ(answer(kWrites, append).status, ATTN_OK) << answer(kWrites, append).reason;
  const auto refuses = [&](void (*change)(Offer&), const char* words) {
    Offer other = append;
    change(other);
    const Told told = answer(kWrites, other);
    EXPECT_NE(told.status, ATTN_OK) << words;
    EXPECT_NE(told.reason.find(words), std::string::npos) << told.reason;
  };
  refuses([](Offer& x) { x.tensors.k.data = nullptr; }, "k is a null pointer");
  refuses([](Offer& x) { x.tensors.v_new.data = nullptr; }, "v_new is a null pointer");
  refuses([](Offer& x) { x.tensors.key_lengths = nullptr; }, "key_lengths is a null pointer");
  refuses([](Offer& x) { x.tensors.k.stride[2] = 0; }, "the strides of k make its elements overlap");
  refuses([](Offer& x) { x.tensors.k.stride[2] = x.tensors.v.stride[2] = 0; },
          "the strides of k make its elements overlap");
  refuses([](Offer& x) { x.problem.has_key_lengths = 0; }, "an append has key lengths");
  refuses([](Offer& x) { x.problem.heads_q *= 2; }, "heads_kv = heads_q");
  refuses([](Offer& x) { x.problem.causal = 1; }, "an append has no softcap");
  refuses([](Offer& x) { x.problem.features |= ATTN_FEATURE_COPY_PAGES; }, "two operations");
  refuses([](Offer& x) { x.problem.features = 0; }, "no forward pass");
  Offer full = append;
  full.problem.seq_k = 0, full.tensors.k.data = full.tensors.k_new.data = nullptr;
  EXPECT_EQ(answer(kWrites, full).status, ATTN_OK) << "there is no room for a key";
}

TEST(PlugIn, ACopyOfPagesHasPairs) {
  constexpr attn_kernel kWrites = attn::plug_in<Writes>();
  static int64_t pairs[] = {0, 2, 0, 1};
  Offer copy;
  copy.env.backend = ATTN_CUDA, copy.env.variant = 0;
  attn_problem& p = copy.problem;
  p.batch = 3, p.seq_k = 4;  // as many entries and keys as there are pages and slots
  copy.dense();
  p.heads_q = p.heads_kv;
  p.batch = 2, p.seq_q = 1, p.seq_k = 0;
  p.features = ATTN_FEATURE_COPY_PAGES | ATTN_FEATURE_PAGED;
  p.page_size = 4, p.pages = 3;
  copy.tensors.copies = {pairs, {2, 9, 9, 1}};
  copy.tensors.q = copy.tensors.o = copy.tensors.lse = {};
  EXPECT_EQ(answer(kWrites, copy).status, ATTN_OK) << answer(kWrites, copy).reason;
  EXPECT_EQ(attn::strided(p, copy.tensors).copies.stride[1], 0);
  const auto refuses = [&](void (*change)(Offer&), const char* words) {
    Offer other = copy;
    change(other);
    const Told told = answer(kWrites, other);
    EXPECT_NE(told.status, ATTN_OK) << words;
    EXPECT_NE(told.reason.find(words), std::string::npos) << told.reason;
  };
  refuses([](Offer& x) { x.tensors.copies.data = nullptr; }, "copies is a null pointer");
  refuses([](Offer& x) { x.tensors.copies.stride[3] = 2; }, "copies.stride[3] = 2 is not 1");
  refuses([](Offer& x) { x.tensors.v.data = nullptr; }, "v is a null pointer");
  refuses([](Offer& x) { x.problem.seq_k = 4, x.problem.pages_per_seq = 1; }, "seq_k = 0");
  refuses([](Offer& x) { x.problem.has_key_lengths = 1; }, "no packed sequences or key lengths");
  refuses(
      [](Offer& x) { x.problem.features = ATTN_FEATURE_COPY_PAGES, x.problem.page_size = x.problem.pages = 0; },
      "a copy of pages has no pages");
}

}  // namespace
}  // namespace attnfuzz
