#include "properties/reduce/canonical_cases.h"

#include <algorithm>
#include <functional>
#include <span>

#include "properties/case/codec/as_contract.h"
#include "properties/case/features/cost.h"
#include "properties/case/features/feature.h"
#include "properties/reduce/candidates.h"

namespace attnfuzz {
namespace {

constexpr int64_t kRowsOfWarp = 16;  // rows of a query tile that one warp has, as mma arranges them
constexpr int64_t kRowsOfLane = 8;   // distance between two rows of one lane

using Form = std::function<void(Case&)>;

// Fills for scores that differ from key to key with equal values; then values that tell keys apart.
std::vector<Data> all_data() {
  const Fill one;
  std::vector<Data> all(regimes().begin(), regimes().end());
  for (const FillKind kind : {FillKind::kOneHot, FillKind::kSmallInt, FillKind::kPosition, FillKind::kUniform,
                              FillKind::kGaussian, FillKind::kBlocks}) {
    for (const int exponent : {0, 4})
      all.push_back({fill_of(FillKind::kConstant, exponent), fill_of(kind), one});
  }
  // Two values whose sum exceeds fp16.
  all.push_back({one, one, fill_of(FillKind::kConstant, 15)});
  for (const FillKind kind : {FillKind::kSmallInt, FillKind::kPosition, FillKind::kGaussian}) {
    all.push_back({fill_of(kind), fill_of(kind), one});
    all.push_back({one, one, fill_of(kind)});
  }
  return all;
}

// Random scores of one column. Some seed has its largest score in a given place, for instance in the last
// tile.
std::vector<Data> random_scores() {
  constexpr uint64_t kSeeds = 32;
  const Fill one;
  std::vector<Data> all;
  for (const FillKind kind :
       {FillKind::kSmallInt, FillKind::kUniform, FillKind::kNegative, FillKind::kGaussian, FillKind::kBlocks}) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      Fill k = fill_of(kind);
      k.seed = seed;
      all.push_back({fill_of(FillKind::kConstant, 4), k, one});
    }
  }
  return all;
}

// Scores of one column that lie hundreds apart, so that one of two splits hardly counts.
std::vector<Data> far_apart() {
  constexpr uint64_t kSeeds = 8;
  std::vector<Data> all;
  for (const FillKind kind : {FillKind::kUniform, FillKind::kNegative}) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      Fill k = fill_of(kind, 8);
      k.seed = seed;
      all.push_back({Fill{}, k, fill_of(FillKind::kZero)});
    }
  }
  return all;
}

// Scores that differ from row to row and from key to key, each by its own fill.
std::vector<Data> by_row_and_key(FillKind v, std::initializer_list<int> exponents) {
  constexpr FillKind kKinds[] = {FillKind::kConstant, FillKind::kOneHot,   FillKind::kSmallInt,
                                 FillKind::kPosition, FillKind::kSameRows, FillKind::kUniform,
                                 FillKind::kGaussian};
  std::vector<Data> all;
  for (const FillKind q : kKinds) {
    for (const FillKind k : kKinds) {
      for (const int exponent : exponents) all.push_back({fill_of(q), fill_of(k, exponent), fill_of(v)});
    }
  }
  return all;
}

// Fills that suffice to see a misread feature: nothing distinct, keys distinct by value, and keys distinct
// by score as well.
std::vector<Data> few_data() {
  const Fill one;
  return {{one, one, one}, {one, one, fill_of(FillKind::kPosition)}, regimes()[1]};
}

// The canonical forms of each feature.
std::vector<Form> forms(const Borders& tiles) {
  std::vector<Form> all;
  for (const Feature* feature : all_features()) feature->canonical_seeds(tiles.tile_k, all);
  return all;
}

// False if the case asks for features that the kernel lacks: trying the case would only cost an evaluation. The
// features of the found case are always allowed.
bool may_be_taken(const CandidateBase& base, Case c) {
  tidy(c);
  return (problem_of(c.problem).features & ~(base.known | base.features)) == 0;
}

// The first key of the second tile has a larger score, by little or by much. A row's maximum moves there
// from a tile with equal scores.
std::vector<Case> late_maxima(const Case& c, int64_t tile_k) {
  std::vector<Case> all;
  for (const int64_t splits : {0, 2}) {
    for (const int exponent : {0, 2, 4, 7}) {
      for (const FillKind v : {FillKind::kZero, FillKind::kConstant}) {
        Case late = with_data(c, {Fill{}, fill_of(FillKind::kZero), fill_of(v)});
        late.problem.num_splits = splits;
        const auto bits = static_cast<uint32_t>((15 + exponent) << 10);  // 2^exponent in fp16
        late.planted = {{.tensor = TensorId::kK, .s = tile_k, .bits = bits}};
        all.push_back(std::move(late));
      }
    }
  }
  return all;
}

// One tensor that starts at an offset, or whose rows have a gap. A kernel that copies 8 elements at once
// checks either only if there are 8 columns.
std::vector<Form> odd_layouts() {
  std::vector<Form> all;
  for (const TensorId t : kMatrixTensors) {
    for (int64_t TensorLayout::* part : {&TensorLayout::offset, &TensorLayout::row_gap}) {
      all.push_back([=](Case& c) {
        c.layout[static_cast<size_t>(t)].*part = 1;
        int64_t& dim = spec_of(t).shape[3] == Size::kDimQk ? c.problem.dim_qk : c.problem.dim_v;
        dim = std::max<int64_t>(dim, 8);
      });
    }
  }
  return all;
}

Case empty_case(const CandidateBase& base) {
  Case c;
  c.build_kind = base.build_kind;
  c.problem.features = base.features;
  c.env.variant = base.variant;
  return c;
}

}  // namespace

bool find_base(Search& s, CandidateBase& base) {
  Case c = empty_case(base);
  for (const int64_t dim : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}) {
    c.problem.dim_qk = c.problem.dim_v = dim;
    Verdict verdict;
    if (s.ask(c, &verdict) == Search::Answer::kRefused) continue;
    base.least_dim = dim;
    if (verdict.plan.tile_q > 0) base.tiles.tile_q = verdict.plan.tile_q;
    if (verdict.plan.tile_k > 0) base.tiles.tile_k = verdict.plan.tile_k;
    return !s.out_of_time();
  }
  return false;
}

std::vector<Case> canonical_cases(const CandidateBase& base, const std::vector<int64_t>& below, size_t limit) {
  Candidates candidates(below);
  const std::vector<Form> features = forms(base.tiles), layouts = odd_layouts();
  const std::vector<Data> few = few_data(), all = all_data(), random = random_scores();
  const int64_t tile_k = base.tiles.tile_k;
  for (const int64_t seq_q : {int64_t{1}, int64_t{2}, kRowsOfWarp + 1, base.tiles.tile_q + 1}) {
    for (const int64_t seq_k : {int64_t{1}, int64_t{2}, tile_k - 1, tile_k, tile_k + 1, 2 * tile_k + 1}) {
      Case c = empty_case(base);
      c.problem.seq_q = seq_q;
      c.problem.seq_k = seq_k;
      c.problem.dim_qk = c.problem.dim_v = base.least_dim;
      for (const Form& form : features) {
        Case with = c;
        form(with);
        if (!may_be_taken(base, with)) continue;
        candidates.add(with, seq_q == kRowsOfWarp + 1 ? std::span(few).first(1) : few);
      }
      for (const Form& form : layouts) {
        if (seq_q + seq_k > 3) break;
        Case with = c;
        form(with);
        candidates.add(with, std::span(few).first(1));
      }
      if (seq_q == 1 && seq_k == tile_k + 1) {
        candidates.add(c, random);
        Case split = c;
        split.problem.num_splits = 2;
        candidates.add(split, far_apart());
        candidates.add(split, by_row_and_key(FillKind::kZero, {0, 4, 8}));
        for (const Case& late : late_maxima(c, tile_k)) candidates.add(late);
      }
      // Faults that depend on values show with one query, and with keys within or beyond a tile. At other
      // sizes, fills would only cost evaluations.
      if (seq_q == 2 || seq_q == kRowsOfWarp + 1 || seq_k == tile_k - 1 || seq_k == tile_k) continue;
      for (const int64_t dim : {base.least_dim, int64_t{2}, int64_t{8}, int64_t{64}}) {
        if (dim < base.least_dim) continue;
        c.problem.dim_qk = c.problem.dim_v = dim;
        candidates.add(c, all);
      }
    }
  }
  // A row and the next row of its lane, in two tiles, to show state that one of them keeps for both.
  Case rows;
  rows.build_kind = base.build_kind;
  rows.problem.features = base.features;
  rows.env.variant = base.variant;
  rows.problem.seq_q = kRowsOfLane + 1;
  rows.problem.seq_k = tile_k + 1;
  rows.problem.dim_qk = rows.problem.dim_v = base.least_dim;
  candidates.add(rows, by_row_and_key(FillKind::kConstant, {0}));
  return candidates.take(limit);
}

std::vector<Case> exchanges(const CandidateBase& base, const Case& best, size_t limit) {
  Candidates candidates(complexity(best));
  std::vector<Data> data = few_data();
  data.push_back({best.q, best.k, best.v});
  const Problem& p = best.problem;
  std::vector<Form> all = forms(base.tiles);
  for (size_t t = 0; t < kTensorCount; ++t) {
    const TensorLayout& is = best.layout[t];
    const bool once = stored_once(best, static_cast<TensorId>(t)) != Once{};
    if (is == TensorLayout{} && !once) continue;
    if (once || is.scattered() || is.backwards != 0)
      all.push_back([=](Case& c) { c.layout[t].order = {0, 2, 1}; });
    for (int64_t TensorLayout::* part : {&TensorLayout::row_gap, &TensorLayout::spread}) {
      // An offset of one element misaligns every vector; 64 elements keep all aligned.
      for (const int64_t elements : {1, 64}) all.push_back([=](Case& c) { c.layout[t].*part = elements; });
    }
  }
  const std::pair<int64_t, int64_t> lengths[] = {
      {p.seq_q, p.seq_k}, {1, p.seq_k}, {1, 1}, {1, 2}, {2, 1}, {2, 2}, {base.tiles.tile_q + 1, 1}};
  for (const ShrinkToggle& feature : shrink_toggles()) {
    if (!feature.present(best)) continue;
    Case without = best;
    feature.remove(without);
    for (const Form& form : all) {
      for (const auto& [seq_q, seq_k] : lengths) {
        Case c = without;
        c.problem.seq_q = seq_q;
        c.problem.seq_k = seq_k;
        form(c);
        if (!may_be_taken(base, c)) continue;
        candidates.add(c, data);
      }
    }
  }
  return candidates.take(limit);
}

}  // namespace attnfuzz
