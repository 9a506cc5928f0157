// Tests K and V of 8 bits (ATTN_FEATURE_KV8): compares the oracle with the same numbers in 16 bits, and its
// bound with kernels that fold scales into scores and P, or that first round codes times scales.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "reference/numbers/formats.h"
#include "reference/numbers/stored_bytes.h"
#include "reference/rows/kv_scales.h"
#include "tests/reference/legal_kernels/declared.h"
#include "tests/reference/legal_kernels/legal_cases.h"

namespace attnfuzz {
namespace {

enum class Codes { kGaussian, kAll, kSubnormal, kLarge };
enum class Scaled { kOne, kPowers, kUneven, kApart };

// A case whose K and V are codes with scales.
struct Narrow {
  explicit Narrow(const Shape& shape, int32_t kv_dtype)
      : c(shape),
        k(c.k.size()),
        v(c.v.size()),
        k_scale(static_cast<size_t>(shape.batch * shape.heads_kv * shape.seq_k), 1),
        v_scale(k_scale),
        problem(c.problem) {
    problem.features |= ATTN_FEATURE_KV8;
    problem.kv_dtype = kv_dtype;
  }

  void draw(Codes codes, Scaled scaled, bool by_key, Random* random) {
    const bool e4m3 = problem.kv_dtype == ATTN_E4M3;
    const auto code = [&]() -> uint8_t {
      const auto sign = static_cast<uint8_t>(random->below(2) << 7);
      switch (codes) {
        case Codes::kAll:
          return sign | static_cast<uint8_t>(random->below(e4m3 ? 0x7f : 0x7c));
        case Codes::kSubnormal:
          return sign | static_cast<uint8_t>(random->below(e4m3 ? 8 : 4));
        case Codes::kLarge:
          return sign | static_cast<uint8_t>((e4m3 ? 0x77 : 0x74) + random->below(8));
        default:
          return encode8(problem.kv_dtype, random->gaussian());
      }
    };
    for (uint8_t& x : k) x = code();
    for (uint8_t& x : v) x = code();
    const int64_t heads = c.problem.batch * c.problem.heads_kv, keys = c.problem.seq_k;
    for (auto* scales : {&k_scale, &v_scale}) {
      for (int64_t h = 0; h < heads; ++h) {
        float scale = 1;
        for (int64_t j = 0; j < keys; ++j) {
          if (j == 0 || by_key) {
            const auto uneven = static_cast<float>(1 + random->uniform());
            if (scaled == Scaled::kPowers) scale = std::ldexp(1.0f, static_cast<int>(random->below(7)) - 3);
            if (scaled == Scaled::kUneven) scale = std::ldexp(uneven, static_cast<int>(random->below(4)) - 2);
            if (scaled == Scaled::kApart) scale = std::ldexp(uneven, static_cast<int>(random->below(12)) - 6);
          }
          (*scales)[static_cast<size_t>(h * keys + j)] = scale;
        }
      }
    }
  }

  double scale_of(const std::vector<float>& scales, size_t element, int64_t columns) const {
    return scales[element / static_cast<size_t>(columns)];
  }

  // Puts the codes, or the codes times scales rounded through fp32 as by a kernel, into the 16-bit case.
  void put_into_16_bits(bool scaled) {
    const auto put = [&](const std::vector<uint8_t>& codes, const std::vector<float>& scales, int64_t columns,
                         std::vector<uint16_t>* to) {
      for (size_t n = 0; n < codes.size(); ++n) {
        const auto code = static_cast<float>(decode(problem.kv_dtype, codes.data(), static_cast<int64_t>(n)));
        const float factor = scaled ? scales[n / static_cast<size_t>(columns)] : 1.0f;
        (*to)[n] = encode16(problem.dtype, code * factor);
      }
    };
    put(k, k_scale, problem.dim_qk, &c.k);
    put(v, v_scale, problem.dim_v, &c.v);
  }

  attn_tensors tensors() {
    attn_tensors t = c.tensors();
    const attn_problem& p = problem;
    t.k.data = k.data();
    t.v.data = v.data();
    t.k_scale = {k_scale.data(), {p.heads_kv * p.seq_k, p.seq_k, 1, 1}};
    t.v_scale = {v_scale.data(), {p.heads_kv * p.seq_k, p.seq_k, 1, 1}};
    return t;
  }
  Reference reference(const Calibration& calibration = documented()) {
    problem.has_key_lengths = c.problem.has_key_lengths;
    return evaluate(problem, tensors(), c.plan, calibration);
  }

  Case c;  // its K and V are the numbers that a kernel multiplies
  std::vector<uint8_t> k, v;
  std::vector<float> k_scale, v_scale;
  attn_problem problem;
};

TEST(Formats, OfEightBitsAreTheirTables) {
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    const int sign = code & 0x80 ? -1 : 1;
    const int e = code >> 3 & 15, m = code & 7;
    const double e4m3 = e == 0 ? std::ldexp(m, -9) : std::ldexp(8 + m, e - 10);
    const double got = decode(ATTN_E4M3, &byte, 0);
    if ((code & 0x7f) == 0x7f)
      EXPECT_TRUE(std::isnan(got));
    else
      EXPECT_EQ(got, sign * e4m3) << code;
    if ((code & 0x7f) != 0x7f) EXPECT_EQ(encode8(ATTN_E4M3, got), byte) << code;
    const int e5 = code >> 2 & 31, m5 = code & 3;
    const double e5m2 = e5 == 31  ? (m5 == 0 ? INFINITY : NAN)
                        : e5 == 0 ? std::ldexp(m5, -16)
                                  : std::ldexp(4 + m5, e5 - 17);
    const double other = decode(ATTN_E5M2, &byte, 0);
    if (std::isnan(e5m2))
      EXPECT_TRUE(std::isnan(other));
    else
      EXPECT_EQ(other, sign * e5m2) << code;
    if (!std::isnan(e5m2)) EXPECT_EQ(encode8(ATTN_E5M2, other), byte) << code;
  }
  EXPECT_EQ(encode8(ATTN_E4M3, 1e9), 0x7e);
  EXPECT_EQ(encode8(ATTN_E4M3, 17), 0x58) << "a tie goes to even: 16";
  EXPECT_EQ(encode8(ATTN_E4M3, 19), 0x5a) << "a tie goes to even: 20";
  EXPECT_EQ(encode8(ATTN_E4M3, 0x1.8p-9), 2);
  EXPECT_EQ(encode8(ATTN_E5M2, -1e9), 0xfb);
}

TEST(Formats, StoredBytesReadBackRounded) {
  const std::vector<float> values = {0.5f, -3, 17, 0x1.8p-9f};
  const std::vector<std::pair<int32_t, size_t>> dtypes = {
      {ATTN_F32, 4}, {ATTN_F16, 2}, {ATTN_BF16, 2}, {ATTN_E4M3, 1}, {ATTN_E5M2, 1}};
  for (const auto& [dtype, bytes] : dtypes) {
    const std::vector<std::byte> stored = stored_bytes(dtype, values);
    ASSERT_EQ(stored.size(), values.size() * bytes) << dtype;
    EXPECT_EQ(decode(dtype, stored.data(), 0), 0.5) << dtype;
    EXPECT_EQ(decode(dtype, stored.data(), 1), -3) << dtype;
    EXPECT_EQ(decode(dtype, stored.data(), 2), bytes > 1 ? 17 : 16) << dtype;
  }
}

// With scales that are powers of two, the 16-bit case has the same numbers without rounding, so values and
// bounds are equal. If a scale of another entry, head, key or tensor were read, a value would change.
TEST(Kv8, EqualsTheSixteenBitProblem) {
  Random random(4);
  for (int n = 0; n < 60; ++n) {
    Shape shape = random_shape(&random);
    shape.batch = 2;
    Narrow s(shape, random.below(2) ? ATTN_E4M3 : ATTN_E5M2);
    s.c.fill(Regime::kGaussian, random.bits());
    s.draw(Codes::kGaussian, Scaled::kPowers, true, &random);
    if (s.problem.kv_dtype == ATTN_E5M2 &&
        s.problem.dtype == ATTN_F16)  // fp16 does not hold the least codes times a scale
      for (auto* codes : {&s.k, &s.v})
        for (uint8_t& code : *codes) code = (code & 0x7f) < 0x20 ? 0 : code;
    s.put_into_16_bits(true);
    declare_all(&s.c.plan);
    s.c.plan.kv_rule = ATTN_KV_DEQUANTISED;
    const Reference narrow = s.reference(), wide = s.c.reference();
    const bool subnormal = s.problem.dtype == ATTN_F16 && s.problem.kv_dtype == ATTN_E5M2;
    for (const TensorId t : {TensorId::kO, TensorId::kLse}) {
      ASSERT_EQ(narrow[t].value.size(), wide[t].value.size());
      for (size_t at = 0; at < wide[t].value.size(); ++at) {
        EXPECT_EQ(narrow[t].rule[at], wide[t].rule[at]);
        if (subnormal) continue;  // the bound charges for scaled codes that are subnormal in fp16
        EXPECT_EQ(narrow[t].value[at], wide[t].value[at]);
        EXPECT_EQ(narrow[t].bound[at], wide[t].bound[at]);
      }
    }
  }
}

TEST(Kv8, StridesOfZeroRepeatAScale) {
  Narrow s({.batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 3, .seq_k = 9}, ATTN_E4M3);
  Random random(5);
  s.c.fill(Regime::kGaussian, 1);
  s.draw(Codes::kGaussian, Scaled::kOne, false, &random);
  std::ranges::fill(s.k_scale, 0.375f);
  std::ranges::fill(s.v_scale, 5.0f);
  const Reference whole = s.reference();
  attn_tensors t = s.tensors();
  float k = 0.375f, v = 5;
  t.k_scale = {&k, {0, 0, 0, 1}};
  t.v_scale = {&v, {0, 0, 0, 1}};
  const Reference once = evaluate(s.problem, t, s.c.plan, documented());
  for (const TensorId id : {TensorId::kO, TensorId::kLse}) {
    EXPECT_EQ(whole[id].value, once[id].value);
    EXPECT_EQ(whole[id].bound, once[id].bound);
  }
}

TEST(Kv8, NaNAndInfinityCodesActAsNaNAndInfinity) {
  const auto of = [](int32_t dtype, uint8_t code, bool key) {
    Narrow s({.seq_q = 4, .seq_k = 4, .dim_qk = 2, .dim_v = 2, .causal = true}, dtype);
    Random random(6);
    s.c.fill(Regime::kGaussian, 2);
    s.draw(Codes::kGaussian, Scaled::kUneven, true, &random);
    s.c.plan.isolates_masked_nan = 1;
    (key ? s.k : s.v)[2 * 2 + 1] = code;  // of key 2
    return s.reference();
  };
  EXPECT_EQ(of(ATTN_E4M3, 0x7f, true).state[2], RowState::kNaN);
  EXPECT_EQ(of(ATTN_E4M3, 0x7f, true).state[1], RowState::kBounded);
  EXPECT_EQ(of(ATTN_E4M3, 0x7e, true).state[2], RowState::kBounded);
  EXPECT_EQ(of(ATTN_E5M2, 0x7c, true).state[2], RowState::kUnconstrained);
  EXPECT_EQ(of(ATTN_E5M2, 0xff, true).state[3], RowState::kNaN);
  const Reference value = of(ATTN_E4M3, 0xff, false);
  EXPECT_EQ(value[TensorId::kO].rule[2 * 2 + 1], static_cast<uint8_t>(Due::kMustBeNaN));
  EXPECT_EQ(value[TensorId::kO].rule[2 * 2], static_cast<uint8_t>(Due::kNumber));
}

TEST(Kv8, AScaleOutOfRangeOrBeyondTheFormatLeavesItsKeyOpen) {
  for (const float scale : {0.0f, -1.0f, INFINITY, NAN, 0x1p-50f, 300.0f}) {
    Narrow s({.seq_q = 4, .seq_k = 4, .dim_qk = 2, .dim_v = 2, .causal = true}, ATTN_E4M3);
    Random random(7);
    s.c.fill(Regime::kGaussian, 3);
    s.draw(Codes::kGaussian, Scaled::kOne, false, &random);
    s.c.plan.kv_rule = ATTN_KV_DEQUANTISED;
    s.k[2 * 2] = 0x7e;  // 448 times 300 is more than fp16 holds
    s.k_scale[2] = scale;
    Reference r = s.reference();
    EXPECT_EQ(r.state[1], RowState::kBounded) << scale;
    EXPECT_EQ(r.state[2], RowState::kUnconstrained) << scale;
    s.c.plan.kv_rule = ATTN_KV_FOLDED;
    r = s.reference();
    EXPECT_EQ(r.state[2] == RowState::kUnconstrained, scale != 300) << scale;
  }
}

// Mistakes of wrong kernels with scales and codes.
enum class Kv8Mistake { kNone, kScaleDropped, kScaleTwice, kScaleOfV, kScaleOfFirst, kOtherFormat, kFlushed };
constexpr const char* kKv8Mistakes[] = {"none",
                                        "scale dropped",
                                        "scale applied twice",
                                        "K with V's scale",
                                        "first key's scale",
                                        "the other format",
                                        "subnormals flushed"};

void make(Kv8Mistake mistake, Narrow* s) {
  const auto keys = static_cast<size_t>(s->problem.seq_k);
  for (size_t n = 0; n < s->k_scale.size(); ++n) {
    if (mistake == Kv8Mistake::kScaleDropped) s->k_scale[n] = 1;
    if (mistake == Kv8Mistake::kScaleTwice) s->v_scale[n] *= s->v_scale[n];
    if (mistake == Kv8Mistake::kScaleOfV) s->k_scale[n] = s->v_scale[n];
    if (mistake == Kv8Mistake::kScaleOfFirst) s->k_scale[n] = s->k_scale[n / keys * keys];
  }
  if (mistake == Kv8Mistake::kOtherFormat)
    s->problem.kv_dtype = s->problem.kv_dtype == ATTN_E4M3 ? ATTN_E5M2 : ATTN_E4M3;
  if (mistake != Kv8Mistake::kFlushed) return;
  for (auto* codes : {&s->k, &s->v})
    for (uint8_t& code : *codes) code = (code & 0x7f) < (s->problem.kv_dtype == ATTN_E4M3 ? 8 : 4) ? 0 : code;
}

struct Kv8Tally {
  double o = 0, lse = 0;
  int64_t rows = 0, bounded = 0;
};

// Runs a random problem and plan. Only the kernel has the mistake.
Worst run_one(Random* random, int32_t rule, Kv8Mistake mistake, Kv8Tally* tally, std::string* what) {
  Narrow s(random_shape(random), random->below(2) ? ATTN_E4M3 : ATTN_E5M2);
  s.c.fill(kRegimes[random->below(std::size(kRegimes))], random->bits());
  const auto codes = static_cast<Codes>(random->below(4));
  const auto scaled = mistake == Kv8Mistake::kNone ? static_cast<Scaled>(random->below(4)) : Scaled::kUneven;
  const bool by_key = random->below(3) != 0;
  s.draw(codes, scaled, by_key, random);
  // The largest codes times the largest scales overflow fp16.
  declare_any(random, &s.c.plan);
  if (rule == ATTN_KV_FOLDED) s.c.plan.sum_rule = ATTN_SUM_OF_EXP;
  if (s.c.problem.softcap > 0 || s.c.problem.bias_dtype != ATTN_NONE)
    s.c.plan.scale_mode = random->below(2) ? ATTN_SCALE_SEPARATE : ATTN_SCALE_SEPARATE_FMA;
  s.c.plan.kv_rule = random->below(4) == 0 ? ATTN_KV_RULE_UNKNOWN : rule;
  Choices how{.seed = random->bits()};
  const Calibration calibration = arithmetic(random, &s.c.plan, &how);
  const Reference reference = s.reference(calibration);
  make(mistake, &s);
  const FoldedScales folded = {s.k_scale.data(), s.v_scale.data(), by_key || random->below(2) != 0};
  if (rule == ATTN_KV_FOLDED) how.folded = &folded;
  s.put_into_16_bits(rule == ATTN_KV_DEQUANTISED);
  const Worst worst = worst_of(reference, run_as_planned(s.c, how));
  tally->o = std::max(tally->o, worst.o);
  tally->lse = std::max(tally->lse, worst.lse);
  tally->rows += reference.sampled - reference.dead;
  tally->bounded += std::ranges::count(reference.state, RowState::kBounded);
  *what = "dtype " + std::to_string(s.c.problem.dtype) + " kv " + std::to_string(s.problem.kv_dtype) +
          " codes " + std::to_string(static_cast<int>(codes)) + " scales " +
          std::to_string(static_cast<int>(scaled)) + " by key " + std::to_string(by_key) + " declared " +
          std::to_string(s.c.plan.kv_rule) + " in P " + std::to_string(folded.in_p) + " scale " +
          std::to_string(s.c.plan.scale_mode) + " p " + std::to_string(s.c.plan.p_format) + " v " +
          std::to_string(s.c.plan.v_format) + " partials " + std::to_string(s.c.plan.partial_format) +
          " merging " + std::to_string(s.c.plan.merge_format);
  return worst;
}

TEST(Kv8, ItsBoundHoldsForBothRules) {
  for (const int32_t rule : {ATTN_KV_FOLDED, ATTN_KV_DEQUANTISED}) {
    Random random(static_cast<uint64_t>(31 + rule));
    Kv8Tally tally;
    std::string what;
    for (int n = 0; n < 3000; ++n) {
      const Worst worst = run_one(&random, rule, Kv8Mistake::kNone, &tally, &what);
      ASSERT_LE(std::max(worst.o, worst.lse), 1)
          << "rule " << rule << " case " << n << " O " << worst.o << " LSE " << worst.lse << " " << what;
    }
    EXPECT_GT(tally.bounded, tally.rows * 6 / 10);
    std::printf("  %-11s largest error/bound: O %.2f  LSE %.2f  judged %.1f %% of rows\n",
                rule == ATTN_KV_FOLDED ? "folded" : "dequantised", tally.o, tally.lse,
                100.0 * static_cast<double>(tally.bounded) / static_cast<double>(tally.rows));
  }
}

TEST(Kv8, MistakesWithScalesAndCodesAreCaught) {
  for (int n = 1; n < static_cast<int>(std::size(kKv8Mistakes)); ++n) {
    constexpr int kCases = 150;
    int caught = 0;
    Random random(static_cast<uint64_t>(50 + n));
    Kv8Tally tally;
    std::string what;
    for (int k = 0; k < kCases; ++k) {
      const Worst worst = run_one(&random, k % 2 ? ATTN_KV_FOLDED : ATTN_KV_DEQUANTISED,
                                  static_cast<Kv8Mistake>(n), &tally, &what);
      caught += std::max(worst.o, worst.lse) > 1;
    }
    EXPECT_GT(caught, kCases / 4) << kKv8Mistakes[n];
    std::printf("  %-20s caught in %d of %d cases\n", kKv8Mistakes[n], caught, kCases);
  }
}

}  // namespace
}  // namespace attnfuzz
