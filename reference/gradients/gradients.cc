#include "reference/gradients/gradients.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "reference/call/row_space.h"
#include "reference/call/sequences.h"
#include "reference/gradients/gradient_block.h"
#include "reference/gradients/gradient_pairs.h"
#include "reference/gradients/gradient_setup.h"
#include "reference/gradients/gradient_sums.h"
#include "reference/gradients/saved_rows.h"
#include "reference/model/error_cap.h"
#include "reference/numbers/formats.h"
#include "reference/rows/visibility.h"
#include "reference/selected.h"

namespace attnfuzz::gradients {
namespace {

constexpr int64_t kBlockRows = 16;  // rows whose products are computed together

class Gradients {
 public:
  Gradients(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
            const Calibration& calibration, RowSample sample, const ExactRows* exact)
      : p_(problem),
        host_(host),
        model_(error_model(problem, plan, calibration)),
        terms_(make_terms(problem, capped_plan(problem, plan, calibration), model_)),
        tile_q_(std::max<int64_t>(plan.tile_q, 1)),
        tile_k_(std::max<int64_t>(plan.tile_k, 1)),
        sequences_(problem, host),
        saved_(problem, host, plan, calibration, exact, model_, sequences_),
        gathered_((problem.features & ATTN_FEATURE_SELECTED_BACKWARD) != 0),
        wanted_(wanted(problem, host, plan, sample)),
        out_(unset_gradients(problem, host, model_)),
        dbias_(problem, host),
        dsink_(static_cast<size_t>(saved_.sinks ? problem.heads_q : 0)) {}

  Reference take() {
    const int64_t group = p_.heads_kv > 0 ? p_.heads_q / p_.heads_kv : 0;
    for (int64_t b = 0; b < p_.batch; ++b) {
      for (int64_t g = 0; g < p_.heads_kv; ++g) {
        load_keys(b, g);
        count_pairs(b, g, group);
        dk_.clear(length_, p_.dim_qk);
        dv_.clear(length_, p_.dim_v);
        q_columns_.assign(static_cast<size_t>(p_.dim_qk), false);
        dout_columns_.assign(static_cast<size_t>(p_.dim_v), false);
        for (int64_t h = g * group; h < (g + 1) * group; ++h) head(b, h);
        end_keys(b, g);
      }
    }
    if (dbias_.wanted()) dbias_.write(terms_, &out_[TensorId::kDbias]);
    for (size_t h = 0; h < dsink_.size(); ++h)
      gradients::write(dsink_[h].element(kU, kFlush, dsink_[h].terms), h, &out_[TensorId::kDsink]);
    return std::move(out_);
  }

 private:
  void load_keys(int64_t b, int64_t g) {
    length_ = key_length(p_, host_, b);
    k_.resize(length_, p_.dim_qk);
    v_.resize(length_, p_.dim_v);
    queries_ = sequences_.queries.length(b);
    for (int64_t j = 0; j < length_; ++j) {
      k_.load(j, p_.dtype, host_.k, sequences_.key_row(b, j), g, model_.least_factor);
      v_.load(j, p_.dtype, host_.v, sequences_.key_row(b, j), g, model_.least_factor);
    }
    first_key_ = (b * p_.heads_kv + g) * p_.seq_k;
  }

  bool key_wanted(int64_t j) const { return wanted_.keys[static_cast<size_t>(first_key_ + j)]; }

  void count_pairs(int64_t b, int64_t g, int64_t group) {
    pairs_.assign(static_cast<size_t>(length_), {});
    std::vector<int64_t> keys;
    for (int64_t h = g * group; h < (g + 1) * group; ++h) {
      for (int64_t i = 0; i < queries_; ++i) {
        row_keys(p_, host_, b, h, i, 0, length_, &keys);
        const int64_t block = (h - g * group) * (p_.seq_q + 1) + block_of(i, tile_q_, model_.mma_block);
        for (const int64_t j : keys) {
          KeyPairs& of = pairs_[static_cast<size_t>(j)];
          ++of.pairs;
          of.blocks += gathered_ || of.last != block;
          of.last = block;
        }
      }
    }
  }

  void head(int64_t b, int64_t h) {
    head_dk_.clear(length_, p_.dim_qk);
    head_dv_.clear(length_, p_.dim_v);
    for (int64_t i = 0; i < queries_;) {
      block_.queries.clear();
      for (; i < queries_ && static_cast<int64_t>(block_.queries.size()) < kBlockRows; ++i)
        add_query({b, h, i});
      if (block_.queries.empty()) continue;
      load_block();
      multiply();
      for (size_t n = 0; n < block_.queries.size(); ++n) pairs_of(static_cast<int64_t>(n));
      add_to_keys();
      end_queries();
    }
    end_head();
  }

  // Adds a query to the block if any result needs it.
  void add_query(const Row& at) {
    Block::Query query = {};
    query.row = RowSpace(p_).of(at);
    query.at = at;
    query.wanted = wanted_.rows[static_cast<size_t>(query.row)];
    row_keys(p_, host_, at.b, at.h, at.i, 0, length_, &query.keys);
    query.pairs = static_cast<int64_t>(query.keys.size());
    query.blocks = 0;
    int64_t last = -1;
    for (const int64_t j : query.keys) {
      const int64_t block = block_of(j, tile_k_, model_.mma_block);
      query.blocks += gathered_ || block != last;
      last = block;
    }
    // If a kernel computes D by itself, D depends on all keys.
    const bool any =
        query.wanted || std::ranges::any_of(query.keys, [this](int64_t j) { return key_wanted(j); });
    if (!query.wanted && !(saved_.recomputed && (any || !model_.isolates_masked_nan)))
      std::erase_if(query.keys, [this](int64_t j) { return !key_wanted(j); });
    // If the plan does not isolate NaN, a query that sees no key counts, too: its row may be multiplied by 0.
    if (!query.wanted && query.keys.empty() && model_.isolates_masked_nan) return;
    block_.queries.push_back(std::move(query));
  }

  void load_block() {
    const auto rows = static_cast<int64_t>(block_.queries.size());
    block_.q.resize(rows, p_.dim_qk);
    block_.dout.resize(rows, p_.dim_v);
    block_.place.assign(static_cast<size_t>(length_), -1);
    for (int64_t n = 0; n < rows; ++n) {
      Block::Query& query = block_.queries[static_cast<size_t>(n)];
      const StoredRow at = sequences_.query_row(query.at.b, query.at.i);
      block_.q.load(n, p_.dtype, host_.q, at, query.at.h, model_.least_factor);
      block_.dout.load(n, p_.dtype, host_.dout, at, query.at.h, model_.least_factor);
      for (const int64_t j : query.keys) block_.place[static_cast<size_t>(j)] = 0;
      saved_.load(block_.dout, n, block_.q.taint[static_cast<size_t>(n)], &query);
      meet_hidden_keys(query, block_.q.taint[static_cast<size_t>(n)]);
    }
    for (size_t c = 0; c < q_columns_.size(); ++c) q_columns_[c] = q_columns_[c] || block_.q.column[c];
    for (size_t c = 0; c < dout_columns_.size(); ++c)
      dout_columns_[c] = dout_columns_[c] || block_.dout.column[c];
    block_.keys.clear();
    for (int64_t j = 0; j < length_; ++j) {
      if (block_.place[static_cast<size_t>(j)] < 0) continue;
      block_.place[static_cast<size_t>(j)] = static_cast<int64_t>(block_.keys.size());
      block_.keys.push_back(j);
    }
  }

  // A kernel that does not isolate a masked NaN computes dS = P (dP - D) of hidden pairs, too, with P = 0. That
  // is NaN if dP or D is, so dK of every key may be anything. If the LSE is NaN, so is P, and then dV may be
  // anything. With a softcap, dS has a factor that depends on q k.
  void meet_hidden_keys(const Block::Query& query, Taint q_taint) {
    if (query.row_taint != kPure || (p_.softcap != 0 && q_taint != kPure))
      q_columns_.assign(q_columns_.size(), true);
    if (query.lse_taint != kPure) dout_columns_.assign(dout_columns_.size(), true);
  }

  // True if dS = 0 * NaN in the hidden pairs of key j, for the same reason.
  bool makes_hidden_nan(int64_t j) const {
    const auto key = static_cast<size_t>(j);
    return v_.taint[key] != kPure || (p_.softcap != 0 && k_.taint[key] != kPure);
  }

  // Raises D's error to that of a kernel that computes D as in the derivative of a softmax, sum_j P_ij dP_ij.
  void add_errors_of_softmax(int64_t n) {
    Block::Query& query = block_.queries[static_cast<size_t>(n)];
    if (query.taint != kPure) return;
    const double relative = gamma(static_cast<double>(query.keys.size() + 1), kU);
    double error = 0;
    for (const int64_t j : query.keys) {
      const int64_t at = block_.place[static_cast<size_t>(j)];
      Pair in = inputs_of(n, at, j, bias_of(query.at, j));
      in.delta = in.delta_size = in.delta_factors = in.delta_error = in.dlse_apart = 0;
      in.apart = false;
      const Factor of = pair(terms_, model_, in);
      const double size = std::abs(in.grad);
      error += (of.p + of.p_error) * (size + of.grad_error) * (1 + relative) - of.p * size;
    }
    query.gradient_error = std::max(query.gradient_error, error);
    if (!std::isfinite(query.gradient_error) || !std::isfinite(query.lse_error)) query.taint = kFree;
  }

  void multiply() {
    const auto n = static_cast<int64_t>(block_.keys.size()), rows = block_.q.value.rows();
    const std::vector<int64_t>& keys = block_.keys;
    block_.k = k_.value(keys, Eigen::all);
    block_.k_size = k_.size(keys, Eigen::all);
    block_.v = v_.value(keys, Eigen::all);
    block_.v_size = v_.size(keys, Eigen::all);
    block_.dot.noalias() = block_.q.value * block_.k.transpose();
    block_.dot_size.noalias() = block_.q.size * block_.k_size.transpose();
    block_.grad.noalias() = block_.dout.value * block_.v.transpose();
    block_.grad_size.noalias() = block_.dout.size * block_.v_size.transpose();
    for (Matrix* m : {&block_.da, &block_.p, &block_.of_q, &block_.of_k, &block_.of_v}) m->setZero(rows, n);
    block_.s_taint.assign(static_cast<size_t>(rows * n), kPure);
    block_.p_taint.assign(static_cast<size_t>(rows * n), kPure);
  }

  // Computes all pairs of one row of the block.
  void pairs_of(int64_t n) {
    if (saved_.recomputed) add_errors_of_softmax(n);
    Block::Query& query = block_.queries[static_cast<size_t>(n)];
    const double of_row = terms_.sum_error(query.pairs, query.blocks, terms_.dq_adds);
    const auto columns = static_cast<int64_t>(block_.keys.size());
    bool pure = query.taint == kPure;
    for (const int64_t j : query.keys) {
      const int64_t at = block_.place[static_cast<size_t>(j)];
      KeyPairs& key = pairs_[static_cast<size_t>(j)];
      const double bias = bias_of(query.at, j);
      const Taint scores = std::max({block_.q.taint[static_cast<size_t>(n)], k_.taint[static_cast<size_t>(j)],
                                     taint_of(bias), query.lse_taint});
      Taint all = std::max({scores, query.taint, v_.taint[static_cast<size_t>(j)]});
      const Factor of = pair(terms_, model_, inputs_of(n, at, j, bias));
      Taint p_taint = scores;
      if (scores == kPure && !of.p_bounded) p_taint = kFree, all = std::max(all, kFree);
      if (all == kPure && !of.a_bounded) all = kFree;
      if (dbias_.wanted()) add_to_bias(query.at, j, of, all);
      block_.s_taint[static_cast<size_t>(n * columns + at)] = all;
      block_.p_taint[static_cast<size_t>(n * columns + at)] = p_taint;
      const double of_key = terms_.sum_error(key.pairs, key.blocks, terms_.dkv_adds),
                   of_dk = terms_.folded(model_, of_key);
      pure &= all == kPure;
      if (all == kPure) {
        block_.da(n, at) = of.a;
        const double moduli = terms_.raised(std::abs(of.a) + of.a_error);
        query.a += moduli;
        key.a += moduli;
        block_.of_q(n, at) = of.a_error + of_row * moduli;
        block_.of_k(n, at) = of.a_error + of_dk * moduli;
      }
      if (p_taint == kPure) {
        block_.p(n, at) = of.p;
        block_.of_v(n, at) = of.p_error + of_key * terms_.raised(of.p + of.p_error);
        key.p += of.p + of.p_error;
      }
    }
    if (dbias_.wanted() && !model_.isolates_masked_nan) mark_hidden(n);
    if (saved_.sinks) add_to_sink(query);
    // If a pair of the row is not finite, a kernel that recomputes the softmax may have a sum of NaN. A weight
    // of 0 divided by it is NaN, even for keys that the query does not see.
    if (saved_.recomputed && !pure && !model_.isolates_masked_nan) {
      q_columns_.assign(q_columns_.size(), true);
      dout_columns_.assign(dout_columns_.size(), true);
    }
  }

  void add_to_bias(const Row& at, int64_t j, const Factor& of, Taint taint) {
    if (taint == kPure)
      dbias_.add(terms_, model_, at, j, of);
    else
      dbias_.mark(at, j, taint);
  }

  // A kernel may multiply a hidden pair by 0. Then a NaN remains NaN.
  void mark_hidden(int64_t n) {
    const Block::Query& query = block_.queries[static_cast<size_t>(n)];
    const Taint of_row = std::max(
        {query.taint, block_.q.taint[static_cast<size_t>(n)], block_.dout.taint[static_cast<size_t>(n)]});
    size_t next = 0;
    for (int64_t j = 0; j < length_; ++j) {
      if (next < query.keys.size() && query.keys[next] == j) {
        ++next;
      } else if (std::max({of_row, k_.taint[static_cast<size_t>(j)], v_.taint[static_cast<size_t>(j)]}) !=
                 kPure) {
        dbias_.mark(query.at, j, kFree);
      }
    }
  }

  // Adds the query's term of dsink. If it has no sink or sees no key, a NaN in its inputs need not reach dsink.
  void add_to_sink(const Block::Query& query) {
    TermSum& sum = dsink_[static_cast<size_t>(query.at.h)];
    if (query.sink_taint != kPure) {
      sum.mark(std::isinf(query.sink) || query.pairs == 0 ? kFree : query.sink_taint);
      return;
    }
    const SinkTerm term = sink_term(terms_, model_,
                                    {.sink = query.sink,
                                     .lse = query.lse,
                                     .lse_error = query.lse_error,
                                     .delta = query.gradient,
                                     .delta_size = query.gradient_size,
                                     .delta_error = query.gradient_error,
                                     .delta_factors = query.gradient_factors});
    sum.add(term.value, term.error);
    if (!term.bounded) sum.mark(kFree);
  }

  double bias_of(const Row& at, int64_t j) const {
    if (p_.bias_dtype == ATTN_NONE) return 0;
    return decode(p_.bias_dtype, host_.bias.data, offset_of(host_.bias, at.b, at.h, at.i, j));
  }

  // The pair of row n of the block and key j, which is column `at`.
  Pair inputs_of(int64_t n, int64_t at, int64_t j, double bias) const {
    const Block::Query& query = block_.queries[static_cast<size_t>(n)];
    const auto row = static_cast<size_t>(n), key = static_cast<size_t>(j);
    return {.dot = block_.dot(n, at),
            .dot_size = block_.dot_size(n, at),
            .factors = block_.q.norm[row] + k_.norm[key],
            .most_q = block_.q.most[row],
            .bias = std::isfinite(bias) ? bias : 0,
            .lse = query.lse,
            .grad = block_.grad(n, at),
            .grad_size = block_.grad_size(n, at),
            .grad_factors = block_.dout.norm[row] + v_.norm[key],
            .delta = query.gradient,
            .delta_size = query.gradient_size,
            .delta_factors = query.gradient_factors,
            .lse_error = query.lse_error,
            .delta_error = query.gradient_error + (saved_.recomputed && query.dlse != 0
                                                       ? kU * (block_.grad_size(n, at) + query.gradient_size)
                                                       : 0),
            .apart = saved_.apart && (p_.features & ATTN_FEATURE_DLSE) != 0,
            .dlse_apart = saved_.apart ? query.dlse : 0,
            .lse_apart = query.lse_apart,
            .lse_apart_error = query.lse_apart_error};
  }

  void add_to_keys() {
    const Matrix dk = block_.da.transpose() * block_.q.value,
                 dk_bound = block_.of_k.transpose() * block_.q.size;
    const Matrix dv = block_.p.transpose() * block_.dout.value,
                 dv_bound = block_.of_v.transpose() * block_.dout.size;
    const auto columns = static_cast<int64_t>(block_.keys.size());
    for (int64_t at = 0; at < columns; ++at) {
      const int64_t j = block_.keys[static_cast<size_t>(at)];
      head_dk_.value.row(j) += dk.row(at);
      head_dk_.bound.row(j) += dk_bound.row(at);
      head_dv_.value.row(j) += dv.row(at);
      head_dv_.bound.row(j) += dv_bound.row(at);
    }
    for (size_t n = 0; n < block_.queries.size(); ++n) {
      for (const int64_t j : block_.queries[n].keys) {
        const auto at =
            n * static_cast<size_t>(columns) + static_cast<size_t>(block_.place[static_cast<size_t>(j)]);
        dk_.mark_row(j, block_.s_taint[at]);
        dv_.mark_row(j, block_.p_taint[at]);
        if (block_.dout.taint[n] == kPure) continue;
        for (int64_t c = 0; c < p_.dim_v; ++c)
          dv_.mark(j, c, block_.dout.element[n * static_cast<size_t>(p_.dim_v) + static_cast<size_t>(c)]);
      }
    }
  }

  void end_queries() {
    const Matrix value = block_.da * block_.k, bound = block_.of_q * block_.k_size;
    const auto columns = static_cast<size_t>(block_.keys.size());
    bool hidden_nan = false;
    for (int64_t j = 0; j < length_ && !model_.isolates_masked_nan; ++j) hidden_nan |= makes_hidden_nan(j);
    Expected& dq = out_[TensorId::kDq];
    for (size_t n = 0; n < block_.queries.size(); ++n) {
      const Block::Query& query = block_.queries[n];
      if (!query.wanted) continue;
      Taint taint = kPure;
      const double relative = terms_.sum_error(query.pairs, query.blocks, terms_.dq_adds);
      for (const int64_t j : query.keys) {
        const auto at = static_cast<size_t>(block_.place[static_cast<size_t>(j)]);
        taint = std::max(taint, block_.s_taint[n * columns + at]);
      }
      bool any_free = taint == kFree;
      for (int64_t t = 0; t < p_.dim_qk; ++t) {
        const auto row = static_cast<int64_t>(n);
        Taint here = taint;
        const bool met = k_.column[static_cast<size_t>(t)] || hidden_nan || query.row_taint != kPure;
        if (here == kPure && met && !model_.isolates_masked_nan) here = kFree;
        any_free |= here == kFree;
        write(query.row * p_.dim_qk + t,
              {value(row, t), bound(row, t), relative, query.a, query.pairs, terms_.dq_adds, true}, here, &dq);
      }
      end_row(query, taint, any_free);
    }
  }

  void end_row(const Block::Query& query, Taint taint, bool any_free) {
    ++out_.sampled;
    RowState& state = out_.state[static_cast<size_t>(query.row)];
    state = query.pairs == 0   ? RowState::kDead
            : taint == kNaNDue ? RowState::kNaN
            : taint == kFree   ? RowState::kUnconstrained
                               : RowState::kBounded;
    out_.dead += query.pairs == 0;
    out_.unconstrained += any_free;
  }

  // Adds a head's dK and dV to those of its KV head.
  void end_head() {
    add_head(head_dk_, std::abs(model_.scale), &dk_);
    add_head(head_dv_, 1, &dv_);
  }

  // If a head's sums, times `scale`, are rounded to the input's format first, that costs a rounding, and they
  // may overflow.
  void add_head(const Sums& head, double scale, Sums* to) const {
    to->value += head.value;
    to->bound += head.bound;
    if (!terms_.rounds_heads || scale == 0) return;
    const int64_t columns = to->value.cols();
    for (int64_t n = 0; n < to->value.size(); ++n) {
      const double size = std::abs(head.value.data()[n]) + head.bound.data()[n];
      to->bound.data()[n] += model_.o_unit * size + model_.o_tiny / scale;
      if (!(scale * size < model_.overflow)) to->mark(n / columns, n % columns, kFree);
    }
  }

  void end_keys(int64_t b, int64_t g) {
    const RowSpace keys(p_.batch, p_.heads_kv, p_.seq_k);
    for (int64_t j = 0; j < sequences_.keys.length(b); ++j) {
      if (!key_wanted(j)) continue;
      const int64_t row = keys.of(b, g, j);
      const bool of_key = j < length_ && makes_hidden_nan(j);
      end_key(j, row, dk_, of_key ? std::vector<bool>(q_columns_.size(), true) : q_columns_, true,
              &out_[TensorId::kDk]);
      end_key(j, row, dv_, dout_columns_, false, &out_[TensorId::kDv]);
    }
  }

  void end_key(int64_t j, int64_t row, const Sums& sums, const std::vector<bool>& columns, bool scaled,
               Expected* to) const {
    const bool there = j < length_;
    const KeyPairs of = there ? pairs_[static_cast<size_t>(j)] : KeyPairs{};
    const double plain = terms_.sum_error(of.pairs, of.blocks, terms_.dkv_adds),
                 relative = scaled ? terms_.folded(model_, plain) : plain;
    for (int64_t c = 0; c < to->columns; ++c) {
      Taint taint = kPure;
      if (there && !sums.taint.empty()) taint = sums.taint[static_cast<size_t>(j * to->columns + c)];
      const bool met = there && columns[static_cast<size_t>(c)] && !model_.isolates_masked_nan;
      if (taint == kPure && met) taint = kFree;
      write(row * to->columns + c,
            {there ? sums.value(j, c) : 0, there ? sums.bound(j, c) : 0, relative, scaled ? of.a : of.p,
             of.pairs, terms_.dkv_adds, scaled, scaled},
            taint, to);
    }
  }

  void write(int64_t element, const Sum& sum, Taint taint, Expected* to) const {
    gradients::write(element_of(finish(terms_, model_, sum), taint), static_cast<size_t>(element), to);
  }

  const attn_problem& p_;
  const attn_tensors& host_;
  const ErrorModel model_;
  const Terms terms_;
  const int64_t tile_q_, tile_k_;
  const Sequences sequences_;
  const SavedRows saved_;
  const bool gathered_;  // listed blocks: a kernel may gather rows in any order, so each pair counts as an mma
                         // of its own
  const Wanted wanted_;
  Reference out_;
  BiasSums dbias_;
  std::vector<TermSum> dsink_;  // of each head
  // These belong to the batch entry and the KV head that are being evaluated.
  int64_t length_ = 0, queries_ = 0, first_key_ = 0;
  Rows k_, v_;
  std::vector<KeyPairs> pairs_;
  Sums dk_, dv_, head_dk_, head_dv_;
  std::vector<bool> q_columns_, dout_columns_;  // true: NaN may reach this column of dK, or of dV, of every key
  Block block_;
};

}  // namespace
}  // namespace attnfuzz::gradients

namespace attnfuzz {

Reference evaluate_forward_of(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                              const Calibration& calibration) {
  const attn_problem forward = forward_of(problem);
  const bool lists = (forward.features & ATTN_FEATURE_SELECTED) != 0;
  return (lists ? evaluate_selected : evaluate)(forward, host, plan, calibration, {}, false);
}

Reference evaluate_gradients(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                             const Calibration& calibration, RowSample sample, const ExactRows* exact) {
  const bool lists = (problem.features & ATTN_FEATURE_SELECTED_BACKWARD) != 0;
  require_known(lists ? kSelectedGradientsKnow : kGradientsKnow, problem.features);
  if (exact != nullptr && exact->lse_apart == nullptr && gradients::leaves_sink_out(problem, plan, calibration))
    throw std::invalid_argument("the plan leaves the sink out of the LSE: ExactRows::lse_apart is needed");
  if (exact != nullptr || !recomputes(capped_plan(problem, plan, calibration)))
    return gradients::Gradients(problem, host, plan, calibration, sample, exact).take();
  const gradients::OwnForward forward(problem, host, plan, calibration);
  const ExactRows rows = forward.rows();
  Reference due = gradients::Gradients(problem, host, plan, calibration, sample, &rows).take();
  forward.add_assumptions(&due);
  return due;
}

}  // namespace attnfuzz
