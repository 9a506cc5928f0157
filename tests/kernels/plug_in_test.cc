// Tests plug_in.h with kernels that compute nothing: the arguments it reads for them, the problems it refuses
// for them, and its defaults.
#include "kernels/plug_in.h"

#include <gtest/gtest.h>

#include <cstddef>

#include "reference/call/tensor_spec.h"
#include "tests/kernels/offer.h"

namespace attnfuzz {
namespace {

// A kernel with two variants and a feature. It counts its runs.
struct Two {
  static constexpr const char* kName = "two";
  static constexpr const char* kDescription = "nothing, in two ways";
  static constexpr attn_backend kBackend = ATTN_CPU;
  static constexpr std::array kVariants = {"small", "large"};
  static constexpr uint64_t kFeatures = uint64_t{1} << 50;
  static constexpr attn_domain kMine = [] {
    attn_domain of = {};
    of.dtypes = 1 << ATTN_F32;
    return of;
  }();
  static constexpr const attn_domain* kDomain = &kMine;
  static constexpr attn_build kIdentity = {};
  static constexpr const attn_build* kBuild = &kIdentity;
  static inline int runs = 0;
  static inline int32_t variant = -1;

  static attn::Refusal plan(const attn::Call& call, attn_plan* plan) {
    variant = call.env.variant;
    plan->tile_q = 128;
    if (call.problem.softcap > 0) return {ATTN_UNSUPPORTED, "a softcap, of which " + std::string(60, '.')};
    return {};
  }
  static attn_status run(const attn::Call&, const attn_plan& plan) {
    ++runs;
    return plan.tile_q == 128 ? ATTN_OK : ATTN_LAUNCH_FAILED;
  }
};
// A kernel with stages that declares as little as possible.
struct One {
  static constexpr const char* kName = "one";
  static constexpr const char* kDescription = "nothing";
  static constexpr attn_backend kBackend = ATTN_CUDA;
  static attn::Refusal plan(const attn::Call&, attn_plan*) { return {}; }
  static attn_status run(const attn::Call&, const attn_plan&) { return ATTN_OK; }
  static attn_status partial(const attn::Call&, const attn_plan&) { return ATTN_LAUNCH_FAILED; }
  static attn_status reduce(const attn::Call&, const attn_plan&) { return ATTN_UNSUPPORTED; }
  static attn_partials partials(const attn_problem& p, const attn_plan&) {
    attn_partials of = {};
    of.size = sizeof of;
    of.num_splits = p.seq_k;
    return of;
  }
};
constexpr attn_kernel kTwo = attn::plug_in<Two>(), kOne = attn::plug_in<One>();

struct Told {
  attn_status status;
  attn_plan plan;
  std::string reason;
};
Told answer(const attn_kernel& kernel, const Offer& x) {
  Told out = {ATTN_OK, {}, std::string(256, '\0')};
  out.plan.size = sizeof out.plan;
  out.status = kernel.plan(&x.problem, &x.tensors, &x.env, &out.plan, out.reason.data(), out.reason.size());
  out.reason.resize(strlen(out.reason.c_str()));
  return out;
}

TEST(PlugIn, DescriptorHasTheKernelsDeclarations) {
  EXPECT_EQ(kTwo.size, sizeof kTwo);
  EXPECT_EQ(kTwo.abi, uint32_t{ATTN_ABI});
  EXPECT_STREQ(kTwo.name, "two");
  EXPECT_STREQ(kTwo.description, "nothing, in two ways");
  EXPECT_EQ(kTwo.backend, ATTN_CPU);
  EXPECT_EQ(kTwo.variant_count, 2u);
  EXPECT_STREQ(kTwo.variants[1], "large");
  EXPECT_EQ(kTwo.build, &Two::kIdentity);
  EXPECT_EQ(kTwo.domain, &Two::kMine);
  EXPECT_EQ(kTwo.features, (uint64_t{1} << 50) | ATTN_FEATURE_F32) << "fp32 is in its domain";
  EXPECT_EQ(kTwo.partials, nullptr);
  EXPECT_EQ(kTwo.partial, nullptr);
  EXPECT_EQ(kTwo.reduce, nullptr);
  EXPECT_EQ(kOne.backend, ATTN_CUDA);
  EXPECT_EQ(kOne.variant_count, 0u);
  EXPECT_EQ(kOne.variants, nullptr);
  EXPECT_EQ(kOne.build, nullptr);
  EXPECT_EQ(kOne.domain, nullptr);
  EXPECT_EQ(kOne.features, 0u);
}

// The domain of a library that was built before layouts could be declared is shorter: bytes beyond it are not
// read.
TEST(PlugIn, AnOlderDomainDeclaresNoLayout) {
  attn_domain older = Two::kMine, read;
  older.size = offsetof(attn_domain, layout);
  older.usual_scale = 1;
  older.layout = older.align_bytes = 77;
  ASSERT_TRUE(attn_read(&read, sizeof read, &older, sizeof(uint32_t)));
  EXPECT_EQ(read.usual_scale, 1);
  EXPECT_EQ(read.layout, 0);
  EXPECT_EQ(read.align_bytes, 0);
}

// Changes one thing in a call that the kernel takes, and expects a refusal in these words.
void expect_refusal(const attn_kernel& kernel, Offer offer, void (*change)(Offer&), const char* words) {
  change(offer);
  const Told told = answer(kernel, offer);
  EXPECT_NE(told.status, ATTN_OK) << words;
  EXPECT_NE(told.reason.find(words), std::string::npos) << told.reason;
}

static_assert(attn::plug_in_detail::kOtherOperations == attnfuzz::kOperations, "call.h knows every operation");

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

// It takes wide heads and a latent V.
struct Absorbing : One {
  static constexpr const char* kName = "absorbing";
  static constexpr uint64_t kFeatures = ATTN_FEATURE_WIDE | ATTN_FEATURE_LATENT;
};

TEST(PlugIn, ALatentVIsTheFirstColumnsOfK) {
  constexpr attn_kernel kAbsorbing = attn::plug_in<Absorbing>();
  Offer latent;
  latent.env.backend = ATTN_CUDA, latent.env.variant = 0;
  latent.problem.features = ATTN_FEATURE_WIDE | ATTN_FEATURE_LATENT;
  latent.problem.latent = 1;
  latent.problem.dim_qk = 576, latent.problem.dim_v = 512;
  latent.dense().tensors.v = latent.tensors.k;
  EXPECT_EQ(answer(kAbsorbing, latent).status, ATTN_OK) << answer(kAbsorbing, latent).reason;
  const auto refuses = [&](void (*change)(Offer&), const char* words) {
    Offer other = latent;
    change(other);
    const Told told = answer(kAbsorbing, other);
    EXPECT_NE(told.status, ATTN_OK) << words;
    EXPECT_NE(told.reason.find(words), std::string::npos) << told.reason;
  };
  refuses([](Offer& x) { x.tensors.v.data = static_cast<char*>(x.tensors.v.data) + 2; }, "not at the address of k");
  refuses([](Offer& x) { x.tensors.v.stride[2] = 512; }, "has not the strides of k");
  refuses([](Offer& x) { x.tensors.v.stride[3] = 2; }, "has not the strides of k");
  refuses([](Offer& x) { x.problem.dim_v = 577, x.dense().tensors.v = x.tensors.k; }, "more than the columns of K");
  refuses([](Offer& x) { x.problem.dim_qk = 1025; }, "outside 1..1024");
  refuses([](Offer& x) { x.problem.latent = 0; }, "asks for a latent V");
  refuses([](Offer& x) { x.problem.features = ATTN_FEATURE_WIDE; }, "does not ask for a latent V");
  refuses([](Offer& x) { x.problem.features = ATTN_FEATURE_LATENT; }, "outside 1..256");
  Offer one = latent;
  one.problem.dim_v = 1, one.tensors.v.stride[3] = 99;
  EXPECT_EQ(answer(kAbsorbing, one).status, ATTN_OK) << "the stride of one column does not count";
  one.problem.seq_k = 1, one.tensors.v.stride[2] = 99;
  EXPECT_EQ(answer(kAbsorbing, one).status, ATTN_OK) << "the stride of one key does not count";
}

// It takes packed sequences, and lengths of 32 bits.
struct Ragged : One {
  static constexpr const char* kName = "ragged";
  static constexpr uint64_t kFeatures = ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32;
};

TEST(PlugIn, PackedSequencesLieInOneEntry) {
  constexpr attn_kernel kRagged = attn::plug_in<Ragged>();
  static const int32_t kBorders[] = {0, 3, 3, 5};
  Offer packed;
  packed.env.backend = ATTN_CUDA, packed.env.variant = 0;
  attn_problem& p = packed.problem;
  p.batch = 3;
  packed.dense();
  p.features = ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32;
  p.ragged = ATTN_RAGGED_QUERIES | ATTN_RAGGED_KEYS;
  p.total_q = p.total_k = 5;
  p.index_dtype = ATTN_INDEX_32;
  packed.tensors.cu_q = packed.tensors.cu_k = kBorders;
  packed.tensors.q.stride[0] = packed.tensors.o.stride[0] =
      1;  // with one entry the batch stride does not count
  EXPECT_EQ(answer(kRagged, packed).status, ATTN_OK) << answer(kRagged, packed).reason;
  EXPECT_EQ(attn::strided(p, packed.tensors).q.stride[0], 0);
  EXPECT_EQ(attn::index_at(p, kBorders, 3), 5);
  EXPECT_EQ(attn::rows_of_queries(p).entries, 1);
  EXPECT_EQ(attn::rows_of_keys(p).count, 5);
  const auto refuses = [&](void (*change)(Offer&), const char* words) {
    Offer other = packed;
    change(other);
    const Told told = answer(kRagged, other);
    EXPECT_NE(told.status, ATTN_OK) << words;
    EXPECT_NE(told.reason.find(words), std::string::npos) << told.reason;
  };
  refuses([](Offer& x) { x.tensors.cu_q = nullptr; }, "cu_q is a null pointer");
  refuses([](Offer& x) { x.tensors.cu_k = nullptr; }, "cu_k is a null pointer");
  refuses([](Offer& x) { x.tensors.cu_k = reinterpret_cast<const char*>(kBorders) + 2; }, "not aligned");
  refuses([](Offer& x) { x.problem.ragged = 0; }, "asks for packed sequences");
  refuses([](Offer& x) { x.problem.ragged = 4; }, "ragged = 4 is not known");
  refuses([](Offer& x) { x.problem.ragged = ATTN_RAGGED_KEYS; }, "queries are not packed");
  refuses([](Offer& x) { x.problem.features = ATTN_FEATURE_INDEX32; }, "does not ask for packed sequences");
  refuses([](Offer& x) { x.problem.total_k = -1; }, "total_k = -1");
  refuses([](Offer& x) { x.problem.index_dtype = ATTN_INDEX_64; }, "asks for int32");
  refuses([](Offer& x) { x.problem.features = ATTN_FEATURE_RAGGED; }, "does not ask for int32");
  Offer none = packed;
  none.problem.total_q = 0, none.tensors.cu_q = nullptr;
  EXPECT_EQ(answer(kRagged, none).status, ATTN_OK) << "there is no query";
}

// It takes K and V of 8 bits.
struct Narrow : One {
  static constexpr const char* kName = "narrow";
  static constexpr uint64_t kFeatures = ATTN_FEATURE_KV8 | ATTN_FEATURE_LATENT;
};

TEST(PlugIn, KeysOfEightBitsHaveScales) {
  constexpr attn_kernel kNarrow = attn::plug_in<Narrow>();
  static float scales[16] = {};
  Offer narrow;
  narrow.env.backend = ATTN_CUDA, narrow.env.variant = 0;
  narrow.dense();
  narrow.problem.features = ATTN_FEATURE_KV8;
  narrow.problem.kv_dtype = ATTN_E5M2;
  narrow.tensors.k_scale = narrow.tensors.v_scale = {scales, {0, 0, 0, 1}};
  narrow.tensors.k.data = static_cast<char*>(narrow.tensors.k.data) + 1;  // codes of one byte need no alignment
  EXPECT_EQ(answer(kNarrow, narrow).status, ATTN_OK) << answer(kNarrow, narrow).reason;
  const auto refuses = [&](void (*change)(Offer&), const char* words) {
    Offer other = narrow;
    change(other);
    const Told told = answer(kNarrow, other);
    EXPECT_NE(told.status, ATTN_OK) << words;
    EXPECT_NE(told.reason.find(words), std::string::npos) << told.reason;
  };
  refuses([](Offer& x) { x.problem.kv_dtype = 0; }, "kv_dtype = 0 is neither E4M3 nor E5M2");
  refuses([](Offer& x) { x.problem.kv_dtype = ATTN_F32; }, "kv_dtype = 2 is neither");
  refuses([](Offer& x) { x.problem.features = 0; }, "does not ask for 8 bits");
  refuses([](Offer& x) { x.tensors.k_scale.data = nullptr; }, "k_scale is a null pointer");
  refuses([](Offer& x) { x.tensors.v_scale.data = nullptr; }, "v_scale is a null pointer");
  refuses([](Offer& x) { x.tensors.v_scale.data = reinterpret_cast<char*>(scales) + 2; }, "not aligned");
  refuses([](Offer& x) { x.problem.features |= ATTN_FEATURE_LATENT, x.problem.latent = 1; }, "not latent");
}

// It has appends and copies of pages, and no forward pass.
struct Writes : One {
  static constexpr const char* kName = "writes";
  static constexpr uint64_t kFeatures = ATTN_FEATURE_APPEND | ATTN_FEATURE_COPY_PAGES | ATTN_FEATURE_NO_FORWARD |
                                        ATTN_FEATURE_PAGED | ATTN_FEATURE_RAGGED | ATTN_FEATURE_MERGE;
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
  refuses([](Offer& x) { x.tensors.k.stride[2] = x.tensors.v.stride[2] = 0; }, "the strides of k make its elements overlap");
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
  refuses([](Offer& x) { x.problem.features = ATTN_FEATURE_COPY_PAGES, x.problem.page_size = x.problem.pages = 0; },
          "a copy of pages has no pages");
}

// It takes keys in pages, and tables of 32 bits.
struct Paged : One {
  static constexpr const char* kName = "paged";
  static constexpr uint64_t kFeatures = ATTN_FEATURE_PAGED | ATTN_FEATURE_INDEX32 | ATTN_FEATURE_RAGGED;
};

TEST(PlugIn, KeysInPagesHaveATable) {
  constexpr attn_kernel kPaged = attn::plug_in<Paged>();
  static int32_t table[] = {1, 0, -1, 2};
  static const int32_t kLengths[] = {4, 2};
  Offer paged;
  paged.env.backend = ATTN_CUDA, paged.env.variant = 0;
  attn_problem& p = paged.problem;
  p.batch = 2, p.seq_k = 4;
  paged.dense();
  p.features = ATTN_FEATURE_PAGED | ATTN_FEATURE_INDEX32;
  p.page_size = 3, p.pages = 3, p.pages_per_seq = 2;
  p.index_dtype = ATTN_INDEX_32, p.has_key_lengths = 1;
  paged.tensors.key_lengths = reinterpret_cast<const int64_t*>(kLengths);
  paged.tensors.block_table = {table, {2, 9, 9, 1}};
  EXPECT_EQ(answer(kPaged, paged).status, ATTN_OK) << answer(kPaged, paged).reason;
  EXPECT_EQ(attn::rows_of_keys(p).entries, 3);
  EXPECT_EQ(attn::rows_of_keys(p).count, 3);
  EXPECT_EQ(attn::strided(p, paged.tensors).block_table.stride[1], 0);
  EXPECT_EQ(attn::key_place(p, paged.tensors, 0, 3).first, 0);
  EXPECT_EQ(attn::key_place(p, paged.tensors, 0, 3).row, 0);
  EXPECT_EQ(attn::key_place(p, paged.tensors, 1, 5).first, 2);
  EXPECT_EQ(attn::key_place(p, paged.tensors, 1, 5).row, 2);
  const auto refuses = [&](void (*change)(Offer&), const char* words) {
    Offer other = paged;
    change(other);
    const Told told = answer(kPaged, other);
    EXPECT_NE(told.status, ATTN_OK) << words;
    EXPECT_NE(told.reason.find(words), std::string::npos) << told.reason;
  };
  refuses([](Offer& x) { x.tensors.block_table.data = nullptr; }, "block_table is a null pointer");
  refuses([](Offer& x) { x.tensors.block_table.data = reinterpret_cast<char*>(table) + 2; }, "not aligned");
  refuses([](Offer& x) { x.tensors.block_table.stride[3] = 2; }, "block_table.stride[3] = 2 is not 1");
  refuses([](Offer& x) { x.problem.page_size = 0; }, "asks for pages");
  refuses([](Offer& x) { x.problem.page_size = -1; }, "page_size = -1 is outside");
  refuses([](Offer& x) { x.problem.pages_per_seq = 1; }, "too few for seq_k = 4");
  refuses([](Offer& x) { x.problem.has_key_lengths = 0; }, "keys in pages need key lengths");
  refuses([](Offer& x) { x.problem.features = ATTN_FEATURE_INDEX32; }, "does not ask for pages");
  refuses([](Offer& x) {
    x.problem.features |= ATTN_FEATURE_RAGGED;
    x.problem.ragged = ATTN_RAGGED_KEYS, x.tensors.cu_k = kLengths;
  }, "not packed");
  Offer none = paged;
  none.problem.pages = 0, none.tensors.k.data = none.tensors.block_table.data = nullptr;
  EXPECT_EQ(answer(kPaged, none).status, ATTN_OK) << "there is no page";
}

struct Selected : Paged {
  static constexpr uint64_t kFeatures = ATTN_FEATURE_SELECTED | ATTN_FEATURE_PAGED | ATTN_FEATURE_BACKWARD;
};

// It has only the gradients over listed blocks.
struct SelectedGrading : One {
  static constexpr const char* kName = "selected_grading";
  static constexpr uint64_t kFeatures = ATTN_FEATURE_SELECTED_BACKWARD | ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_SELECTED |
                                        ATTN_FEATURE_BACKWARD | ATTN_FEATURE_DBIAS | ATTN_FEATURE_DSINK |
                                        ATTN_FEATURE_DLSE | ATTN_FEATURE_SINK;
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
  refuses([](Offer& x) {
    x.problem.features = ATTN_FEATURE_SELECTED, x.problem.select_last = 0;
  }, "only a choice of blocks has select_first");
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

struct Blocks : One {
  static constexpr uint64_t kFeatures =
      ATTN_FEATURE_KEY_STEP | ATTN_FEATURE_ALIBI | ATTN_FEATURE_BACKWARD | ATTN_FEATURE_SELECTED_BACKWARD;
};

TEST(PlugIn, CompressedKeysNeedAForwardPassOrItsGradientsWithoutSlopes) {
  constexpr attn_kernel kBlocks = attn::plug_in<Blocks>(), kOther = attn::plug_in<Paged>();
  Offer x;
  x.env.backend = ATTN_CUDA, x.env.variant = 0;
  x.dense();
  x.problem.features = ATTN_FEATURE_KEY_STEP, x.problem.key_step = 16, x.problem.key_offset = 31;
  EXPECT_EQ(answer(kBlocks, x).status, ATTN_OK) << answer(kBlocks, x).reason;
  const auto refuses = [&](void (*change)(attn_problem&), const char* words) {
    Offer other = x;
    change(other.problem);
    const Told told = answer(kBlocks, other);
    EXPECT_EQ(told.status, ATTN_INVALID) << words;
    EXPECT_NE(told.reason.find(words), std::string::npos) << told.reason;
  };
  refuses([](attn_problem& p) { p.key_step = 0; }, "asks for compressed keys");
  refuses([](attn_problem& p) { p.key_offset = -1; }, "key_offset = -1 is outside");
  refuses([](attn_problem& p) { p.features = 0; }, "does not ask for compressed keys");
  refuses([](attn_problem& p) { p.key_step = (int64_t{1} << 16) + 1; }, "more than 2^16");
  refuses([](attn_problem& p) { p.features |= ATTN_FEATURE_ALIBI, p.has_alibi = 1; }, "no slopes");
  refuses([](attn_problem& p) { p.features |= ATTN_FEATURE_SELECTED_BACKWARD, p.block = p.select = 1; },
          "only the forward pass and its gradients");
  Offer gradients = x;
  gradients.problem.features |= ATTN_FEATURE_BACKWARD;
  for (attn_tensor attn_tensors::* one : {&attn_tensors::dout, &attn_tensors::dq, &attn_tensors::dk, &attn_tensors::dv})
    gradients.tensors.*one = x.tensors.q;
  EXPECT_EQ(answer(kBlocks, gradients).status, ATTN_OK) << answer(kBlocks, gradients).reason;
  EXPECT_EQ(answer(kOther, x).status, ATTN_UNSUPPORTED) << "a kernel that does not know the bit";
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

TEST(PlugIn, KnowsItsVariants) {
  Offer x;
  for (int32_t variant : {0, 1, 2}) {
    x.env.variant = variant;
    EXPECT_EQ(answer(kTwo, x).status, ATTN_OK);
    EXPECT_EQ(Two::variant, variant);
  }
  for (int32_t variant : {-1, 3}) {
    x.env.variant = variant;
    const Told a = answer(kTwo, x);
    EXPECT_EQ(a.status, ATTN_INVALID);
    EXPECT_EQ(a.reason, "variant " + std::to_string(variant) + " is not one of 0..2");
  }
  x.env.backend = ATTN_CUDA;
  x.env.variant = 0;
  EXPECT_EQ(answer(kOne, x).status, ATTN_OK);
  x.env.variant = 1;
  EXPECT_EQ(answer(kOne, x).reason, "variant 1 is not one of 0..0");
}

TEST(PlugIn, RefusesWithoutRoomForAReason) {
  Offer x;
  x.problem.softcap = 1;
  const Told a = answer(kTwo, x);
  EXPECT_EQ(a.status, ATTN_UNSUPPORTED);
  EXPECT_EQ(a.reason, "a softcap, of which " + std::string(60, '.'));
  attn_plan plan = {};
  plan.size = sizeof plan;
  char reason[5] = "same";
  const auto ask = [&](char* to, uint64_t size) {
    return kTwo.plan(&x.problem, &x.tensors, &x.env, &plan, to, size);
  };
  EXPECT_EQ(ask(nullptr, 0), ATTN_UNSUPPORTED);
  EXPECT_EQ(ask(nullptr, 100), ATTN_UNSUPPORTED);
  EXPECT_EQ(ask(reason, 0), ATTN_UNSUPPORTED);
  EXPECT_STREQ(reason, "same");
  EXPECT_EQ(ask(reason, sizeof reason), ATTN_UNSUPPORTED);
  EXPECT_STREQ(reason, "a so");
}

TEST(PlugIn, RunsWithAPlanThatItCanRead) {
  Offer x;
  attn_plan plan = answer(kTwo, x).plan;
  EXPECT_EQ(plan.tile_q, 128);
  const int runs = Two::runs;
  const auto run = [&] { return kTwo.run(&x.problem, &x.tensors, &plan, &x.env); };
  EXPECT_EQ(run(), ATTN_OK);
  EXPECT_EQ(Two::runs, runs + 1);
  plan.size = ATTN_PLAN_MIN - 1;
  EXPECT_EQ(run(), ATTN_INVALID);
  plan.size = ATTN_PLAN_MIN;
  EXPECT_EQ(run(), ATTN_OK) << "a plan of the first contract";
  x.env.variant = 3;
  EXPECT_EQ(run(), ATTN_INVALID);
  EXPECT_EQ(Two::runs, runs + 2);
}

TEST(PlugIn, HasTheStagesThatItsKernelHas) {
  Offer x;
  x.env.backend = ATTN_CUDA;
  x.env.variant = 0;
  attn_plan plan = answer(kOne, x).plan;
  EXPECT_EQ(kOne.run(&x.problem, &x.tensors, &plan, &x.env), ATTN_OK);
  EXPECT_EQ(kOne.partial(&x.problem, &x.tensors, &plan, &x.env), ATTN_LAUNCH_FAILED);
  EXPECT_EQ(kOne.reduce(&x.problem, &x.tensors, &plan, &x.env), ATTN_UNSUPPORTED);
  attn_partials partials = {};
  partials.size = sizeof partials;
  EXPECT_EQ(kOne.partials(&x.problem, &plan, &partials), ATTN_OK);
  EXPECT_EQ(partials.num_splits, x.problem.seq_k);
  partials.size = ATTN_PARTIALS_MIN - 1;
  EXPECT_EQ(kOne.partials(&x.problem, &plan, &partials), ATTN_INVALID);
  partials.size = sizeof partials;
  plan.size = ATTN_PLAN_MIN - 1;
  EXPECT_EQ(kOne.partials(&x.problem, &plan, &partials), ATTN_INVALID);
  plan.size = sizeof plan;
  x.problem.size = ATTN_PROBLEM_MIN - 1;
  EXPECT_EQ(kOne.partials(&x.problem, &plan, &partials), ATTN_INVALID);
}

TEST(PlugIn, UndeclaredFieldsOfThePlanAreTheLoosest) {
  attn_problem p = Offer().problem;
  p.seq_k = 129;
  attn_plan plan = attn::default_plan(p);
  EXPECT_EQ(plan.size, sizeof plan);
  EXPECT_EQ((std::array{plan.tile_q, plan.tile_k, plan.num_splits, plan.split_tiles, plan.rescales}),
            (std::array<int64_t, 5>{64, 64, 1, 3, 129}));
  EXPECT_EQ(plan.workspace_bytes, 0u);
  EXPECT_EQ(plan.workspace_align, 1u);
  EXPECT_EQ(plan.deterministic, 0);
  EXPECT_EQ(plan.accumulator, 0) << "the loosest class";
  EXPECT_STREQ(plan.path, "");

  plan = attn::plain_plan("by hand", 32, 129);
  EXPECT_EQ(plan.size, sizeof plan);
  EXPECT_STREQ(plan.path, "by hand");
  EXPECT_EQ((std::array{plan.tile_q, plan.tile_k, plan.num_splits, plan.split_tiles, plan.rescales}),
            (std::array<int64_t, 5>{32, 32, 1, 5, 1}));
  EXPECT_EQ((std::array<int, 6>{plan.accumulator, plan.exp_class, plan.log_class, plan.rcp_class,
                                plan.scale_mode, plan.p_format}),
            (std::array<int, 6>{ATTN_ACC_FFMA, ATTN_EXP_FAST_EXPF, ATTN_LOG_LOGF, ATTN_RCP_EXACT,
                                ATTN_SCALE_SEPARATE, ATTN_FORMAT_F32}));
  EXPECT_EQ(plan.deterministic, 1);
  EXPECT_EQ(plan.workspace_align, 1u);
  plan = attn::plain_plan(std::string(200, 'x').c_str(), 32, 129);
  EXPECT_EQ(strlen(plan.path), sizeof plan.path - 1);
}

TEST(PlugIn, StridesOfSingleElementsAreCleared) {
  int data;
  const attn_tensor t = {&data, {1000, 100, 10, 7}};
  const auto is = [&](std::array<int64_t, 4> shape, std::array<int64_t, 4> strides) {
    const attn_tensor of = attn::strided(t, shape[0], shape[1], shape[2], shape[3]);
    EXPECT_EQ(of.data, &data);
    EXPECT_EQ((std::array{of.stride[0], of.stride[1], of.stride[2], of.stride[3]}), strides);
  };
  is({2, 2, 2, 2}, {1000, 100, 10, 7});
  is({1, 2, 2, 2}, {0, 100, 10, 7});
  is({2, 1, 2, 2}, {1000, 0, 10, 7});
  is({2, 2, 1, 2}, {1000, 100, 0, 7});
  is({2, 2, 2, 1}, {1000, 100, 10, 1});
}

TEST(PlugIn, EveryTensorIsStridedInItsOwnShape) {
  attn_problem p = {};
  attn_tensors t = {};
  for (attn_tensor attn_tensors::* of : {&attn_tensors::q, &attn_tensors::k, &attn_tensors::v, &attn_tensors::o,
                                         &attn_tensors::lse, &attn_tensors::bias, &attn_tensors::mask})
    (t.*of) = {nullptr, {1000, 100, 10, 7}};
  // The strides that are kept if only this size is larger than 1.
  const auto left = [&](int64_t attn_problem::* size) {
    p.batch = p.heads_q = p.heads_kv = p.seq_q = p.seq_k = p.dim_qk = p.dim_v = 1;
    p.*size = 2;
    const attn_tensors of = attn::strided(p, t);
    std::string out;
    for (const auto& [name, one] : {std::pair('q', &of.q),
                                    {'k', &of.k},
                                    {'v', &of.v},
                                    {'o', &of.o},
                                    {'l', &of.lse},
                                    {'b', &of.bias},
                                    {'m', &of.mask}})
      for (int i = 0; i < 4; ++i)
        if (one->stride[i] == t.q.stride[i]) out += {name, "bhsd"[i], ' '};
    return out;
  };
  EXPECT_EQ(left(&attn_problem::batch), "qb kb vb ob lb bb mb ");
  EXPECT_EQ(left(&attn_problem::heads_q), "qh oh lh bh mh ");
  EXPECT_EQ(left(&attn_problem::heads_kv), "kh vh ");
  EXPECT_EQ(left(&attn_problem::seq_q), "qs os ls bs ms ");
  EXPECT_EQ(left(&attn_problem::seq_k), "ks vs bd md ");
  EXPECT_EQ(left(&attn_problem::dim_qk), "qd kd ");
  EXPECT_EQ(left(&attn_problem::dim_v), "vd od ");
}

}  // namespace
}  // namespace attnfuzz
