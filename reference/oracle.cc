#include "reference/oracle.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>

#include "reference/call/sequences.h"
#include "reference/model/error_cap.h"
#include "reference/numbers/formats.h"
#include "reference/rows/kv_scales.h"
#include "reference/rows/operands.h"
#include "reference/rows/rounded_p.h"
#include "reference/rows/row_terms.h"
#include "reference/rows/scores.h"
#include "reference/rows/sinks.h"
#include "reference/rows/slopes.h"
#include "reference/rows/visibility.h"
#include "reference/rows/weighted_mean.h"
#include "reference/semantics.h"

namespace attnfuzz {
namespace {

Reference empty_reference(const attn_problem& problem, const ErrorModel& model, bool exact) {
  Reference out;
  out.rows = RowSpace(problem).count();
  out.state.assign(static_cast<size_t>(out.rows), RowState::kSkipped);
  for (const TensorId tensor : {TensorId::kO, TensorId::kLse}) {
    Expected& expected = out.outputs.emplace_back();
    expected.tensor = tensor;
    expected.columns = shape_of(spec_of(tensor), problem)[3];
    expected.logarithm = tensor == TensorId::kLse;
    if (expected.logarithm) expected.unit = model.log_unit, expected.overflow = model.log_overflow;
    const auto elements = static_cast<size_t>(out.rows * expected.columns);
    expected.value.reserve(elements);
    expected.bound.reserve(elements);
    expected.rule.reserve(elements);
    if (exact && tensor == TensorId::kO && model.p_predicted != ATTN_NONE) expected.exact.reserve(elements);
  }
  out[TensorId::kO].overflow = output_overflow(model);
  out.assumptions = model.assumptions;
  out.o_scatter.assign(out.state.size(), 1);
  out.lse_scatter.assign(out.state.size(), 1);
  return out;
}

// Extends the outputs to `rows` rows. The new rows count as not evaluated. A block's rows are extended right before
// they are evaluated, while they are in the cache.
void extend(int64_t rows, Reference* out) {
  for (Expected& expected : out->outputs) {
    const auto elements = static_cast<size_t>(rows * expected.columns);
    if (elements <= expected.value.size()) continue;
    expected.value.resize(elements, expected.logarithm ? -kInfinity : 0);
    expected.bound.resize(elements);
    expected.rule.resize(elements, static_cast<uint8_t>(Due::kAnything));
    if (expected.exact.capacity() > 0) expected.exact.resize(elements);
  }
}

// g_t of each tile, in order: what its products may add to the accumulator's error. Returns the sum.
double tile_costs(const ErrorModel& model, const TileWalk& walk, std::span<const int64_t> keys, int64_t first,
                  std::vector<TileCost>* costs) {
  double sum = 0;
  costs->clear();
  for (const TileRun& run : walk.runs) {
    const int64_t tile = (first + keys[static_cast<size_t>(run.begin)]) / model.tile_k;
    int64_t blocks = 0;
    // Blocks of the mma are counted from the tile's first key.
    for (int64_t k = run.begin, border = tile * model.tile_k; k < run.end; ++k) {
      const int64_t key = first + keys[static_cast<size_t>(k)];
      if (k > run.begin && key < border) continue;
      border = key + model.mma_block - (key - tile * model.tile_k) % model.mma_block;
      ++blocks;
    }
    const double products = static_cast<double>(run.end - run.begin);
    const double cost = products * model.product_unit + static_cast<double>(blocks) * model.sum_unit;
    costs->push_back({tile, run.begin, run.end, cost});
    sum += cost;
  }
  return sum;
}

// The number of rows that are evaluated together. The product loops keep 6 or 12 in registers (products.cc).
constexpr size_t kBlockRows = 12;

// One row of a block.
struct BlockRow {
  int64_t row;
  Row at;
  std::span<const int64_t> keys;  // visible keys, counted from Operands::first
  std::vector<int64_t> own_keys;  // used if the row does not see all keys of a range
  std::vector<double> q, q_size, bias;
  Buffer dot, absolute, running;  // by position in the block
  double shift = 0;               // RowScores::shift
  double sink = -kInfinity;
  std::vector<double> alibi, distance;  // of each key, with slopes
  MeanRow mean;
};

// The working memory of a block. It is kept from block to block, and from one evaluation of a thread to the
// next; allocating it would take a fifth of a small problem's time.
struct Scratch {
  Operands operands;
  std::vector<int64_t> ascending;  // 0, 1, 2, ...: keys of rows that see all of a range
  BlockRow block_rows[kBlockRows];
  KeyBlock block;
  std::vector<std::span<const int64_t>> visible;
  std::vector<QueryRow> queries;
  std::vector<MeanRow*> means;
  Buffer dot, absolute, running, centre;  // for visible keys
  RowScores scores;
  MeanWork work;
  RoundedP rounded;
};
class KeptScratch {
 public:
  explicit KeptScratch(int64_t keys) : keys_(keys), scratch_(std::move(kept())) {
    if (!scratch_) scratch_ = std::make_unique<Scratch>();
  }
  ~KeptScratch() {
    // Scratch of this many keys takes at most seven megabytes.
    constexpr int64_t kMostKeys = 1024;
    if (keys_ <= kMostKeys) kept() = std::move(scratch_);
  }
  Scratch& operator*() { return *scratch_; }

 private:
  static std::unique_ptr<Scratch>& kept() {
    static thread_local std::unique_ptr<Scratch> scratch;
    return scratch;
  }
  const int64_t keys_;
  std::unique_ptr<Scratch> scratch_;
};

// Evaluates rows in blocks.
class Evaluator {
 public:
  Evaluator(const attn_problem& problem, const attn_tensors& tensors, const ErrorModel& model, int64_t first,
            int64_t last, bool exact)
      : problem_(problem),
        tensors_(tensors),
        general_(model),
        of_group_(model.narrow ? model : ErrorModel{}),
        model_(model.narrow ? of_group_ : model),
        first_(first),
        last_(last),
        holes_(has_holes(problem)),
        sequences_(problem, tensors),
        kept_(last - first),
        out_(empty_reference(problem, model, exact)) {}

  // Evaluates rows of one (batch, KV head) together.
  void rows(std::span<const int64_t> rows) {
    const RowSpace space(problem_);
    const int64_t group = problem_.heads_q / std::max<int64_t>(problem_.heads_kv, 1);
    for (size_t next = 0; next < rows.size();) {
      const Row at = space.at(rows[next]);
      load_group(at.b, at.h / group);
      live_ = 0;
      for (; next < rows.size() && live_ < kBlockRows; ++next) {
        const Row here = space.at(rows[next]);
        if (here.b != at.b || here.h / group != g_) break;
        extend(rows[next] + 1, &out_);
        if (load_row(rows[next], here)) ++live_;
      }
      evaluate_block(std::span(scratch_.block_rows).first(live_));
    }
  }

  Reference take() {
    extend(out_.rows, &out_);
    return std::move(out_);
  }

 private:
  void load_group(int64_t b, int64_t g) {
    if (b == b_ && g == g_) return;
    b_ = b;
    g_ = g;
    lengths_ = lengths_of(problem_, tensors_, b);
    const int64_t last = std::min(last_, lengths_.keys);
    charge_kv_scales(problem_, tensors_, b, g, first_, last, general_, &of_group_);
    load_operands(problem_, tensors_, b, g, first_, last, factors_of(model_), &operands_);
    auto& ascending = scratch_.ascending;
    for (auto next = static_cast<int64_t>(ascending.size()); next < operands_.count; ++next)
      ascending.push_back(next);
  }

  // Lists the keys that a row sees, counted from Operands::first.
  void load_keys(const Row& at, BlockRow* row) {
    if (holes_) {
      row_keys(problem_, tensors_, at.b, at.h, at.i, first_, last_, &row->own_keys);
      for (int64_t& key : row->own_keys) key -= operands_.first;
      row->keys = row->own_keys;
      return;
    }
    const KeyRange range = key_range(problem_, lengths_, at.i);
    const int64_t first = std::max(range.first, first_), last = std::min(range.last, last_);
    row->keys = {};
    if (first < last)
      row->keys = std::span(scratch_.ascending)
                      .subspan(static_cast<size_t>(first - first_), static_cast<size_t>(last - first));
  }

  // Reads a row into the next place of the block. False if the row is done: it sees no key, is absent, or may
  // be anything.
  bool load_row(int64_t number, const Row& at) {
    if (at.i >= lengths_.queries) {
      fill(number, RowState::kAbsent, Due::kAnything);
      return false;
    }
    ++out_.sampled;
    BlockRow& row = scratch_.block_rows[live_];
    load_keys(at, &row);
    row.sink = sink_of(problem_, tensors_, at.h);
    if (std::isnan(row.sink) || row.sink == kInfinity) {
      leave_open(number);
      return false;
    }
    if (row.keys.empty()) {
      end_without_keys(number, row.sink);
      return false;
    }
    row.row = number;
    row.at = at;
    load_bias(&row);
    if (!load_alibi(&row)) {
      leave_open(number);
      return false;
    }
    row.q.resize(static_cast<size_t>(problem_.dim_qk));
    row.q_size.resize(row.q.size());
    const StoredRow stored = sequences_.query_row(at.b, at.i);
    decode_strided(problem_.dtype, tensors_.q.data, offset_of(tensors_.q, stored.entry, at.h, stored.row, 0),
                   tensors_.q.stride[3], problem_.dim_qk, row.q.data());
    for (size_t t = 0; t < row.q.size(); ++t) row.q_size[t] = std::abs(row.q[t]);
    return true;
  }

  // O is 0. The LSE is the sink's score, or that of a dead row.
  void end_without_keys(int64_t number, double sink) {
    o_.fill_row(number, Due::kNumber, 0, 0);
    if (sink == -kInfinity) {
      out_.state[static_cast<size_t>(number)] = RowState::kDead;
      ++out_.dead;
      lse_.fill_row(number, model_.any_dead_lse ? Due::kAnything : Due::kNumber, model_.dead_lse, 0);
      return;
    }
    out_.state[static_cast<size_t>(number)] = RowState::kBounded;
    lse_.fill_row(number, Due::kNumber, sink / model_.log_unit, lone_sink_bound(model_, sink) / model_.log_unit);
  }

  void load_bias(BlockRow* row) {
    row->bias.clear();
    if (problem_.bias_dtype == ATTN_NONE) return;
    row->bias.resize(row->keys.size());
    const std::span<const int64_t> keys = row->keys;
    // Decodes runs of neighbours together.
    for (size_t k = 0, end; k < keys.size(); k = end) {
      for (end = k + 1; end < keys.size() && keys[end] == keys[end - 1] + 1; ++end) {
      }
      decode_strided(problem_.bias_dtype, tensors_.bias.data,
                     offset_of(tensors_.bias, row->at.b, row->at.h, row->at.i, operands_.first + keys[k]),
                     tensors_.bias.stride[3], static_cast<int64_t>(end - k), &row->bias[k]);
    }
  }

  // False if the slope is not finite.
  bool load_alibi(BlockRow* row) {
    row->alibi.clear();
    row->distance.clear();
    if (!problem_.has_alibi) return true;
    const double slope = slope_of(problem_, tensors_, row->at.b, row->at.h);
    for (const int64_t key : row->keys) {
      const int64_t j = operands_.first + key;
      row->distance.push_back(static_cast<double>(distance(problem_, lengths_, row->at.i, j)));
      row->alibi.push_back(alibi(problem_, slope, lengths_, row->at.i, j));
    }
    return std::isfinite(slope);
  }

  void evaluate_block(std::span<BlockRow> rows) {
    if (rows.empty()) return;
    scratch_.visible.clear();
    size_t seen = 0;
    for (const BlockRow& row : rows) scratch_.visible.push_back(row.keys), seen += row.keys.size();
    make_key_block(model_, operands_.first, operands_.count, scratch_.visible, &block_);
    // Rows that see different keys share too little, so they are split.
    const auto wasted = static_cast<size_t>(block_.positions() - kLanes);
    if (rows.size() > 1 && 4 * seen < rows.size() * wasted) {
      const size_t half = rows.size() / 2;
      evaluate_block(rows.first(half));
      return evaluate_block(rows.subspan(half));
    }
    scratch_.queries.clear();
    for (BlockRow& row : rows) {
      for (Buffer* buffer : {&row.dot, &row.absolute, &row.running})
        if (static_cast<int64_t>(buffer->size()) < block_.positions())
          buffer->resize(static_cast<size_t>(block_.positions()));
      scratch_.queries.push_back(
          {row.q.data(), row.q_size.data(), row.dot.data(), row.absolute.data(), row.running.data()});
    }
    score_products(operands_, block_.panels, scratch_.queries);
    scratch_.means.clear();
    for (BlockRow& row : rows)
      if (begin_row(&row)) scratch_.means.push_back(&row.mean);
    finish_means(block_, operands_.values, scratch_.means);
    for (const BlockRow& row : rows)
      if (out_.state[static_cast<size_t>(row.row)] == RowState::kBounded) end_row(row);
  }

  // Computes scores and weights. False if the row is done, because it must be NaN or may be anything.
  bool begin_row(BlockRow* row) {
    const auto n = static_cast<int64_t>(row->keys.size());
    MeanRow& mean = row->mean;
    mean.keys = row->keys;
    block_.place(mean.keys, &mean.places);
    const ScoreInput input{row->q.data(),
                           purity_of(row->q.data(), problem_.dim_qk),
                           row->keys.data(),
                           n,
                           row->bias.empty() ? nullptr : row->bias.data(),
                           mean.places.gather(row->dot.data(), &scratch_.dot),
                           mean.places.gather(row->absolute.data(), &scratch_.absolute),
                           mean.places.gather(row->running.data(), &scratch_.running),
                           row->sink,
                           row->alibi.empty() ? nullptr : row->alibi.data(),
                           row->distance.data()};
    switch (row_scores(model_, operands_, input, &scores_)) {
      case ScoreState::kNaN:
        fill(row->row, RowState::kNaN, Due::kMustBeNaN);
        return false;
      case ScoreState::kUnconstrained:
        leave_open(row->row);
        return false;
      case ScoreState::kBounded:
        break;
    }
    row->shift = scores_.shift;
    const double all_costs = tile_costs(model_, scores_.walk, mean.keys, operands_.first, &mean.costs);
    mean.terms =
        mean_terms(model_, {scores_.walk.rescales, scores_.sum_gamma, scores_.misplaced, scores_.largest_delta},
                   all_costs);
    rounded_.centre = mean.places.place_for(block_.positions(), &mean.centre, &scratch_.centre);
    const bool sink = row->sink != -kInfinity;
    const bool rounded = !sink && model_.in_order() && round_p(model_, scores_, n, &rounded_);
    const auto at = static_cast<size_t>(row->row * o_.columns);
    std::fill_n(&o_.rule[at], o_.columns, static_cast<uint8_t>(Due::kNumber));
    mean.o = &o_.value[at];
    mean.o_bound = &o_.bound[at];
    mean.rule = &o_.rule[at];
    mean.exact = o_.exact.empty() ? nullptr : &o_.exact[at];
    begin_mean(block_, operands_.values,
               {scores_.x.data(), scores_.e.data(), scores_.weight.data(), scores_.largest, scores_.sum,
                scores_.largest_e, sink, row->sink, scores_.sink_weight, scores_.sink_e},
               rounded ? &rounded_ : nullptr, &scratch_.work, &mean);
    out_.state[static_cast<size_t>(row->row)] = RowState::kBounded;
    return true;
  }

  void end_row(const BlockRow& row) {
    const MeanResult& result = row.mean.result;
    const double lse = result.lse + row.shift,
                 bound = row.shift == 0 ? result.lse_bound : lse_bound_at(result.lse_bound, row.shift, lse);
    lse_.fill_row(row.row, Due::kNumber, lse / model_.log_unit, bound / model_.log_unit);
    out_.o_scatter[static_cast<size_t>(row.row)] = static_cast<float>(result.o_scatter);
    out_.lse_scatter[static_cast<size_t>(row.row)] = static_cast<float>(result.lse_scatter);
    if (!result.informative) out_.state[static_cast<size_t>(row.row)] = RowState::kUninformative;
    out_.uninformative += !result.informative;
    const bool anything = mark_non_finite(row) || result.unconstrained_column;
    out_.unconstrained += anything;
  }

  // Lets any result pass.
  void leave_open(int64_t row) {
    ++out_.unconstrained;
    fill(row, RowState::kUnconstrained, Due::kAnything);
  }

  void fill(int64_t row, RowState state, Due column) {
    out_.state[static_cast<size_t>(row)] = state;
    for (Expected& output : out_.outputs) output.fill_row(row, column, 0, kInfinity);
  }

  // Marks columns with values that are not finite. True if a visible infinity left a column unconstrained.
  bool mark_non_finite(const BlockRow& row) {
    bool anything = false;
    size_t next = 0;
    for (const NonFinite& one : operands_.values.non_finite) {
      while (next < row.keys.size() && row.keys[next] < one.key) ++next;
      const bool visible = next < row.keys.size() && row.keys[next] == one.key;
      if (!visible && model_.isolates_masked_nan) continue;
      const auto at = static_cast<size_t>(row.row * o_.columns + one.column);
      if (o_.rule[at] == static_cast<uint8_t>(Due::kMustBeNaN)) continue;
      const bool must = visible && one.nan;
      o_.rule[at] = static_cast<uint8_t>(must ? Due::kMustBeNaN : Due::kAnything);
      o_.bound[at] = kInfinity;
      anything = anything || (visible && !must);
    }
    return anything;
  }

  const attn_problem& problem_;
  const attn_tensors& tensors_;
  const ErrorModel& general_;
  ErrorModel of_group_;  // of 8-bit keys: `general_` with the charges for the scales of one KV head
  const ErrorModel& model_;
  const int64_t first_, last_;
  const bool holes_;  // a mask, a bias or a list may hide keys within a range
  const Sequences sequences_;
  int64_t b_ = -1, g_ = -1;
  Lengths lengths_ = {};
  size_t live_ = 0;
  KeptScratch kept_;
  Scratch& scratch_ = *kept_;
  Operands& operands_ = scratch_.operands;
  KeyBlock& block_ = scratch_.block;
  RowScores& scores_ = scratch_.scores;
  RoundedP& rounded_ = scratch_.rounded;
  Reference out_;
  Expected& o_ = out_[TensorId::kO];
  Expected& lse_ = out_[TensorId::kLse];
};

}  // namespace

Reference evaluate_keys(const attn_problem& problem, const attn_tensors& host, const ErrorModel& model,
                        const std::vector<int64_t>& rows, int64_t first, int64_t last, bool exact) {
  require_known(kOracleKnows, problem.features);
  Evaluator evaluator(problem, host, model, first, last, exact);
  evaluator.rows(rows);
  return evaluator.take();
}

Reference evaluate_visible(const attn_problem& problem, const attn_tensors& host, const ErrorModel& model,
                           const std::vector<int64_t>& rows, bool exact) {
  Evaluator evaluator(problem, host, model, 0, problem.seq_k, exact);
  evaluator.rows(rows);
  return evaluator.take();
}

Reference evaluate(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                   const Calibration& calibration, RowSample sample, bool exact) {
  const ErrorModel model = make_error_model(problem, plan, calibration);
  const std::vector<int64_t> rows = sampled_rows(problem, host, plan.tile_q, sample);
  Reference out = evaluate_keys(problem, host, model, rows, 0, problem.seq_k, exact);
  if (problem.has_sink && capped_plan(problem, plan, calibration).lse_sink) {
    Reference apart = evaluate_keys(without_sinks(problem), host, model, rows, 0, problem.seq_k);
    charge_sinks(problem, host, model, &apart);
    out[TensorId::kLse] = std::move(apart[TensorId::kLse]);
  }
  return out;
}

}  // namespace attnfuzz
