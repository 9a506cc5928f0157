#include "reference/nsa/block_scores.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "reference/call/row_space.h"
#include "reference/call/sequences.h"
#include "reference/gradients/gradient_setup.h"
#include "reference/model/error_cap.h"
#include "reference/nsa/choice.h"
#include "reference/numbers/formats.h"
#include "reference/rows/visibility.h"

namespace attnfuzz {
namespace {

using gradients::Factor;
using gradients::Terms;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Rows of Q or K in double. A row that is not finite is marked, and holds 0 in its place.
struct Vectors {
  Matrix value, size;        // size: |value|, at least least_factor if not 0 (row_terms.h)
  std::vector<double> norm;  // sum |value|
  std::vector<double> most;  // max |value|
  std::vector<bool> finite;

  Vectors(int64_t rows, int64_t columns)
      : value(rows, columns),
        size(rows, columns),
        norm(static_cast<size_t>(rows)),
        most(static_cast<size_t>(rows)),
        finite(static_cast<size_t>(rows)) {}

  void load(int64_t row, int32_t dtype, const attn_tensor& from, int64_t h, const StoredRow& at, double least) {
    const auto n = static_cast<size_t>(row);
    decode_strided(dtype, from.data, offset_of(from, at.entry, h, at.row, 0), from.stride[3], value.cols(),
                   value.row(row).data());
    finite[n] = value.row(row).array().isFinite().all();
    if (!finite[n]) value.row(row).setZero();
    size.row(row) = value.row(row).cwiseAbs();
    norm[n] = size.row(row).sum();
    most[n] = size.row(row).maxCoeff();
    for (double& x : size.row(row)) x = x > 0 ? std::max(x, least) : 0;
  }
};

// The natural LSE of each row of RowSpace with its error. Infinite if it may be anything.
struct OwnLse {
  std::vector<double> value, error;
};

OwnLse recompute(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                 Calibration calibration) {
  attn_plan own = in_any_order(plan);
  own.lse_base = own.lse_dead = 0;
  if (attn_plan* cap = calibration.error_cap ? &*calibration.error_cap : nullptr)
    cap->lse_base = cap->lse_dead = 0;
  const ForwardCall call = compressed_attention_of(problem, host);
  const Reference due = evaluate(call.problem, call.tensors, own, calibration, {}, false);
  const Expected& lse = due[TensorId::kLse];
  OwnLse out = {lse.value, lse.bound};
  for (size_t n = 0; n < out.value.size(); ++n) {
    if (static_cast<Due>(lse.rule[n]) != Due::kNumber) out.value[n] = kInfinity;
  }
  return out;
}

// Scores of the blocks of one query and KV head while they are added up.
struct BlockSums {
  std::vector<double> score, error, size, terms;
  explicit BlockSums(int64_t blocks) {
    for (std::vector<double>* of : {&score, &error, &size, &terms}) of->assign(static_cast<size_t>(blocks), 0);
  }
};

class BlockScores {
 public:
  BlockScores(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
              const Calibration& calibration)
      : p_(problem),
        host_(host),
        sequences_(problem, host),
        model_(make_error_model(problem, plan, calibration)),
        terms_(gradients::make_terms(problem, capped_plan(problem, plan, calibration), model_)),
        log_unit_(plan.lse_base == 2 ? std::numbers::ln2 : 1),
        recomputes_(capped_plan(problem, plan, calibration).saved == ATTN_SAVED_RECOMPUTED),
        group_(problem.heads_kv > 0 ? problem.heads_q / problem.heads_kv : 0),
        rows_(problem.batch, problem.heads_kv, problem.seq_q) {
    if (recomputes_) own_ = recompute(problem, host, plan, calibration);
    begin_outputs();
  }

  // `rows`: numbers of rows_, ascending.
  Reference take(const std::vector<int64_t>& rows) {
    int64_t b = -1, g = -1;
    for (const int64_t row : rows) {
      const Row at = rows_.at(row);
      if (at.b != b || at.h != g) load_keys(b = at.b, g = at.h);
      add_row(row, at);
    }
    return std::move(due_);
  }

 private:
  void begin_outputs() {
    due_.rows = rows_.count();
    due_.state.assign(static_cast<size_t>(due_.rows), RowState::kSkipped);
    due_.assumptions = model_.assumptions;
    std::erase_if(due_.assumptions, [this](const Assumption& one) {
      using enum Assumption::Part;
      const bool of_lse = one.part == kLog || one.part == kReciprocal || one.part == kKvTile;
      return one.part == kFormatOfPartials || (of_lse && !recomputes_);
    });
    Expected chosen;
    chosen.tensor = TensorId::kChosen;
    chosen.columns = p_.select;
    chosen.rule.assign(static_cast<size_t>(rows_.count() * p_.select), static_cast<uint8_t>(Due::kAnything));
    chosen.integer.assign(chosen.rule.size(), -1);
    due_.always_first = p_.select_first, due_.always_last = p_.select_last;
    due_.candidates.assign(due_.state.size(), 0);
    const int64_t blocks = blocks_of(p_);
    due_.outputs = {std::move(chosen), unset_output(TensorId::kBlockScores, blocks, rows_.count() * blocks,
                                                    format_of(ATTN_F32).overflow)};
  }

  void load_keys(int64_t b, int64_t g) {
    lengths_ = lengths_of(p_, host_, b);
    keys_ = Vectors(lengths_.keys, p_.dim_qk);
    for (int64_t c = 0; c < lengths_.keys; ++c)
      keys_.load(c, p_.dtype, host_.k, g, sequences_.key_row(b, c), model_.least_factor);
  }

  void add_row(int64_t row, const Row& at) {
    const int64_t keys = key_range(p_, lengths_, at.i).last;
    int64_t positions = lengths_.positions;
    if (p_.causal) positions = std::clamp<int64_t>(diagonal(p_, lengths_, at.i) + 1, 0, positions);
    const int64_t candidates = positions / p_.block + (positions % p_.block != 0);
    BlockSums sums(candidates);
    bool bounded = true;
    for (int64_t h = at.h * group_; bounded && h < (at.h + 1) * group_; ++h)
      bounded = keys == 0 || add_head({at.b, h, at.i}, keys, &sums);
    for (int64_t j = 0; bounded && j < candidates; ++j) bounded = write_score(row, j, sums);
    const RowState state = !bounded          ? RowState::kUnconstrained
                           : candidates == 0 ? RowState::kDead
                                             : RowState::kBounded;
    due_.state[static_cast<size_t>(row)] = state;
    due_.candidates[static_cast<size_t>(row)] = candidates;
    ++due_.sampled;
    due_.dead += state == RowState::kDead;
    due_.unconstrained += !bounded;
    const int64_t blocks = due_[TensorId::kBlockScores].columns;
    if (!bounded && blocks > 0) due_[TensorId::kBlockScores].fill_row(row, Due::kAnything, 0, kInfinity);
    if (!bounded) sums = BlockSums(candidates);
    Expected& chosen = due_[TensorId::kChosen];
    std::fill_n(chosen.rule.begin() + row * p_.select, p_.select, static_cast<uint8_t>(Due::kNumber));
    std::ranges::copy(chosen_blocks(p_, sums.score), chosen.integer.begin() + row * p_.select);
  }

  // Adds the weights of a query head. Returns false if they may be anything.
  bool add_head(const Row& at, int64_t keys, BlockSums* sums) const {
    Vectors query(1, p_.dim_qk);
    query.load(0, p_.dtype, host_.q, at.h, sequences_.query_row(at.b, at.i), model_.least_factor);
    const auto [lse, lse_error] = lse_of(at, keys);
    if (!query.finite[0] || !std::isfinite(lse) || !std::isfinite(lse_error)) return false;
    const Eigen::VectorXd dot = keys_.value.topRows(keys) * query.value.row(0).transpose(),
                          size = keys_.size.topRows(keys) * query.size.row(0).transpose();
    for (int64_t c = 0; c < keys; ++c) {
      const auto n = static_cast<size_t>(c);
      if (!keys_.finite[n]) return false;
      gradients::Pair in = {};
      in.dot = dot[c], in.dot_size = size[c], in.factors = query.norm[0] + keys_.norm[n];
      in.most_q = query.most[0];
      in.lse = lse, in.lse_error = lse_error;
      const Factor of = gradients::pair(terms_, model_, in);
      if (!of.p_bounded) return false;
      add_key(c, of, sums);
    }
    return true;
  }

  struct Lse {
    double value, error;
  };
  Lse lse_of(const Row& at, int64_t keys) const {
    if (!recomputes_) {
      const StoredRow from = sequences_.query_row(at.b, at.i);
      return {decode(ATTN_F32, host_.lse.data, offset_of(host_.lse, from.entry, at.h, from.row, 0)) * log_unit_,
              0};
    }
    // A kernel may divide by its sum instead of subtracting the LSE.
    const auto row = static_cast<size_t>(RowSpace(p_).of(at));
    return {own_.value[row],
            own_.error[row] + 3.01 * kU * std::log(static_cast<double>(keys)) + model_.eps_reciprocal + 4 * kU};
  }

  // Adds a weight to the blocks that its compressed key overlaps.
  void add_key(int64_t c, const Factor& of, BlockSums* sums) const {
    for_each_block(p_, p_.block, c, [&](int64_t j, double m) {
      const auto n = static_cast<size_t>(j);
      if (n >= sums->score.size()) return;
      sums->score[n] += m * of.p;
      sums->error[n] += m * of.p_error;
      sums->size[n] += m * (of.p + of.p_error);
      sums->terms[n] += std::ceil(m);
    });
  }

  // Returns false if the score may be anything.
  bool write_score(int64_t row, int64_t j, const BlockSums& sums) {
    Expected& out = due_[TensorId::kBlockScores];
    const auto n = static_cast<size_t>(j), to = static_cast<size_t>(row * out.columns + j);
    const double terms = sums.terms[n];
    const double addition = model_.tensor_cores ? model_.product_unit + model_.sum_unit : kU;
    const double relative = compound(terms * std::max(addition, kU) + 3 * kU);
    out.value[to] = sums.score[n];
    out.bound[to] = terms == 0 ? 0 : sums.error[n] + relative * sums.size[n] + 2 * terms * kFlush;
    out.rule[to] = static_cast<uint8_t>(Due::kNumber);
    return out.value[to] + out.bound[to] < kOverflow;
  }

  const attn_problem& p_;
  const attn_tensors& host_;
  const Sequences sequences_;
  const ErrorModel model_;
  const Terms terms_;
  const double log_unit_;
  const bool recomputes_;
  const int64_t group_;
  const RowSpace rows_;  // of lists
  OwnLse own_;
  Reference due_;
  // These belong to the batch entry and the KV head that are being evaluated.
  Lengths lengths_;
  Vectors keys_{0, 0};
};

std::string digits(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", x);
  return text;
}

// "block 7 in place 2": of a list, counted from 0.
std::string block_at(int64_t block, int64_t place) {
  return "block " + std::to_string(block) + " in place " + std::to_string(place);
}

}  // namespace

ForwardCall compressed_attention_of(const attn_problem& problem, const attn_tensors& tensors) {
  ForwardCall call = {problem, tensors};
  attn_problem& p = call.problem;
  p.features = (p.features & ~ATTN_FEATURE_NSA_SCORE) | ATTN_FEATURE_KEY_STEP;
  p.block = p.select = p.select_first = p.select_last = 0;
  call.tensors.v = tensors.k;  // only the LSE is used, so V may be any tensor: dim_v is 1
  return call;
}

Reference evaluate_block_scores(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                                const Calibration& calibration, RowSample sample, bool) {
  require_known(kBlockScoresKnow, problem.features);
  attn_problem lists = problem;
  lists.heads_q = problem.heads_kv;
  std::vector<int64_t> rows = sampled_rows(lists, host, plan.tile_q, sample);
  const std::vector<int64_t> absent = take_absent(lists, host, &rows);
  Reference due = BlockScores(problem, host, plan, calibration).take(rows);
  for (const int64_t row : absent) due.state[static_cast<size_t>(row)] = RowState::kAbsent;
  return due;
}

std::string objection_to_choice(const Reference& due, int64_t row, std::span<const int64_t> list) {
  return objection_to_choice(due, row, list, {});
}

std::string objection_to_choice(const Reference& due, int64_t row, std::span<const int64_t> list,
                                std::span<const double> slack) {
  const Expected& scores = due[TensorId::kBlockScores];
  const auto at = [&](int64_t j) { return static_cast<size_t>(row * scores.columns + j); };
  const int64_t candidates = due.candidates[static_cast<size_t>(row)];
  const bool scored = due.state[static_cast<size_t>(row)] != RowState::kUnconstrained;
  const int64_t wanted = std::min<int64_t>(std::ssize(list), candidates);
  const std::string of_candidates = " of " + std::to_string(candidates) + " candidates";
  std::vector<int64_t> place(static_cast<size_t>(candidates), -1);  // in the list; -1: it is not there
  int64_t count = 0;
  for (int64_t n = 0; n < std::ssize(list); ++n) {
    const int64_t j = list[static_cast<size_t>(n)];
    if (j == -1) continue;
    if (j < 0 || j >= candidates) return "names " + block_at(j, n) + ", which is none" + of_candidates;
    int64_t& at = place[static_cast<size_t>(j)];
    if (at >= 0) return "names " + block_at(j, n) + " again, after place " + std::to_string(at);
    at = n;
    ++count;
  }
  if (count != wanted)
    return "names " + std::to_string(count) + of_candidates + ", must name " + std::to_string(wanted);
  if (wanted == candidates) return "";
  int64_t least = -1, most = -1;  // the chosen block that may score least, the other block that may score most
  const auto bound = [&](int64_t j) {
    return scores.bound[at(j)] + (slack.empty() ? 0 : slack[static_cast<size_t>(j)]);
  };
  const auto high = [&](int64_t j) { return scores.value[at(j)] + bound(j); };
  const auto low = [&](int64_t j) { return scores.value[at(j)] - bound(j); };
  for (int64_t j = 0; j < candidates; ++j) {
    const bool forced = j < due.always_first || j >= candidates - due.always_last,
               taken = place[static_cast<size_t>(j)] >= 0;
    if (forced && !taken) return "lacks block " + std::to_string(j) + ", which is always chosen";
    if (!scored || forced) continue;
    if (taken && (least < 0 || high(j) < high(least))) least = j;
    if (!taken && (most < 0 || low(j) > low(most))) most = j;
  }
  if (least < 0 || most < 0 || high(least) >= low(most)) return "";
  return "names " + block_at(least, place[static_cast<size_t>(least)]) + ", whose score is at most " +
         digits(high(least)) + ", and not block " + std::to_string(most) + ", whose score is at least " +
         digits(low(most));
}

}  // namespace attnfuzz
