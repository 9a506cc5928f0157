#include "properties/nsa/chain.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "properties/case/features/domain.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/judge/execution.h"
#include "properties/judge/lse_base.h"

namespace attnfuzz::nsa {
namespace {

using enum TensorId;

constexpr struct {
  const char* name;
  uint64_t operation, needs;
} kOfStages[kStages] = {
    {"compression", ATTN_FEATURE_NSA_COMPRESS, ATTN_FEATURE_NSA_COMPRESS},
    {"attention over compressed keys", 0, ATTN_FEATURE_KEY_STEP},
    {"scores and choice of blocks", ATTN_FEATURE_NSA_SCORE, ATTN_FEATURE_NSA_SCORE},
    {"choice of blocks", ATTN_FEATURE_NSA_SELECT, ATTN_FEATURE_NSA_SELECT},
    {"attention over listed blocks", ATTN_FEATURE_SELECTED, ATTN_FEATURE_SELECTED},
    {"attention within a window", 0, 0},
    {"combination", ATTN_FEATURE_NSA_COMBINE, ATTN_FEATURE_NSA_COMBINE},
};

// Sets the fields of a problem that only some stages have. `longest`: the most tokens of an entry.
void set_stage(Stage stage, const Sizes& s, int64_t longest, Problem& p) {
  const Selection choice = {
      .block = s.block, .select = s.select, .first = s.select_first, .last = s.select_last};
  switch (stage) {
    case Stage::kCompress:
      p.seq_q = s.compressed(longest);
      p.heads_q = s.heads_kv;
      p.key_step = s.key_step, p.key_offset = s.block_length - 1;
      break;
    case Stage::kCompressed:
      p.seq_k = s.compressed(longest);
      p.key_step = s.key_step, p.key_offset = s.block_length - 1;
      break;
    case Stage::kScore:
      p.seq_k = s.compressed(longest);
      p.dim_v = 1;
      p.key_step = s.key_step, p.key_offset = s.block_length - 1;
      p.selection = choice;
      break;
    case Stage::kChoose:
      p.heads_q = s.heads_kv;
      p.dim_qk = p.dim_v = 1;
      p.dtype = ATTN_F16;
      p.selection = choice;
      break;
    case Stage::kListed:
      p.selection = {.block = s.block, .select = s.select};
      break;
    case Stage::kWindow:
      p.window_left = s.window - 1;
      break;
    case Stage::kCombine:
      p.heads_kv = s.heads_q;
      p.seq_k = 0, p.dim_qk = 1;
      break;
  }
}

// Packs the entries of all but the combination, with some rows that belong to none.
void pack(Stage stage, const Sizes& s, Problem& p) {
  std::vector<int64_t> compressed;
  for (const int64_t tokens : s.packed) compressed.push_back(s.compressed(tokens));
  const bool over_compressed = stage == Stage::kCompressed || stage == Stage::kScore;
  p.packed_q = Packing{.lengths = stage == Stage::kCompress ? compressed : s.packed, .slack = 2};
  p.packed_k = Packing{.lengths = over_compressed ? compressed : s.packed, .slack = 3};
}

// The tokens of a batch entry: those of its queries, and those of its keys.
struct Entry {
  int64_t first_query, queries, first_key, keys;
};

class Entries {
 public:
  Entries(const Sizes& s, std::span<const int64_t> tokens, PassKind kind) : tokens_(s.tokens) {
    if (kind == PassKind::kPrefill) all_.push_back({0, s.tokens, 0, s.tokens});
    for (const int64_t t : kind == PassKind::kDecode ? tokens : std::span<const int64_t>())
      all_.push_back({t, 1, 0, s.tokens});
    int64_t first = 0;
    for (const int64_t n : kind == PassKind::kPacked ? s.packed : std::vector<int64_t>()) {
      all_.push_back({first, n, first, n});
      first += n;
    }
    for (const Entry& one : all_) queries_ = std::max(queries_, one.queries), keys_ = std::max(keys_, one.keys);
  }

  // Rows of tokens by (head, token), as rows of queries or of keys by (entry, head, row). Rows that an entry
  // does not have are 0.
  std::vector<float> of_queries(const std::vector<float>& x, int64_t heads, int64_t columns) const {
    std::vector<float> out;
    for (const Entry& one : all_) add(x, heads, columns, one.first_query, one.queries, queries_, out);
    return out;
  }
  std::vector<float> of_keys(const std::vector<float>& x, int64_t heads, int64_t columns) const {
    std::vector<float> out;
    for (const Entry& one : all_) add(x, heads, columns, one.first_key, one.keys, keys_, out);
    return out;
  }
  // The reverse of of_queries().
  std::vector<float> by_token(const std::vector<float>& rows, int64_t heads, int64_t columns) const {
    std::vector<float> out(static_cast<size_t>(heads * tokens_ * columns));
    for (size_t b = 0; b < all_.size(); ++b) {
      for (int64_t h = 0; h < heads; ++h) {
        const auto from = rows.begin() + (static_cast<int64_t>(b) * heads + h) * queries_ * columns;
        std::copy(from, from + all_[b].queries * columns,
                  out.begin() + (h * tokens_ + all_[b].first_query) * columns);
      }
    }
    return out;
  }

 private:
  void add(const std::vector<float>& x, int64_t heads, int64_t columns, int64_t first, int64_t rows,
           int64_t longest, std::vector<float>& out) const {
    for (int64_t h = 0; h < heads; ++h) {
      const auto from = x.begin() + (h * tokens_ + first) * columns;
      out.insert(out.end(), from, from + rows * columns);
      out.resize(out.size() + static_cast<size_t>((longest - rows) * columns));
    }
  }

  const int64_t tokens_;
  std::vector<Entry> all_;
  int64_t queries_ = 0, keys_ = 0;
};

class Running {
 public:
  Running(const Sizes& sizes, std::span<const int64_t> tokens, PassKind kind, const Kernels& kernels)
      : sizes_(sizes), tokens_(tokens), kind_(kind), entries_(sizes, tokens, kind), kernels_(kernels) {
    pass_.chooses = choosing(kernels);
  }

  Pass run(const Inputs& in) {
    const std::vector<float> q = entries_.of_queries(in.q, sizes_.heads_q, sizes_.dim),
                             k = entries_.of_keys(in.k, sizes_.heads_kv, sizes_.dim),
                             v = entries_.of_keys(in.v, sizes_.heads_kv, sizes_.dim);
    call(Stage::kCompress, {{kK, k}, {kV, v}});
    call(Stage::kCompressed, {{kQ, q}, {kK, of(Stage::kCompress, kKCmp)}, {kV, of(Stage::kCompress, kVCmp)}});
    if (pass_.complete()) choose(q);
    if (!pass_.complete()) return std::move(pass_);
    call(Stage::kListed, {{kQ, q}, {kK, k}, {kV, v}, {kIndices, {}, pass_.lists()}});
    call(Stage::kWindow, {{kQ, q}, {kK, k}, {kV, v}});
    if (pass_.complete()) combine(in.gates);
    return std::move(pass_);
  }

 private:
  const std::vector<float>& of(Stage stage, TensorId output) const {
    return pass_.calls[static_cast<size_t>(stage)].outputs[output];
  }

  void combine(const std::vector<float>& gates) {
    const bool packed = kind_ == PassKind::kPacked;
    const auto side = [&](Stage stage) {
      const std::vector<float>& o = of(stage, kO);
      return packed ? entries_.by_token(o, sizes_.heads_q, sizes_.dim) : o;
    };
    call(Stage::kCombine, {{kO1, side(Stage::kCompressed)},
                           {kO2, side(Stage::kListed)},
                           {kO3, side(Stage::kWindow)},
                           {kGates, packed ? gates : entries_.of_queries(gates, sizes_.heads_q, 3)}});
  }

  void choose(const std::vector<float>& q) {
    const std::vector<float>& keys = of(Stage::kCompress, kKCmp);
    if (pass_.chooses == Stage::kChoose) {
      const Problem compressed = case_of(Stage::kCompressed, sizes_, tokens_, kind_).problem;
      return call(Stage::kChoose, {{kScores, scores_of(sizes_, compressed, q, keys)}});
    }
    Target& target = *kernels_[static_cast<size_t>(Stage::kScore)].target;
    const GivenCall& attended = pass_.calls[static_cast<size_t>(Stage::kCompressed)];
    if (attended.outputs[kLse].empty()) {
      pass_.refused = kernels_[static_cast<size_t>(Stage::kCompressed)].target->info().name + " (" +
                      name_of(Stage::kCompressed) + "): writes no LSE, which " + target.info().name + " reads";
      return;
    }
    const attn_plan plan = plan_alone(case_at(Stage::kScore), target).plan;
    call(Stage::kScore,
         {{kQ, q},
          {kK, keys},
          {kSavedLse, lse_in_base(attended.outputs[kLse], attended.plan.lse_base, plan.lse_base)}});
  }

  // The case of a stage, laid out as its kernel takes it.
  Case case_at(Stage stage) const {
    Case c = case_of(stage, sizes_, tokens_, kind_);
    const KernelInfo& kernel = kernels_[static_cast<size_t>(stage)].target->info();
    if (kind_ == PassKind::kPacked && stage != Stage::kCombine) {
      // Frameworks pass offsets of int32.
      if ((kernel.features & ATTN_FEATURE_INDEX32) != 0) c.problem.index_dtype = ATTN_INDEX_32;
      const bool equal = c.problem.causal && c.problem.seq_q == c.problem.seq_k && c.problem.key_step == 0;
      // With as many queries as keys in each entry, both alignments are the same.
      if (equal && kernel.domain && kernel.domain->align != 0) c.problem.align = kernel.domain->align - 1;
    }
    if (kernel.domain) lay_within(*kernel.domain, c);
    return c;
  }

  void call(Stage stage, std::vector<GivenInput> inputs) {
    if (!pass_.complete()) return;
    const auto& [target, calibration] = kernels_[static_cast<size_t>(stage)];
    Case c = case_at(stage);
    GivenCall& made = pass_.calls[static_cast<size_t>(stage)];
    made = judge_given(c, inputs, *target, *calibration, Before::kPoison, {}, /*exact=*/true);
    Verdict& v = made.verdict;
    v.property = "nsa";
    pass_.worst = std::max(pass_.worst, v.worst);
    if (v.outcome == Outcome::kRefused || v.outcome == Outcome::kNotJudged)
      pass_.refused = target->info().name + " (" + name_of(stage) + "): " + v.message;
    else if (v.outcome == Outcome::kFail)
      pass_.failure = ChainFailure{
          stage,
          std::string(name_of(kind_)) + ", " + name_of(stage) + " by " + target->info().name + ": " + v.message,
          v, std::move(c), std::move(inputs)};
  }

  const Sizes& sizes_;
  const std::span<const int64_t> tokens_;
  const PassKind kind_;
  const Entries entries_;
  const Kernels& kernels_;
  Pass pass_;
};

// The weights of one query over the compressed keys that it sees.
std::vector<double> weights_of(const Problem& p, const float* q, const float* keys, int64_t count) {
  std::vector<double> weights;
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t j = 0; j < count; ++j) {
    double product = 0;
    for (int64_t t = 0; t < p.dim_qk; ++t) product += double{q[t]} * keys[j * p.dim_qk + t];
    weights.push_back(score(p, product, 0));
    most = std::max(most, weights.back());
  }
  for (double& weight : weights) sum += weight = std::exp(weight - most);
  for (double& weight : weights) weight /= sum;
  return weights;
}

}  // namespace

const char* name_of(Stage stage) { return kOfStages[static_cast<size_t>(stage)].name; }
const char* name_of(PassKind kind) {
  return kind == PassKind::kPrefill ? "prefill" : kind == PassKind::kDecode ? "decode" : "packed prefill";
}
void fit_domains(const Kernels& kernels, Sizes* sizes) {
  uint32_t formats = 1u << ATTN_F16 | 1u << ATTN_BF16;
  for (int round = 0; round < 2; ++round) {  // a later kernel may move what an earlier one needs
    for (size_t n = 0; n < kStages; ++n) {
      const auto stage = static_cast<Stage>(n);
      const Target* target = kernels[n].target;
      // The format of a choice is no format of Q, K and V.
      if (target == nullptr || !target->domain() || stage == Stage::kChoose) continue;
      const attn_domain& domain = *target->domain();
      if (const uint32_t common = domain.dtypes == 0 ? formats : formats & domain.dtypes; common != 0)
        formats = common;
      Problem p;
      p.heads_q = sizes->heads_q, p.heads_kv = sizes->heads_kv, p.dim_qk = p.dim_v = sizes->dim;
      fit_sizes(domain, p);
      sizes->dim = p.dim_qk;
      const bool attends = stage != Stage::kCompress && stage != Stage::kCombine;
      if (attends) sizes->heads_q = p.heads_q, sizes->heads_kv = p.heads_kv;
    }
  }
  if ((formats >> sizes->dtype & 1) == 0) sizes->dtype = std::countr_zero(formats);
}

std::string takes_no_packed(const Kernels& kernels) {
  for (size_t n = 0; n < kStages; ++n) {
    const auto stage = static_cast<Stage>(n);
    const Target* target = kernels[n].target;
    const bool runs = target != nullptr && stage != Stage::kCombine &&
                      (stage != Stage::kChoose || choosing(kernels) == Stage::kChoose);
    if (runs && (target->info().features & ATTN_FEATURE_RAGGED) == 0)
      return target->info().name + " (" + name_of(stage) + ")";
  }
  return "";
}
Stage choosing(const Kernels& kernels) {
  return kernels[static_cast<size_t>(Stage::kScore)].target != nullptr ? Stage::kScore : Stage::kChoose;
}
bool does(uint64_t features, Stage stage) {
  const auto& [name, operation, needs] = kOfStages[static_cast<size_t>(stage)];
  return (features & needs) == needs && (operation != 0 || (features & ATTN_FEATURE_NO_FORWARD) == 0);
}

Case case_of(Stage stage, const Sizes& s, std::span<const int64_t> tokens, PassKind kind) {
  const bool decode = kind == PassKind::kDecode, packed = kind == PassKind::kPacked && stage != Stage::kCombine;
  const int64_t longest = packed ? std::ranges::max(s.packed) : s.tokens;
  Case c;
  Problem& p = c.problem;
  p.features = kOfStages[static_cast<size_t>(stage)].operation;
  p.dtype = s.dtype;
  p.batch = decode ? std::ssize(tokens) : packed ? std::ssize(s.packed) : 1;
  p.heads_q = s.heads_q, p.heads_kv = s.heads_kv;
  p.seq_q = decode ? 1 : longest, p.seq_k = longest;
  p.dim_qk = p.dim_v = s.dim;
  const bool attends = stage == Stage::kCompressed || stage == Stage::kListed || stage == Stage::kWindow;
  if (attends || stage == Stage::kScore) p.scale = 1 / std::sqrt(static_cast<float>(s.dim));
  p.causal = attends || stage == Stage::kScore || stage == Stage::kChoose;
  if (decode && p.causal) p.align = ATTN_BOTTOM_RIGHT;
  if (decode && stage != Stage::kCombine) {
    p.key_lengths.emplace();
    for (const int64_t t : tokens) p.key_lengths->push_back(t + 1);
  }
  set_stage(stage, s, longest, p);
  if (packed) pack(stage, s, p);
  uint64_t seed = 1;
  for (const TensorId t : operation_of(p.features).inputs) {
    if (const auto fill = fill_of(t)) c.*fill = {.kind = FillKind::kGaussian, .seed = seed++};
  }
  c.env.variant = 0;  // the kernel chooses
  tidy(c);
  return c;
}

Pass run_pass(const Sizes& sizes, const Inputs& inputs, std::span<const int64_t> tokens, PassKind kind,
              const Kernels& kernels) {
  return Running(sizes, tokens, kind, kernels).run(inputs);
}

std::vector<float> scores_of(const Sizes& s, const Problem& p, std::span<const float> q,
                             std::span<const float> k_cmp) {
  const bool packed = p.packed_q.has_value();
  const int64_t group = s.heads_q / s.heads_kv, blocks = s.blocks(packed ? p.seq_q : s.tokens);
  std::vector<float> scores(static_cast<size_t>(p.batch * s.heads_kv * p.seq_q * blocks));
  std::vector<double> sums(static_cast<size_t>(blocks));
  for (int64_t at = 0; at < p.batch * s.heads_kv * p.seq_q; ++at) {
    const int64_t b = at / p.seq_q / s.heads_kv, g = at / p.seq_q % s.heads_kv, i = at % p.seq_q;
    const Lengths lengths = lengths_of(p, b);
    if (i >= lengths.queries) continue;
    const int64_t count = key_range(p, lengths, i).last;
    std::ranges::fill(sums, 0.0);
    for (int64_t h = g * group; h < (g + 1) * group; ++h) {
      const std::vector<double> weights =
          weights_of(p, &q[static_cast<size_t>(((b * s.heads_q + h) * p.seq_q + i) * s.dim)],
                     k_cmp.data() + (b * s.heads_kv + g) * p.seq_k * s.dim, count);
      for (int64_t n = 0; n < count; ++n) {
        for_each_block(p, s.block, n, [&](int64_t j, double share) {
          sums[static_cast<size_t>(j)] += share * weights[static_cast<size_t>(n)];
        });
      }
    }
    const int64_t own = diagonal(p, lengths, i) / s.block;
    for (int64_t j = 0; j < blocks; ++j)
      scores[static_cast<size_t>(at * blocks + j)] =
          j <= own ? static_cast<float>(sums[static_cast<size_t>(j)]) : std::numeric_limits<float>::quiet_NaN();
  }
  return scores;
}

}  // namespace attnfuzz::nsa
