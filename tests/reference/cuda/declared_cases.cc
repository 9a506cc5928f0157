#include "tests/reference/cuda/declared_cases.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/merge.h"
#include "reference/numbers/formats.h"
#include "reference/selected.h"
#include "tests/reference/legal_kernels/declared.h"
#include "tests/reference/legal_kernels/legal_cases.h"

namespace attnfuzz {
namespace {

// Plants single numbers that random data rarely have.
void plant(Random* random, Case* c) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float kinds[] = {
      std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity, 60000, 0x1p100f, 0x1p-24f, 0x1p-130f};
  const attn_problem& p = c->problem;
  for (int64_t n = 1 + random->below(3); n > 0; --n) {
    const float value = kinds[random->below(std::size(kinds))];
    const int64_t h = random->below(p.heads_q), g = random->below(p.heads_kv), i = random->below(p.seq_q),
                  j = random->below(p.seq_k);
    switch (random->below(4)) {
      case 0:
        c->set_q(0, h, i, random->below(p.dim_qk), value);
        break;
      case 1:
        c->set_k(0, g, j, random->below(p.dim_qk), value);
        break;
      case 2:
        c->set_v(0, g, j, random->below(p.dim_v), value);
        break;
      default:
        if (!c->bias.empty())
          c->bias[static_cast<size_t>(random->below(static_cast<int64_t>(c->bias.size())))] = value;
    }
  }
}

// Sets every bias but -inf to one number that absorbs all scores, or nearly all.
void mask_whole(Random* random, Case* c) {
  const float kinds[] = {std::numeric_limits<float>::lowest(), -0x1.fep127f, -1e30f, -0x1p60f, -1e9f};
  const float kind = kinds[random->below(std::size(kinds))];
  for (float& bias : c->bias)
    if (bias != -std::numeric_limits<float>::infinity()) bias = kind;
  if (random->below(2)) c->plan.scale_mode = ATTN_SCALE_SEPARATE;
  if (random->below(2)) c->plan.num_splits = c->plan.merges = 1;
}

// Gives keys biases far below the others, as models do to hide them.
void mask_low(uint64_t seed, Case* c) {
  Random random(seed ^ 0x10e);
  const float kinds[] = {std::numeric_limits<float>::lowest(), -0x1.fep127f, -1e30f, -1e12f};
  const float kind = kinds[random.below(std::size(kinds))];
  for (float& bias : c->bias)
    if (random.below(3) == 0) bias = kind;
}

// The same numbers in fp32, with random low bits.
struct In32 {
  attn_problem problem;
  attn_tensors tensors;
  std::vector<float> q, k, v;

  In32(Case* c, Random* random) : problem(c->problem), tensors(c->tensors()) {
    const auto widened = [&](const std::vector<uint16_t>& from, std::vector<float>* to, attn_tensor* tensor) {
      for (size_t i = 0; i < from.size(); ++i) {
        const auto x = static_cast<float>(decode(c->problem.dtype, from.data(), static_cast<int64_t>(i)));
        to->push_back(x * (1 + static_cast<float>(random->below(1 << 16)) * 0x1p-23f));
      }
      tensor->data = to->data();
    };
    widened(c->q, &q, &tensors.q);
    widened(c->k, &k, &tensors.k);
    widened(c->v, &v, &tensors.v);
    problem.dtype = ATTN_F32;
    problem.features |= ATTN_FEATURE_F32;
  }
};

// The same call with sinks, from -inf to far above all scores.
struct WithSinks {
  attn_problem problem;
  attn_tensors tensors;
  std::vector<float> sinks;

  WithSinks(Case* c, Random* random) : problem(c->problem), tensors(c->tensors()) {
    constexpr float kScales[] = {0, 1, 10, 100, 1e4f, 1e10f, std::numeric_limits<float>::max()};
    for (int64_t h = 0; h < problem.heads_q; ++h) {
      const float scale = kScales[random->below(std::size(kScales))];
      const float sink = static_cast<float>(2 * random->uniform() - 1) * scale;
      sinks.push_back(random->below(8) == 0 ? -std::numeric_limits<float>::infinity() : sink);
    }
    tensors.sink = {sinks.data(), {0, 1, 0, 0}};
    problem.features |= ATTN_FEATURE_SINK;
    problem.has_sink = 1;
    problem.sink_dtype = ATTN_F32;
  }
};

// The same call with slopes, from 0 to slopes so steep that only one key has weight.
struct WithSlopes {
  attn_problem problem;
  attn_tensors tensors;
  std::vector<float> slopes;

  WithSlopes(Case* c, Random* random) : problem(c->problem), tensors(c->tensors()) {
    constexpr float kScales[] = {0, 0.01f, 1, 100, 1e37f};
    for (int64_t n = 0; n < problem.batch * problem.heads_q; ++n) {
      const float slope = static_cast<float>(2 * random->uniform() - 1) * kScales[random->below(5)];
      slopes.push_back(random->below(40) == 0 ? std::numeric_limits<float>::infinity() : slope);
    }
    tensors.slopes = {slopes.data(), {problem.heads_q, 1, 0, 0}};
    problem.features |= ATTN_FEATURE_ALIBI;
    problem.has_alibi = 1;
  }
};

// The same call with packed entries, which are shorter, so that some rows belong to no entry.
struct Packed {
  attn_problem problem;
  attn_tensors tensors;
  std::vector<int32_t> queries = {0}, keys = {0};

  Packed(Case* c, Random* random) : problem(c->problem), tensors(c->tensors()) {
    for (int64_t b = 0; b < problem.batch; ++b) {
      queries.push_back(queries.back() + static_cast<int32_t>(random->below(problem.seq_q + 1)));
      keys.push_back(keys.back() + static_cast<int32_t>(random->below(problem.seq_k + 1)));
    }
    // With one head all rows are adjacent; with several, only the rows of the first entries are used.
    problem.features |= ATTN_FEATURE_RAGGED;
    if (problem.heads_q == 1 || problem.batch == 1) problem.ragged |= ATTN_RAGGED_QUERIES;
    if (problem.heads_kv == 1 || problem.batch == 1) problem.ragged |= ATTN_RAGGED_KEYS;
    if (problem.ragged == 0) problem.features &= ~ATTN_FEATURE_RAGGED;
    if ((problem.ragged & ATTN_RAGGED_QUERIES) != 0) problem.total_q = problem.batch * problem.seq_q;
    if ((problem.ragged & ATTN_RAGGED_KEYS) != 0) problem.total_k = problem.batch * problem.seq_k;
    problem.index_dtype = ATTN_INDEX_32, problem.features |= ATTN_FEATURE_INDEX32;
    tensors.cu_q = queries.data(), tensors.cu_k = keys.data();
    for (int64_t b = 0; b < problem.batch && problem.has_key_lengths; ++b)
      lengths.push_back(static_cast<int32_t>(c->key_lengths[static_cast<size_t>(b)]));
    if (problem.has_key_lengths) tensors.key_lengths = reinterpret_cast<const int64_t*>(lengths.data());
  }

 private:
  std::vector<int32_t> lengths;
};

// The same call with keys in pages of the same memory. The page size divides the rows of an entry.
struct Paged {
  attn_problem problem;
  attn_tensors tensors;

  Paged(Case* c, Random* random) : problem(c->problem), tensors(c->tensors()) {
    attn_problem& p = problem;
    const int64_t rows = p.heads_kv * p.seq_k;  // rows of one batch entry
    p.page_size = random->below(2) == 0 && rows % 2 == 0 ? 2 : 1;
    if (random->below(2) == 0 && p.heads_kv == 1) p.page_size = p.seq_k;
    p.pages = p.batch * rows / p.page_size;
    p.pages_per_seq = (p.seq_k + p.page_size - 1) / p.page_size + random->below(2);
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t n = 0; n < p.pages_per_seq; ++n)
        table.push_back(n * p.page_size < p.seq_k ? static_cast<int32_t>(b * rows / p.page_size + n) : -1);
    tensors.k.stride[0] = p.page_size * tensors.k.stride[2];
    tensors.v.stride[0] = p.page_size * tensors.v.stride[2];
    tensors.block_table = {table.data(), {p.pages_per_seq, 0, 0, 1}};
    for (int64_t b = 0; b < p.batch; ++b)
      lengths.push_back(
          static_cast<int32_t>(p.has_key_lengths ? c->key_lengths[static_cast<size_t>(b)] : p.seq_k));
    tensors.key_lengths = reinterpret_cast<const int64_t*>(lengths.data());
    p.has_key_lengths = 1;
    p.index_dtype = ATTN_INDEX_32;
    p.features |= ATTN_FEATURE_PAGED | ATTN_FEATURE_INDEX32;
  }

 private:
  std::vector<int32_t> table, lengths;
};

// The same call with keys that stand for blocks of keys (ATTN_FEATURE_KEY_STEP).
struct KeyBlocks {
  attn_problem problem;
  attn_tensors tensors;

  KeyBlocks(Case* c, uint64_t seed) : problem(c->problem), tensors(c->tensors()) {
    Random random(seed);
    problem.features |= ATTN_FEATURE_KEY_STEP;
    problem.key_step = 1 + random.below(4), problem.key_offset = random.below(6);
    problem.causal = random.below(4) > 0;
    for (int64_t b = 0; b < problem.batch && problem.has_key_lengths; ++b)
      lengths.push_back(c->key_lengths[static_cast<size_t>(b)] * problem.key_step + random.below(6));
    if (problem.has_key_lengths) tensors.key_lengths = lengths.data();
  }

 private:
  std::vector<int64_t> lengths;
};

// The same call over listed blocks: short lists with repeats, -1, and blocks behind the last key.
struct Lists {
  attn_problem problem;
  attn_tensors tensors;

  Lists(const attn_problem& of, const attn_tensors& with, uint64_t seed) : problem(of), tensors(with) {
    Random random(seed ^ 0x115);
    attn_problem& p = problem;
    p.features |= ATTN_FEATURE_SELECTED;
    p.window_left = p.window_right = -1, p.has_mask = 0, p.bias_dtype = ATTN_NONE, p.num_splits = 0;
    p.block = 1 + random.below(random.below(2) == 0 ? 3 : 40), p.select = 1 + random.below(8);
    const int64_t lists = p.batch * p.heads_kv * p.seq_q;
    for (int64_t n = 0; n < lists * p.select; ++n)
      numbers.push_back(static_cast<int32_t>(random.below(p.seq_k / p.block + 3) - 1));
    tensors.indices = {numbers.data(), {p.heads_kv * p.seq_q * p.select, p.seq_q * p.select, p.select, 1}};
    if (p.index_dtype == ATTN_INDEX_32) return;
    wide.assign(numbers.begin(), numbers.end());
    tensors.indices.data = wide.data();
  }

 private:
  std::vector<int32_t> numbers;
  std::vector<int64_t> wide;
};

// The same call with V as K's first columns.
struct Latent {
  attn_problem problem;
  attn_tensors tensors;

  explicit Latent(Case* c) : problem(c->problem), tensors(c->tensors()) {
    problem.features |= ATTN_FEATURE_LATENT;
    problem.latent = 1;
    problem.dim_v = std::min(problem.dim_v, problem.dim_qk);
    tensors.v = tensors.k;
  }
};

Calibration any_calibration(Random* random) {
  switch (random->below(3)) {
    case 0:
      return h200();
    case 1:
      return executor();
    default:
      return documented();
  }
}

// What a case has beside a random shape.
struct Kind {
  bool broad;     // up to 256 columns, twice as many as a block of the GPU's oracle has threads
  bool lengthy;   // a row of more than kLongRow keys (row_terms.h), with P known in some and unknown in others
  bool alone;     // rows that have a block of the GPU's oracle for themselves
  bool broadest;  // wider heads than most kernels have
  explicit Kind(uint64_t number)
      : broad(number % 8 == 3), lengthy(number % 40 == 7), alone(number % 35 == 17), broadest(number % 40 == 22) {}
};

Shape shape_of(const Kind& kind, Random* random) {
  Shape shape = random_shape(random);
  shape.batch = 1 + random->below(2);
  if (kind.broad) shape.dim_qk = 1 + random->below(256), shape.dim_v = 1 + random->below(256);
  if (kind.alone) shape.batch = 1, shape.seq_q = 1 + random->below(2), shape.seq_k = 1024 + random->below(700);
  if (kind.alone) shape.dim_v = 1 + random->below(600);
  if (kind.lengthy) shape = {.seq_q = 1, .seq_k = 4200 + random->below(800), .dim_v = shape.dim_v};
  if (kind.broadest) shape.dim_qk = 1 + random->below(1024), shape.dim_v = 257 + random->below(768);
  return shape;
}

// A case of a kind, with a plan that declares anything.
Case drawn_case(const Kind& kind, const Shape& shape, uint64_t number, Random* random) {
  Case c(shape);
  c.fill(kRegimes[random->below(std::size(kRegimes))], random->bits());
  declare_any(random, &c.plan);
  c.plan.exp_class = static_cast<int32_t>(random->below(ATTN_EXP_FAST_EXPF + 1));
  c.plan.log_class = static_cast<int32_t>(random->below(ATTN_LOG_FAST_LOGF + 1));
  c.plan.rcp_class = static_cast<int32_t>(random->below(ATTN_RCP_EXACT + 1));
  if (kind.broadest) c.problem.features |= ATTN_FEATURE_WIDE;
  if (kind.lengthy) c.plan.key_order = ATTN_KEYS_ASCENDING;
  if (kind.lengthy && random->below(2) == 0) c.plan.p_format = ATTN_FORMAT_F32;
  if (random->below(3) == 0) plant(random, &c);
  if (number % 16 == 5 && !c.bias.empty()) mask_whole(random, &c);
  if (number % 16 == 9 && !c.bias.empty()) mask_low(number, &c);
  if (random->below(4) == 0) {
    std::vector<int64_t> lengths;
    for (int64_t b = 0; b < shape.batch; ++b) lengths.push_back(random->below(shape.seq_k + 2) - 1);
    c.use_key_lengths(lengths);
  }
  c.plan.isolates_masked_nan = static_cast<int32_t>(random->below(2));
  if (random->below(20) == 0) c.plan.tile_k = 0;
  if (random->below(20) == 0) c.problem.scale *= random->below(2) ? 1e30f : -64.0f;
  return c;
}

}  // namespace

AgreementTally hold_on_declared(FastOracle& oracle, uint64_t first, int64_t count, bool to_first) {
  AgreementTally tally;
  for (uint64_t number = first; number < first + static_cast<uint64_t>(count); ++number) {
    if (to_first && tally.differences > 0) break;
    Random random(number * 104729 + 3);
    const Kind kind(number);
    const Shape shape = shape_of(kind, &random);
    Case c = drawn_case(kind, shape, number, &random);
    const Calibration calibration = any_calibration(&random);
    RowSample sample;
    if (random.below(5) == 0) sample = {.limit = 5, .seed = number};
    const auto hold = [&](const char* as, const attn_problem& problem, const attn_tensors& tensors) {
      std::string why;
      const auto fast = oracle.evaluate(problem, tensors, c.plan, calibration, sample, &why);
      if (!fast) {
        ++tally.not_for_it;
        return;
      }
      const bool lists = (problem.features & ATTN_FEATURE_SELECTED) != 0;
      const Reference host =
          (lists ? evaluate_selected : evaluate)(problem, tensors, c.plan, calibration, sample, true);
      tally.lists += lists;
      tally.add("case " + std::to_string(number) + as, host, compare(problem, *fast, host));
    };
    hold("", c.problem, c.tensors());
    if (number % 4 == 1) {
      const WithSinks sunk(&c, &random);
      hold(", with sinks", sunk.problem, sunk.tensors);
    }
    if (number % 4 == 2) {
      const WithSlopes sloped(&c, &random);
      hold(", with slopes", sloped.problem, sloped.tensors);
    }
    if (number % 4 == 3) {
      const Packed packed(&c, &random);
      hold(", with packed entries", packed.problem, packed.tensors);
      const Lists lists(packed.problem, packed.tensors, number);
      hold(", with packed lists", lists.problem, lists.tensors);
    }
    if (number % 4 == 1) {
      const Lists lists(c.problem, c.tensors(), number);
      hold(", with lists", lists.problem, lists.tensors);
    }
    if (number % 8 == 5) {
      const Paged paged(&c, &random);
      hold(", with keys in pages", paged.problem, paged.tensors);
    }
    if (number % 8 == 6) {
      const Latent latent(&c);
      hold(", with a latent V", latent.problem, latent.tensors);
    }
    if (number % 8 == 1) {
      const KeyBlocks blocks(&c, number);
      hold(", with keys of blocks", blocks.problem, blocks.tensors);
    }
    if (number % 4 > 0) continue;
    if (random.below(2) == 0) c.plan.accumulator = ATTN_ACC_FFMA;
    const In32 wide(&c, &random);
    hold(", in fp32", wide.problem, wide.tensors);
  }
  return tally;
}

namespace {

// A merge of two partial results. Their values have any size, or are NaN or infinite. Some rows saw no key.
struct MergeCase {
  attn_problem problem = {};
  attn_plan plan = {};
  attn_tensors tensors = {};
  std::vector<std::byte> o[2];
  std::vector<float> lse[2];

  explicit MergeCase(Random* random) {
    attn_problem& p = problem;
    p.size = sizeof p;
    p.dtype = static_cast<int32_t>(random->below(3));
    p.batch = 1 + random->below(2), p.heads_q = p.heads_kv = 1 + random->below(3);
    p.seq_q = 1 + random->below(9), p.dim_qk = 1;
    p.dim_v = 1 + random->below(random->below(4) == 0 ? 300 : 40);
    p.window_left = p.window_right = -1;
    p.bias_dtype = ATTN_NONE;
    p.features = ATTN_FEATURE_MERGE | (p.dtype == ATTN_F32 ? ATTN_FEATURE_F32 : 0);
    declare(random);
    for (int side = 0; side < 2; ++side) fill(random, side);
    const int64_t queries = p.seq_q, rows = p.heads_q * queries;
    const auto o_of = [&](int side) {
      return attn_tensor{o[side].data(), {rows * p.dim_v, queries * p.dim_v, p.dim_v, 1}};
    };
    const auto lse_of = [&](int side) { return attn_tensor{lse[side].data(), {rows, queries, 1, 1}}; };
    tensors.size = sizeof tensors;
    tensors.o1 = o_of(0), tensors.o2 = o_of(1), tensors.lse1 = lse_of(0), tensors.lse2 = lse_of(1);
  }

 private:
  void declare(Random* random) {
    plan.size = sizeof plan;
    declare_any(random, &plan);
    plan.exp_class = static_cast<int32_t>(random->below(ATTN_EXP_FAST_EXPF + 1));
    plan.log_class = static_cast<int32_t>(random->below(ATTN_LOG_FAST_LOGF + 1));
    plan.rcp_class = static_cast<int32_t>(random->below(ATTN_RCP_EXACT + 1));
    plan.merge_rule = static_cast<int32_t>(random->below(ATTN_MERGE_ONE_BY_ONE + 1));
    plan.lse_base = random->below(2) ? 2 : 0;
    plan.lse_dead = static_cast<int32_t>(random->below(ATTN_LSE_DEAD_ANY + 1));
    plan.flush_to_zero = static_cast<int32_t>(random->below(2));
    plan.isolates_masked_nan = static_cast<int32_t>(random->below(2));
    plan.tile_q = 4;
  }

  void fill(Random* random, int side) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    constexpr float kApart[] = {0, 1, 5, 60, 3e3f, 1e7f, 1e30f}, kSizes[] = {1e-30f, 1e-3f, 1, 100, 6e4f, 1e37f, 2e38f};
    const float apart = kApart[random->below(std::size(kApart))], size = kSizes[random->below(std::size(kSizes))];
    const int64_t rows = problem.batch * problem.heads_q * problem.seq_q;
    for (int64_t row = 0; row < rows; ++row) {
      const float odd[] = {kInfinity, -kInfinity, -kInfinity, -kInfinity, std::nanf("")};
      const auto usual = static_cast<float>(random->gaussian()) * apart;
      lse[side].push_back(random->below(5) == 0 ? odd[random->below(std::size(odd))] : usual);
    }
    o[side].resize(static_cast<size_t>(rows * problem.dim_v * 4));
    for (int64_t n = 0; n < rows * problem.dim_v; ++n) {
      const float odd[] = {kInfinity, -kInfinity, std::nanf("")};
      const auto usual = static_cast<float>(random->gaussian()) * size;
      const float value = random->below(100) == 0 ? odd[random->below(3)] : usual;
      if (problem.dtype == ATTN_F32)
        reinterpret_cast<float*>(o[side].data())[n] = value;
      else
        reinterpret_cast<uint16_t*>(o[side].data())[n] = static_cast<uint16_t>(encode16(problem.dtype, value));
    }
  }
};

}  // namespace

AgreementTally hold_on_merges(FastOracle& oracle, uint64_t first, int64_t count, bool to_first) {
  AgreementTally tally;
  for (uint64_t number = first; number < first + static_cast<uint64_t>(count); ++number) {
    if (to_first && tally.differences > 0) break;
    Random random(number * 7919 + 5);
    const MergeCase c(&random);
    const Calibration calibration = any_calibration(&random);
    RowSample sample;
    if (random.below(5) == 0) sample = {.limit = 5, .seed = number};
    std::string why;
    const auto fast = oracle.evaluate(c.problem, c.tensors, c.plan, calibration, sample, &why);
    if (!fast) {
      ++tally.not_for_it;
      continue;
    }
    const Reference host = evaluate_merge(c.problem, c.tensors, c.plan, calibration, sample);
    Agreement agreement = compare(c.problem, *fast, host);
    if (fast->dead != host.dead || fast->unconstrained != host.unconstrained || fast->sampled != host.sampled)
      agreement.difference += " other counts of rows";
    tally.add("merge " + std::to_string(number), host, agreement);
  }
  return tally;
}

}  // namespace attnfuzz
