// Tests the oracle of gradients: equal problems in other forms, rows and keys without any pair, samples, and
// numbers that are not finite.
#include "reference/gradients/gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "reference/call/row_space.h"
#include "reference/gradients/gradient_setup.h"
#include "reference/model/error_cap.h"
#include "reference/numbers/formats.h"
#include "reference/rows/visibility.h"
#include "tests/reference/gradients/gradient_case.h"
#include "tests/reference/random.h"

namespace attnfuzz {
namespace {

// Expects that gradients over listed blocks, or over keys of blocks, equal those of a dense backward pass.
void expect_dense(Small& blocks, Small& dense, uint64_t seed) {
  blocks.save();
  dense.o = blocks.o, dense.lse = blocks.lse, dense.dlse = blocks.dlse;
  const Reference a = blocks.due(), b = dense.due();
  ASSERT_EQ(a.outputs.size(), blocks.has(ATTN_FEATURE_SELECTED_BACKWARD) ? 3u : 5u);
  EXPECT_EQ(a.state, b.state);
  for (const Expected& due : a.outputs) {
    EXPECT_EQ(due.value, b[due.tensor].value) << "seed " << seed << " " << name_of(due.tensor);
    EXPECT_EQ(due.bound, b[due.tensor].bound) << "seed " << seed << " " << name_of(due.tensor);
    EXPECT_EQ(due.rule, b[due.tensor].rule) << "seed " << seed << " " << name_of(due.tensor);
  }
}

// The problem without its lists.
Small without_lists(const Small& s) {
  Small dense = s;
  dense.p.features = (dense.p.features & ~ATTN_FEATURE_SELECTED_BACKWARD) | ATTN_FEATURE_BACKWARD;
  dense.p.block = dense.p.select = 0;
  return dense;
}

TEST(Gradients, OverListedBlocksAreThoseOfAMask) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Small s(seed % 2 == 0 ? ATTN_BF16 : ATTN_F32, seed + 700);
    s.take_lists(seed);
    Small dense = without_lists(s);
    dense.p.has_mask = 1;
    dense.mask = s.mask_of_lists();
    expect_dense(s, dense, seed);
  }
}

TEST(Gradients, WithKeysOfBlocksAreThoseOfAMask) {
  int64_t some = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Small s(seed % 2 == 0 ? ATTN_BF16 : ATTN_F32, seed + 900, seed % 8 == 0);
    s.take_key_blocks(seed);
    Small dense = s;
    dense.p.features &= ~ATTN_FEATURE_KEY_STEP;
    dense.p.key_step = dense.p.key_offset = 0;
    dense.p.causal = dense.p.has_key_lengths = 0, dense.p.window_left = dense.p.window_right = -1;
    dense.p.has_mask = 1, dense.mask = s.mask_of_blocks();
    some += std::ranges::count(dense.mask, 1);
    expect_dense(s, dense, seed);
  }
  EXPECT_GT(some, 2000);
}

TEST(Gradients, OverAllBlocksAreDense) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Small s(ATTN_F16, seed + 800);
    s.take_lists(seed);
    s.p.select = (s.p.seq_k + s.p.block - 1) / s.p.block;
    s.lists.resize(static_cast<size_t>(s.p.batch * s.p.heads_kv * s.p.seq_q * s.p.select));
    for (size_t n = 0; n < s.lists.size(); ++n) s.lists[n] = static_cast<int64_t>(n) % s.p.select;
    Small dense = without_lists(s);
    expect_dense(s, dense, seed);
  }
}

// A kernel may gather keys and queries in any order, so the plan's tiles do not determine the blocks of an mma.
TEST(Gradients, OverListedBlocksAnyPairMayBeAloneInItsBlock) {
  Small s(ATTN_F16, 811);
  s.take_lists(1);
  s.plan.accumulator = ATTN_ACC_TENSOR;
  s.save();
  const Reference wide = s.due();
  s.plan.tile_q = s.plan.tile_k = 1;
  const Reference narrow = s.due();
  for (const Expected& due : wide.outputs) EXPECT_EQ(due.bound, narrow[due.tensor].bound);
}

TEST(Gradients, OverListedBlocksRefuseUnknownFeatures) {
  for (const uint64_t other : {ATTN_FEATURE_BACKWARD, ATTN_FEATURE_SELECTED, ATTN_FEATURE_DBIAS,
                               ATTN_FEATURE_PAGED, ATTN_FEATURE_KEY_STEP}) {
    Small s(ATTN_F16, 1);
    s.take_lists(1);
    s.p.features |= other;
    EXPECT_THROW(s.due(), UnknownFeatures) << other;
  }
}

TEST(Gradients, ACallerAllowsRecomputing) {
  Small s(ATTN_F16, 31);
  s.save();
  const Reference given = s.due();
  s.plan.saved = 1;
  Calibration capped = documented();
  capped.error_cap = documented_cap();
  EXPECT_EQ(evaluate_gradients(s.p, s.tensors(), s.plan, capped)[TensorId::kDq].value,
            given[TensorId::kDq].value);
  capped.error_cap->saved = 1;
  EXPECT_NE(evaluate_gradients(s.p, s.tensors(), s.plan, capped)[TensorId::kDq].value,
            given[TensorId::kDq].value);
}

TEST(Gradients, ASampleOfRecomputedGradientsJudgesTheSame) {
  Small s(ATTN_BF16, 17);
  s.save();
  s.plan.saved = 1;
  const Reference all = s.due(), some = s.due({.limit = 3, .seed = 1});
  for (const Expected& due : some.outputs) {
    for (size_t n = 0; n < due.value.size(); ++n) {
      if (due.rule[n] != 0) continue;
      EXPECT_NEAR(due.value[n], all[due.tensor].value[n], 1e-12);
      EXPECT_NEAR(due.bound[n], all[due.tensor].bound[n], 1e-6 * all[due.tensor].bound[n] + 1e-15);
    }
  }
}

TEST(Gradients, AreZeroWithoutAPair) {
  int64_t dead = 0, unseen = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Small s(ATTN_F16, seed + 9000);
    s.save();
    const Reference r = s.due();
    const attn_tensors t = s.tensors();
    std::vector<int64_t> keys;
    std::vector<bool> seen(s.keys());
    for (size_t row = 0; row < s.rows(); ++row) {
      const Row at = RowSpace(s.p).at(static_cast<int64_t>(row));
      row_keys(s.p, t, at.b, at.h, at.i, 0, s.p.seq_k, &keys);
      for (const int64_t j : keys) seen[s.k_at(at.b, at.h, j)] = true;
      EXPECT_EQ(r.state[row] == RowState::kDead, keys.empty());
      if (!keys.empty()) continue;
      ++dead;
      EXPECT_EQ(r[TensorId::kDq].bound[row * s.p.dim_qk], 0);
      EXPECT_EQ(r[TensorId::kDq].value[row * s.p.dim_qk], 0);
    }
    for (size_t key = 0; key < seen.size(); ++key) {
      if (seen[key]) continue;
      ++unseen;
      EXPECT_EQ(r[TensorId::kDv].bound[key * s.p.dim_v], 0);
      EXPECT_EQ(r[TensorId::kDk].rule[key * s.p.dim_qk], 0);
    }
  }
  EXPECT_GT(dead, 20);
  EXPECT_GT(unseen, 20);
}

TEST(Gradients, ASampleJudgesTheSame) {
  Small s(ATTN_BF16, 17);
  s.save();
  const Reference all = s.due(), some = s.due({.limit = 3, .seed = 1});
  EXPECT_LE(some.sampled, 3);
  int64_t judged = 0;
  for (const Expected& due : some.outputs) {
    for (size_t n = 0; n < due.value.size(); ++n) {
      if (due.rule[n] != 0) continue;
      ++judged;
      EXPECT_NEAR(due.value[n], all[due.tensor].value[n], 1e-12);
      EXPECT_NEAR(due.bound[n], all[due.tensor].bound[n], 1e-6 * all[due.tensor].bound[n] + 1e-15);
    }
  }
  EXPECT_GT(judged, 0);
}

TEST(Gradients, ASampleOfPackedEntriesHasRowsAndKeysThatExist) {
  attn_problem p = {};
  p.batch = 3, p.heads_q = 2, p.heads_kv = 1, p.seq_q = 500, p.seq_k = 700, p.dim_qk = p.dim_v = 8;
  p.ragged = ATTN_RAGGED_QUERIES | ATTN_RAGGED_KEYS;
  const int64_t borders_q[] = {0, 40, 40, 140}, borders_k[] = {0, 7, 300, 333};
  attn_tensors host = {};
  host.cu_q = borders_q, host.cu_k = borders_k;
  attn_plan plan = {};
  plan.tile_q = plan.tile_k = 16;
  const gradients::Wanted some = gradients::wanted(p, host, plan, {.limit = 100, .seed = 1});
  const auto count = [](const std::vector<bool>& wanted, const RowSpace& space, const int64_t* borders) {
    int64_t rows = 0;
    for (int64_t row = 0; row < space.count(); ++row) {
      if (!wanted[static_cast<size_t>(row)]) continue;
      const Row at = space.at(row);
      EXPECT_LT(at.i, borders[at.b + 1] - borders[at.b]) << row;
      ++rows;
    }
    return rows;
  };
  EXPECT_EQ(count(some.rows, RowSpace(p), borders_q), 100);
  // There are 333 keys and 280 queries of heads.
  EXPECT_EQ(count(some.keys, RowSpace(p.batch, p.heads_kv, p.seq_k), borders_k), 100 * 333 / 280);
}

// A kernel that does not isolate a masked NaN also multiplies a query's NaN by 0 for hidden keys, even if that
// query sees no judged key.
TEST(Gradients, ASampleKnowsTheNaNOfAQueryWithoutAJudgedKey) {
  int64_t judged = 0, free = 0;
  for (uint64_t seed = 1; seed <= 5000; ++seed) {
    Small s(ATTN_F16, seed);
    // At least 64 keys are judged, and here each query sees two at most.
    if (s.keys() < 72 || s.p.window_left < 0 || s.p.window_left + s.p.window_right > 1) continue;
    s.plan.isolates_masked_nan = 0;
    s.save();
    s.lse[seed % s.lse.size()] = std::nanf("");
    const Reference all = s.due(), some = s.due({.limit = 1, .seed = seed});
    for (const Expected& due : some.outputs) {
      for (size_t n = 0; n < due.value.size(); ++n) {
        const uint8_t rule = all[due.tensor].rule[n];
        free += rule != 0;
        if (due.rule[n] != 0) continue;
        ++judged;
        ASSERT_EQ(rule, 0) << "seed " << seed << " " << name_of(due.tensor) << " " << n;
      }
    }
  }
  EXPECT_GT(judged, 100);
  EXPECT_GT(free, 100);
}

// Two queries: the first sees one key, the second both.
Small two_by_two(int32_t dtype = ATTN_F16) {
  Small s(dtype, 1);
  s.p.batch = s.p.heads_q = s.p.heads_kv = 1;
  s.p.seq_q = s.p.seq_k = s.p.dim_qk = s.p.dim_v = 2;
  s.p.scale = 1, s.p.softcap = 0, s.p.causal = 1, s.p.align = ATTN_TOP_LEFT;
  s.p.window_left = s.p.window_right = -1;
  s.p.has_mask = s.p.has_key_lengths = 0;
  s.p.bias_dtype = ATTN_NONE;
  for (Array* array : {&s.q, &s.k, &s.v, &s.dout, &s.o}) {
    array->resize(4);
    for (size_t n = 0; n < 4; ++n) array->set(dtype, n, 0.5 + 0.25 * static_cast<double>(n));
  }
  s.lse.assign(2, 0);
  s.save();
  return s;
}

// A kernel multiplies the sum by the scale, and infinity times 0 is NaN.
TEST(Gradients, ASumThatMayOverflowIsAnythingWithAScaleOfZero) {
  Small s = two_by_two(ATTN_BF16);
  s.p.scale = 0;
  for (size_t n = 0; n < 4; ++n) {
    s.q.set(ATTN_BF16, n, 0);
    s.k.set(ATTN_BF16, n, 3e38);
    s.v.set(ATTN_BF16, n, n < 2 ? 0 : 1);
    s.dout.set(ATTN_BF16, n, 100);
  }
  s.save();
  const Reference r = s.due();
  EXPECT_EQ(static_cast<Due>(r[TensorId::kDq].rule[2]), Due::kAnything);
  EXPECT_EQ(static_cast<Due>(r[TensorId::kDq].rule[0]), Due::kNumber) << "dS of query 0 is 0";
  EXPECT_EQ(r[TensorId::kDq].bound[0], 0);
  EXPECT_EQ(static_cast<Due>(r[TensorId::kDk].rule[0]), Due::kNumber) << "queries are 0";
  EXPECT_EQ(r[TensorId::kDk].bound[0], 0);
}

TEST(Gradients, ANaNReachesTheElementsThatDependOnIt) {
  constexpr auto kNaN = std::numeric_limits<float>::quiet_NaN();
  const auto rule = [](const Reference& r, TensorId t, size_t at) { return static_cast<Due>(r[t].rule[at]); };
  Small s = two_by_two();
  s.q.set(ATTN_F16, 3, kNaN);  // of query 1, column 1
  Reference r = s.due();
  EXPECT_EQ(rule(r, TensorId::kDq, 2), Due::kMustBeNaN);
  EXPECT_EQ(rule(r, TensorId::kDq, 0), Due::kNumber);
  EXPECT_EQ(rule(r, TensorId::kDk, 0), Due::kMustBeNaN) << "query 1 sees key 0";
  EXPECT_EQ(rule(r, TensorId::kDv, 3), Due::kMustBeNaN);

  s = two_by_two();
  s.k.set(ATTN_F16, 3, kNaN);  // of key 1, which query 0 does not see
  r = s.due();
  EXPECT_EQ(rule(r, TensorId::kDq, 0), Due::kNumber);
  EXPECT_EQ(rule(r, TensorId::kDq, 1), Due::kAnything) << "0 times NaN";
  EXPECT_EQ(rule(r, TensorId::kDq, 2), Due::kMustBeNaN);
  s.plan.isolates_masked_nan = 1;
  EXPECT_EQ(rule(s.due(), TensorId::kDq, 1), Due::kNumber);

  s = two_by_two();
  s.dout.set(ATTN_F16, 3, kNaN);  // of query 1, column 1
  r = s.due();
  EXPECT_EQ(rule(r, TensorId::kDv, 0), Due::kNumber) << "P does not depend on dO";
  EXPECT_EQ(rule(r, TensorId::kDv, 1), Due::kMustBeNaN);
  EXPECT_EQ(rule(r, TensorId::kDk, 2), Due::kMustBeNaN);

  // dS of a hidden pair is 0 * (dP - D): NaN if dO of the query or V of the key is, unless the kernel isolates
  // it.
  s = two_by_two();
  s.dout.set(ATTN_F16, 0, kNaN);  // of query 0, which does not see key 1
  for (const int isolates : {0, 1}) {
    s.plan.isolates_masked_nan = isolates;
    r = s.due();
    EXPECT_EQ(rule(r, TensorId::kDk, 2), isolates ? Due::kNumber : Due::kAnything);
    EXPECT_EQ(rule(r, TensorId::kDk, 0), Due::kMustBeNaN);
    EXPECT_EQ(rule(r, TensorId::kDv, 3), Due::kNumber) << "P of a hidden pair is 0, and dO is a number there";
    EXPECT_EQ(rule(r, TensorId::kDq, 2), Due::kNumber) << "query 1 has no part in it";
  }
  s = two_by_two();
  s.v.set(ATTN_F16, 2, kNaN);  // of key 1
  for (const int isolates : {0, 1}) {
    s.plan.isolates_masked_nan = isolates;
    r = s.due();
    EXPECT_EQ(rule(r, TensorId::kDq, 0), isolates ? Due::kNumber : Due::kAnything);
    EXPECT_EQ(rule(r, TensorId::kDk, 0), Due::kNumber);
    EXPECT_EQ(rule(r, TensorId::kDq, 2), Due::kMustBeNaN) << "query 1 sees key 1";
  }

  // A NaN in K or V reaches the LSE and O of a kernel that computes both, and all of its gradients.
  s = two_by_two();
  s.plan.saved = 1;
  s.k.set(ATTN_F16, 3, kNaN);  // of key 1, which query 0 does not see
  r = s.due();
  EXPECT_EQ(rule(r, TensorId::kDv, 0), Due::kMustBeNaN) << "P of query 1 and key 0";
  EXPECT_EQ(rule(r, TensorId::kDk, 2), Due::kMustBeNaN);
  EXPECT_EQ(rule(r, TensorId::kDq, 0), Due::kNumber);

  s = two_by_two();
  s.o.set(ATTN_F16, 0, std::numeric_limits<float>::infinity());
  r = s.due();
  EXPECT_EQ(rule(r, TensorId::kDq, 0), Due::kAnything);
  EXPECT_EQ(rule(r, TensorId::kDq, 2), Due::kNumber);
  EXPECT_EQ(r.unconstrained, 1);
}

// An untrusted plan must not widen the bound beyond what the caller allows.
TEST(Gradients, APlanCannotLoosenTheBound) {
  Small s(ATTN_F16, 23);
  s.save();
  Calibration capped = documented();
  capped.error_cap = documented_cap();
  const auto widest = [&](const attn_plan& plan) {
    const Reference r = evaluate_gradients(s.p, s.tensors(), plan, capped);
    double sum = 0;
    for (const Expected& due : r.outputs) {
      for (size_t n = 0; n < due.bound.size(); ++n) sum += due.rule[n] == 0 ? due.bound[n] : 0;
    }
    return sum;
  };
  attn_plan honest = s.plan, unknown = s.plan;
  unknown.ds_format = unknown.head_format = ATTN_FORMAT_UNKNOWN;
  unknown.dq_adds = unknown.dkv_adds = 0;
  attn_plan loose = s.plan;
  loose.ds_format = ATTN_FORMAT_E5M2;
  loose.head_format = ATTN_FORMAT_OF_INPUT;
  loose.dq_adds = loose.dkv_adds = int64_t{1} << 30;
  EXPECT_GT(widest(honest), 0);
  EXPECT_GE(widest(unknown), widest(honest));
  EXPECT_LE(widest(loose), widest(unknown));
  EXPECT_GT(
      [&] {
        const Reference r = evaluate_gradients(s.p, s.tensors(), loose, documented());
        double sum = 0;
        for (const Expected& due : r.outputs)
          for (size_t n = 0; n < due.bound.size(); ++n) sum += due.rule[n] == 0 ? due.bound[n] : 0;
        return sum;
      }(),
      2 * widest(unknown))
      << "a trusted plan may say so";
}

// If the plan has base 2, the LSE is stored in base 2; a cap does not change its base.
TEST(Gradients, TheLseIsReadInThePlansBase) {
  Small s(ATTN_BF16, 29);
  s.save();
  const Reference natural = s.due();
  s.plan.lse_base = 2;
  for (float& x : s.lse) x = static_cast<float>(x / std::log(2.0));
  Calibration capped = documented();
  capped.error_cap = documented_cap();
  const Reference r = evaluate_gradients(s.p, s.tensors(), s.plan, capped);
  for (const Expected& due : r.outputs) {
    for (size_t n = 0; n < due.value.size(); ++n)
      EXPECT_NEAR(due.value[n], natural[due.tensor].value[n], natural[due.tensor].bound[n]);
  }
}

// A call with two packed entries and arbitrary O and LSE.
Small packed_storage(uint64_t seed) {
  Small s(ATTN_F16, seed);
  s.p.batch = 1, s.p.heads_kv = 1, s.p.heads_q = 2, s.p.seq_q = 12, s.p.seq_k = 14;
  s.p.dim_qk = s.p.dim_v = 3;
  s.p.has_mask = s.p.has_key_lengths = 0, s.p.bias_dtype = ATTN_NONE, s.p.scale = 0.5f, s.p.softcap = 0;
  s.p.has_sink = 1, s.p.sink_dtype = ATTN_F32;
  s.p.features = ATTN_FEATURE_BACKWARD | ATTN_FEATURE_SINK | ATTN_FEATURE_DSINK | ATTN_FEATURE_DLSE;
  Random random(seed);
  for (Array* array : {&s.q, &s.k, &s.v, &s.dout, &s.o}) {
    array->resize(2 * 14 * 3);
    for (size_t n = 0; n < array->number.size(); ++n) array->set(ATTN_F16, n, random.gaussian());
  }
  s.lse.assign(2 * 12, 0), s.dlse.assign(2 * 12, 0), s.sinks = {0.5f, -1.0f};
  for (size_t n = 0; n < s.lse.size(); ++n)
    s.lse[n] = 3 + static_cast<float>(random.gaussian()), s.dlse[n] = static_cast<float>(random.gaussian());
  return s;
}

TEST(Gradients, OfPackedEntriesAreThoseOfEachAlone) {
  const int32_t cu_q[] = {0, 5, 12}, cu_k[] = {0, 9, 13};  // one slack key
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Small s = packed_storage(seed);
    const attn_tensors all = s.tensors();
    attn_tensors t = all;
    t.cu_q = cu_q, t.cu_k = cu_k;
    attn_problem p = s.p;
    p.batch = 2, p.seq_q = 8, p.seq_k = 10, p.ragged = 3, p.total_q = 12, p.total_k = 14;
    p.index_dtype = ATTN_INDEX_32;
    p.features |= ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32;
    const Reference packed = evaluate_gradients(p, t, s.plan, documented());
    double sinks = 0;
    for (int64_t b = 0; b < 2; ++b) {
      attn_problem one = s.p;
      one.seq_q = cu_q[b + 1] - cu_q[b], one.seq_k = cu_k[b + 1] - cu_k[b];
      attn_tensors alone = all;
      for (attn_tensor attn_tensors::* q : {&attn_tensors::q, &attn_tensors::o, &attn_tensors::dout})
        (alone.*q).data = static_cast<uint16_t*>((all.*q).data) + cu_q[b] * (all.*q).stride[2];
      for (attn_tensor attn_tensors::* q : {&attn_tensors::lse, &attn_tensors::dlse})
        (alone.*q).data = static_cast<float*>((all.*q).data) + cu_q[b];
      for (attn_tensor attn_tensors::* k : {&attn_tensors::k, &attn_tensors::v})
        (alone.*k).data = static_cast<uint16_t*>((all.*k).data) + cu_k[b] * (all.*k).stride[2];
      const Reference due = evaluate_gradients(one, alone, s.plan, documented());
      for (const TensorId id : {TensorId::kDq, TensorId::kDk, TensorId::kDv}) {
        const bool query = id == TensorId::kDq;
        const int64_t heads = query ? 2 : 1, longest = query ? 8 : 10, rows = query ? one.seq_q : one.seq_k;
        for (int64_t h = 0; h < heads; ++h) {
          for (int64_t n = 0; n < longest * 3; ++n) {
            const auto x = static_cast<size_t>((b * heads + h) * longest * 3 + n);
            if (n >= rows * 3) {
              EXPECT_EQ(packed[id].rule[x], static_cast<uint8_t>(Due::kAnything)) << "there is no such row";
              continue;
            }
            const auto y = static_cast<size_t>(h * rows * 3 + n);
            ASSERT_EQ(packed[id].value[x], due[id].value[y]) << name_of(id) << " " << b << " " << h << " " << n;
            ASSERT_EQ(packed[id].bound[x], due[id].bound[y]) << name_of(id) << " " << b << " " << h << " " << n;
          }
        }
      }
      sinks += due[TensorId::kDsink].value[1];
    }
    EXPECT_NEAR(packed[TensorId::kDsink].value[1], sinks, 1e-12);
    EXPECT_EQ(packed.state[5], RowState::kAbsent);
  }
}

TEST(Gradients, RefuseSlopesByName) {
  Small s(ATTN_F16, 3);
  s.p.features |= ATTN_FEATURE_ALIBI;
  EXPECT_THROW(s.due(), UnknownFeatures);
}

}  // namespace
}  // namespace attnfuzz
