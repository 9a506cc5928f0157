#include "properties/reduce/reencode.h"

#include <algorithm>
#include <cmath>

#include "properties/data/recipe.h"
#include "properties/reduce/search.h"
#include "reference/call/row_space.h"

namespace attnfuzz {
namespace {

constexpr int64_t kMostPairs = int64_t{1} << 20;

std::vector<bool> visible_pairs(const Case& c) {
  const Problem& p = c.problem;
  std::vector<bool> pairs;
  const RowSpace rows(p);
  pairs.reserve(static_cast<size_t>(rows.count() * p.seq_k));
  for (int64_t row = 0; row < rows.count(); ++row) {
    const auto [b, h, i] = rows.at(row);
    for (int64_t j = 0; j < p.seq_k; ++j) pairs.push_back(sees(c, b, h, i, j));
  }
  return pairs;
}

// The case without anything that hides keys.
Case bare(Case c) {
  Problem& p = c.problem;
  p.causal = false;
  p.window_left = p.window_right = -1;
  if (!p.slopes) p.align = ATTN_TOP_LEFT;  // a slope counts distances from the diagonal
  p.key_lengths.reset();
  p.mask.reset();
  p.bias.reset();
  return c;
}

// Finds other problems in which exactly the pairs (query, key) of `wanted` are visible; one flag a pair.
class Restater {
 public:
  Restater(const Case& bare_case, const std::vector<bool>& wanted, const Problem& found, bool same_rows,
           std::vector<Reencoding>* all)
      : bare_(bare_case), wanted_(wanted), found_(found), same_rows_(same_rows), all_(*all) {}

  void say() {
    consider(bare_);
    as_windows();
    as_lengths();
    as_patterns();
  }

 private:
  void consider(Case candidate) {
    tidy(candidate);
    if (candidate.problem == found_ || illegal(candidate)) return;
    const auto same = [&](const Reencoding& r) { return r.c == candidate; };
    if (std::ranges::any_of(all_, same)) return;
    if (visible_pairs(candidate) == wanted_) all_.push_back({std::move(candidate), same_rows_});
  }

  void as_windows() {
    const Problem& p = bare_.problem;
    for (const int32_t align : {ATTN_TOP_LEFT, ATTN_BOTTOM_RIGHT}) {
      Case causal = bare_;
      causal.problem.causal = true;
      causal.problem.align = align;
      consider(causal);
      // The difference between the two alignments. Without key lengths, windows shifted by it are equal.
      const int64_t shift = align == ATTN_TOP_LEFT ? p.seq_k - p.seq_q : p.seq_q - p.seq_k;
      const int64_t lefts[] = {-1, 0, 1, found_.window_left, found_.window_left - shift};
      const int64_t rights[] = {-1, 0, shift, found_.window_right, found_.window_right + shift};
      for (const int64_t left : lefts) {
        for (const int64_t right : rights) {
          if (left < 0 && right < 0) continue;
          Case window = bare_;
          window.problem.align = align;
          window.problem.window_left = left;
          window.problem.window_right = right;
          consider(window);
        }
      }
    }
  }

  // Gives each batch entry the length of the last key that any of its queries sees.
  void as_lengths() {
    const Problem& p = bare_.problem;
    Case lengths = bare_;
    lengths.problem.key_lengths.emplace(static_cast<size_t>(p.batch), 0);
    for (size_t at = 0; at < wanted_.size(); ++at) {
      if (!wanted_[at]) continue;
      const int64_t pair = static_cast<int64_t>(at), j = pair % p.seq_k;
      int64_t& length = (*lengths.problem.key_lengths)[static_cast<size_t>(RowSpace(p).at(pair / p.seq_k).b)];
      length = std::max(length, j + 1);
    }
    consider(lengths);
  }

  void as_patterns() {
    std::vector<Pattern> patterns = {{.kind = PatternKind::kAll},
                                     {.kind = PatternKind::kNothing},
                                     {.kind = PatternKind::kFirstKey},
                                     {.kind = PatternKind::kLastKey},
                                     {.kind = PatternKind::kPrefix},
                                     {.kind = PatternKind::kDocuments},
                                     {.kind = PatternKind::kDeadRows},
                                     {.kind = PatternKind::kDeadRows, .parameter = 2},
                                     {.kind = PatternKind::kStripes, .parameter = 2}};
    // A prefix as long as the first query sees.
    const auto row_end = wanted_.begin() + std::min(static_cast<int64_t>(wanted_.size()), bare_.problem.seq_k);
    const int64_t seen = std::find(wanted_.begin(), row_end, false) - wanted_.begin();
    patterns.push_back({.kind = PatternKind::kPrefix, .parameter = std::max<int64_t>(seen, 1)});
    if (found_.mask) patterns.push_back(found_.mask->visible);
    if (found_.bias) patterns.push_back(found_.bias->finite);
    for (const Pattern& pattern : patterns) {
      Case masked = bare_;
      masked.problem.mask = Mask{.visible = pattern, .broadcast = {}};
      consider(masked);
    }
    for (const Pattern& pattern : patterns) {
      Case biased = bare_;
      biased.problem.bias.emplace();
      biased.problem.bias->finite = pattern;
      consider(biased);
    }
  }

  const Case& bare_;
  const std::vector<bool>& wanted_;
  const Problem& found_;
  const bool same_rows_;
  std::vector<Reencoding>& all_;
};

}  // namespace

std::vector<Reencoding> reencodings(const Case& c, const Verdict& verdict) {
  const Problem& p = c.problem;
  std::vector<Reencoding> all;
  // Asks for the number of splits that the kernel chose.
  if (p.num_splits == 0 && verdict.plan.num_splits > 1) {
    Case split = c;
    split.problem.num_splits = verdict.plan.num_splits;
    all.push_back({std::move(split), true});
  }
  const int64_t pairs = RowSpace(p).count() * p.seq_k;
  // NaN beyond a length needs the length, and a bias with values does more than a mask.
  const bool plain_bias = !p.bias || p.bias->kind == BiasKind::kZero;
  if (pairs < 0 || pairs > kMostPairs || !plain_bias || c.nan_beyond_lengths || c.remap != Remap{}) return all;
  if (bare(c) == c) return all;
  const std::vector<bool> wanted = visible_pairs(c);

  const Case all_rows = bare(c);
  Restater(all_rows, wanted, p, true, &all).say();
  if (p.seq_q < 2) return all;
  std::vector<int64_t> rows = {0, 1, p.seq_q - 1};
  if (verdict.where) rows = {verdict.where->q};
  for (const int64_t row : rows) {
    if (row < 0 || row >= p.seq_q) continue;
    std::vector<bool> of_row;
    for (int64_t head = 0; head < p.batch * p.heads_q; ++head) {
      const auto begin = wanted.begin() + (head * p.seq_q + row) * p.seq_k;
      of_row.insert(of_row.end(), begin, begin + p.seq_k);
    }
    Case alone = bare(c);
    alone.problem.seq_q = 1;
    Restater(alone, of_row, p, false, &all).say();
  }
  return all;
}

bool same_error(const Verdict& a, const Verdict& b, bool same_rows) {
  if (a.kind != b.kind || a.call != b.call) return false;
  if (a.fault.has_value() != b.fault.has_value() || a.where.has_value() != b.where.has_value()) return false;
  if (a.fault &&
      (a.fault->kind != b.fault->kind || a.fault->file != b.fault->file || a.fault->line != b.fault->line)) {
    return false;
  }
  if (!a.where) return true;
  const Where &x = *a.where, &y = *b.where;
  if (x.tensor != y.tensor || x.b != y.b || x.h != y.h || x.d != y.d) return false;
  if (same_rows && (x.q != y.q || x.bad != y.bad)) return false;
  if (std::isnan(x.got) || std::isnan(y.got)) return std::isnan(x.got) == std::isnan(y.got);
  if (std::isinf(x.got) || std::isinf(y.got)) return x.got == y.got;
  // Two ways of hiding a key may round differently.
  return std::fabs(x.got - y.got) <=
         0.01 * (std::fabs(x.got) + std::fabs(y.got)) + 4 * std::max(x.bound, y.bound);
}

}  // namespace attnfuzz
