#include "properties/operations/forward/relations/tools.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "properties/case/places/geometry.h"
#include "properties/data/fills.h"
#include "properties/judge/judge.h"
#include "reference/numbers/formats.h"

namespace attnfuzz::relations {

bool any_case(Case&, const KernelInfo&, std::string*) { return true; }

Case variant_of(const Case& base) {
  Case c = base;
  c.calls = {Call{}};
  c.remap.shared_keys =
      std::max(c.remap.shared_keys,
               std::min(shared_keys(base.problem), base.problem.seq_k));  // the variant may have no pages
  return c;
}

uint64_t choice(const Case& c, uint64_t salt) {
  const Problem& p = c.problem;
  return mix(salt, c.q.seed ^ c.k.seed << 1 ^ c.v.seed << 2, static_cast<uint64_t>(p.seq_q) << 32 ^ p.seq_k,
             static_cast<uint64_t>(p.dim_qk) << 32 ^ p.dim_v, static_cast<uint64_t>(p.batch) << 32 ^ p.heads_q);
}

std::vector<int64_t> some_rows(const Case& c, int64_t tile_q, int64_t most) {
  const int64_t rows = RowSpace(c.problem).count();
  std::vector<int64_t> found;
  if (rows <= most) {
    for (int64_t row = 0; row < rows; ++row) found.push_back(row);
    return found;
  }
  found = {0, rows - 1, std::min(tile_q - 1, rows - 1), std::min(tile_q, rows - 1)};
  for (uint64_t n = 0; static_cast<int64_t>(found.size()) < most; ++n) {
    found.push_back(static_cast<int64_t>(choice(c, 100 + n) % static_cast<uint64_t>(rows)));
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

bool agree(Trial& trial, const Run& a, int64_t row_a, const Run& b, int64_t row_b, std::string_view what) {
  return trial.promise_bits(a.plan, b.plan) ? trial.same_bits(a, row_a, b, row_b, what)
                                   : trial.same_within(a, row_a, b, row_b, what);
}

bool all_agree(Trial& trial, const Run& a, const Run& b, std::string_view what) {
  return trial.promise_bits(a.plan, b.plan) ? trial.all_bits(a, b, what) : trial.all_within(a, b, what);
}

bool output_is(Trial& trial, const Run& run, TensorId tensor, int64_t row, int64_t column, double expected,
               double slack, std::string_view what) {
  const Expected& due = run.reference[tensor];
  const int64_t at = row * due.columns + column;
  if (run.reference.state[row] != RowState::kBounded || due.rule[at] != 0 || run[tensor].empty()) return true;
  const double got = run[tensor][at], bound = due.allowance(at) + slack;
  // The overflow rule has judged an infinity already.
  if ((std::isinf(got) && due.overflows()) || std::fabs(got - expected) <= bound) return true;
  Where where = where_is(tensor, run.c.problem, run.plan, row, column);
  where.got = got;
  where.expected = expected;
  where.bound = bound;
  where.bad = where.of = 1;
  trial.fail(Kind::kRelation, std::string(what) + ": " + name_of(where) + " is " + digits(got) + ", must be " +
                                  digits(expected) + " +- " + digits(bound));
  trial.verdict().where = where;
  return false;
}

std::vector<double> input_row(const Case& c, TensorId tensor, const Row& at, int64_t columns) {
  const int32_t dtype = dtype_of(c.problem, tensor);
  const std::array<bool, 4> once = repeated(c, tensor);
  std::vector<uint32_t> bits(static_cast<size_t>(columns));
  recipe_row(c, tensor, at.b, at.h, at.i, bits.data());
  std::vector<double> row(static_cast<size_t>(columns));
  decode_strided(dtype, bits.data(), 0, once[3] ? 0 : 1, columns, row.data());
  for (const Planted& x : planted_at(c)) {
    if (x.tensor == tensor && x.b == (once[0] ? 0 : at.b) && x.h == (once[1] ? 0 : at.h) &&
        x.s == (once[2] ? 0 : at.i))
      row[static_cast<size_t>(x.d)] = decode(dtype, &x.bits, 0);
  }
  return row;
}

bool row_arrives(Trial& trial, const Run& run, TensorId output, int64_t row, TensorId tensor, const Row& from,
                 std::string_view what) {
  const int64_t columns = run.reference[output].columns;
  const std::vector<double> values = input_row(run.c, tensor, from, columns);
  for (int64_t c = 0; c < columns; ++c) {
    const double due = values[static_cast<size_t>(c)];
    if (std::isfinite(due) && !output_is(trial, run, output, row, c, due, 0, what)) return false;
  }
  return true;
}

void drop_planted(Case& c, TensorId tensor) {
  std::erase_if(c.planted, [tensor](const Planted& x) { return x.tensor == tensor; });
}

bool scales_through_sums(const Problem& p, const attn_plan& plan) {
  if (p.dtype != ATTN_F16) return true;
  const bool merges = plan.num_splits > 1 || plan.merges > 1;
  const bool partials = plan.partial_format == ATTN_FORMAT_OF_INPUT ||
                        (merges && plan.partial_format != ATTN_FORMAT_F32 && attends(p.features));
  return !partials && plan.merge_format != ATTN_FORMAT_OF_INPUT;
}

void doubles(Trial& trial, const Run& base, const Run& run, std::string_view what) {
  const std::vector<float>&o = base[TensorId::kO], &twice = run[TensorId::kO];
  const bool exact = scales_through_sums(base.c.problem, base.plan) && trial.promise_bits(base.plan, run.plan);
  constexpr float kSmallest = 0x1p-12f;  // a smaller element may round as a subnormal
  const int64_t columns = base.c.problem.dim_v;
  for (int64_t row = 0; row < base.reference.rows; ++row) {
    if (!trial.same_within(base, row, run, row, std::string(what), 2)) return;
    for (int64_t n = row * columns; exact && n < (row + 1) * columns; ++n) {
      const auto at = static_cast<size_t>(n);
      if (!(std::abs(o[at]) >= kSmallest) || 2 * o[at] == twice[at]) continue;
      trial.fail(Kind::kRelation, std::string(what) + ": o of row " + std::to_string(row) + ", column " +
                                      std::to_string(n % columns) + " must grow by exactly 2");
      return;
    }
  }
}

void drop_non_finite(Case& c) {
  std::erase_if(c.planted, [&c](const Planted& x) {
    const bool bias = x.tensor == TensorId::kBias;
    const int32_t dtype = !bias            ? dtype_of(c.problem, x.tensor)
                          : c.problem.bias ? c.problem.bias->dtype
                                           : ATTN_F32;
    const double value = decode(dtype, &x.bits, 0);
    // A bias of -inf is a mask.
    return !std::isfinite(value) && !(bias && value < 0);
  });
}

void drop_sinks(Case& c) { c.problem.sink.reset(); }

namespace {

void change(Fill& fill) {
  const bool random = fill.kind >= FillKind::kSmallInt && fill.kind != FillKind::kPosition;
  if (!random) fill = {};
  if (!random) fill.kind = FillKind::kGaussian;
  ++fill.seed;
}

}  // namespace

void change_contents(Case& c) {
  Problem& p = c.problem;
  std::vector<Fill Case::*> changed;  // a cache and its new rows have one fill
  for (const TensorSpec& spec : kTensors) {
    const auto fill = fill_of(spec.id);
    if (fill == nullptr || !in_problem(spec, p.features) || std::ranges::count(changed, fill) > 0) continue;
    change(c.*fill);
    changed.push_back(fill);
  }
  if (p.sink) p.sink->kind = SinkKind::kMixed, ++p.sink->seed;
  if (p.slopes) p.slopes->kind = SlopeKind::kUneven, ++p.slopes->seed;
  if (p.kv8) {
    for (KvScales* scales : {&p.kv8->k, &p.kv8->v}) scales->kind = ScaleKind::kUneven, ++scales->seed;
  }
  if (p.selects()) ++p.selection.seed;
  if (p.bias) ++p.bias->seed;
  if (p.mask) ++p.mask->visible.seed;
  for (auto* side : {&p.packed_q, &p.packed_k}) {
    if (*side) std::ranges::reverse((*side)->lengths);
  }
  // The sources of copies change places, unless a page is a source and a target.
  const bool apart = std::ranges::none_of(c.copies, [](const PageCopy& copy) { return copy.from == copy.to; });
  for (size_t n = 1; apart && n < c.copies.size(); ++n) std::swap(c.copies[n - 1].from, c.copies[n].from);
  if (!p.paging || !p.key_lengths) return;
  std::ranges::reverse(*p.key_lengths);  // there are as many pages as before
  ++p.paging->order;
}

void drop_slopes(Case& c) { c.problem.slopes.reset(); }

std::optional<Pair> visible_pair(const Case& c, uint64_t salt) {
  const Problem& p = c.problem;
  const int64_t rows = RowSpace(p).count();
  if (rows == 0 || p.seq_k == 0) return std::nullopt;
  constexpr int64_t kRows = 256, kKeys = 4096;
  const uint64_t first_row = choice(c, salt), first_key = choice(c, salt + 1);
  for (int64_t n = 0; n < std::min(rows, kRows); ++n) {
    const Row at = RowSpace(p).at(static_cast<int64_t>((first_row + n) % static_cast<uint64_t>(rows)));
    for (int64_t m = 0; m < std::min(p.seq_k, kKeys); ++m) {
      const int64_t j = static_cast<int64_t>((first_key + m) % static_cast<uint64_t>(p.seq_k));
      if (sees(c, at.b, at.h, at.i, j)) return Pair{at.b, at.h, at.i, j};
    }
  }
  return std::nullopt;
}

void keep_few_pairs(Case& c, int64_t most) {
  Problem& p = c.problem;
  const auto many = [&] { return p.batch * p.heads_q * p.seq_q * p.seq_k > most; };
  if (many()) p.seq_k = std::min<int64_t>(p.seq_k, 1024);
  if (many()) p.heads_kv = std::min<int64_t>(p.heads_kv, 2), p.heads_q = p.heads_kv;
  if (many() && p.batch > 2) {
    p.batch = 2;
    if (p.key_lengths) p.key_lengths->resize(2);
  }
  if (many()) p.seq_q = std::max<int64_t>(most / (p.batch * p.heads_q * p.seq_k), 1);
  fit_memory(c);
}

void show_everything(Problem& p) {
  p.causal = false;
  p.window_left = p.window_right = -1;
  p.key_lengths.reset();
  p.mask.reset();
  p.bias.reset();
}

bool scales_exactly(const Case& c, TensorId tensor, int k) {
  const Problem& p = c.problem;
  const auto [batch, heads, rows, n] = logical_size(p, tensor);
  constexpr int64_t kMost = int64_t{1} << 22;
  if (batch * heads * rows * n > kMost) return false;
  Case scaled = c;
  (scaled.*fill_of(tensor)).exponent += k;
  const double factor = std::ldexp(1.0, k);
  const int32_t dtype = dtype_of(p, tensor);
  std::vector<uint32_t> bits(n);
  std::vector<double> x(n), y(n);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t s = 0; s < rows; ++s) {
        recipe_row(c, tensor, b, h, s, bits.data());
        decode_strided(dtype, bits.data(), 0, 1, n, x.data());
        recipe_row(scaled, tensor, b, h, s, bits.data());
        decode_strided(dtype, bits.data(), 0, 1, n, y.data());
        bool differs = false;
        for (int64_t d = 0; d < n; ++d) differs |= x[d] * factor != y[d];
        if (differs) return false;
      }
    }
  }
  return true;
}

double score_range(const Case& c) {
  const Problem& p = c.problem;
  const auto largest_norm = [&](TensorId tensor, int64_t heads, int64_t rows) {
    double largest = 0;
    for (int64_t b = 0; b < p.batch; ++b) {
      for (int64_t h = 0; h < heads; ++h) {
        const std::vector<double> values = matrix_at(c, tensor, b, h);
        for (int64_t s = 0; s < rows; ++s) {
          double sum = 0;
          for (int64_t d = 0; d < p.dim_qk; ++d) sum += values[s * p.dim_qk + d] * values[s * p.dim_qk + d];
          if (!std::isnan(sum)) largest = std::max(largest, sum);
        }
      }
    }
    return std::sqrt(largest);
  };
  double bias = 0;
  if (p.bias) {
    const bool small = p.bias->kind == BiasKind::kZero || p.bias->kind == BiasKind::kGaussian;
    bias = small ? 16 : std::numeric_limits<double>::infinity();
  }
  if (p.slopes) bias = std::numeric_limits<double>::infinity();
  return 2 * std::fabs(p.scale) * largest_norm(TensorId::kQ, p.heads_q, p.seq_q) *
             largest_norm(TensorId::kK, p.heads_kv, p.seq_k) +
         bias;
}

}  // namespace attnfuzz::relations
