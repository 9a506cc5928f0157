// Tests the arguments that plug_in.h asks for, and the problems that it refuses, where keys and values do not
// lie densely.
#include "tests/kernels/plug_in/kernels.h"

namespace attnfuzz {
namespace {

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
  refuses([](Offer& x) { x.tensors.v.data = static_cast<char*>(x.tensors.v.data) + 2; },
          "not at the address of k");
  refuses([](Offer& x) { x.tensors.v.stride[2] = 512; }, "has not the strides of k");
  refuses([](Offer& x) { x.tensors.v.stride[3] = 2; }, "has not the strides of k");
  refuses([](Offer& x) { x.problem.dim_v = 577, x.dense().tensors.v = x.tensors.k; },
          "more than the columns of K");
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
  refuses(
      [](Offer& x) {
        x.problem.features |= ATTN_FEATURE_RAGGED;
        x.problem.ragged = ATTN_RAGGED_KEYS, x.tensors.cu_k = kLengths;
      },
      "not packed");
  Offer none = paged;
  none.problem.pages = 0, none.tensors.k.data = none.tensors.block_table.data = nullptr;
  EXPECT_EQ(answer(kPaged, none).status, ATTN_OK) << "there is no page";
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
  for (attn_tensor attn_tensors::* one :
       {&attn_tensors::dout, &attn_tensors::dq, &attn_tensors::dk, &attn_tensors::dv})
    gradients.tensors.*one = x.tensors.q;
  EXPECT_EQ(answer(kBlocks, gradients).status, ATTN_OK) << answer(kBlocks, gradients).reason;
  EXPECT_EQ(answer(kOther, x).status, ATTN_UNSUPPORTED) << "a kernel that does not know the bit";
}

}  // namespace
}  // namespace attnfuzz
