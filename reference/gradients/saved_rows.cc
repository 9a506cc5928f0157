#include "reference/gradients/saved_rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/gradients/gradient_setup.h"
#include "reference/numbers/formats.h"
#include "reference/rows/sinks.h"
#include "reference/rows/visibility.h"

namespace attnfuzz::gradients {

SavedRows::SavedRows(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                     const Calibration& calibration, const ExactRows* exact, const ErrorModel& model,
                     const Sequences& sequences)
    : sinks((problem.features & ATTN_FEATURE_DSINK) != 0),
      apart(leaves_sink_out(problem, plan, calibration)),
      recomputed(exact != nullptr && exact->o_error != nullptr),
      p_(problem),
      host_(host),
      exact_(exact),
      model_(model),
      sequences_(sequences) {}

void SavedRows::load(const Rows& dout, int64_t n, Taint q_taint, Block::Query* query) const {
  const auto row = static_cast<size_t>(n);
  query->lse = query->gradient = query->gradient_size = 0;
  query->taint = kPure;
  query->row_taint = dout.taint[row];
  if (query->pairs == 0 && !sinks) return;
  load_lse(query);
  std::vector<double> o(static_cast<size_t>(p_.dim_v));
  if (exact_ != nullptr) {
    std::copy_n(exact_->o + query->row * p_.dim_v, p_.dim_v, o.begin());
  } else {
    const StoredRow at = sequences_.query_row(query->at.b, query->at.i);
    decode_strided(p_.dtype, host_.o.data, offset_of(host_.o, at.entry, query->at.h, at.row, 0),
                   host_.o.stride[3], p_.dim_v, o.data());
  }
  Taint taint = std::max(query->lse_taint, dout.taint[row]);
  query->gradient_factors = dout.norm[row];
  for (int64_t c = 0; c < p_.dim_v; ++c) {
    taint = std::max(taint, taint_of(o[static_cast<size_t>(c)]));
    const double term = dout.value(n, c) * o[static_cast<size_t>(c)];
    query->gradient += term;
    query->gradient_size += std::abs(term);
    query->gradient_factors += std::abs(o[static_cast<size_t>(c)]);
  }
  query->sink_taint = taint;
  const bool has_dlse = (p_.features & ATTN_FEATURE_DLSE) != 0;
  if (has_dlse) taint = std::max(taint, load_dlse(query));
  if (!apart) query->sink_taint = taint;
  if (recomputed) load_errors(dout, n, query);
  // If a large sink makes the LSE with the sink certain, the LSE without it may be unknown. Only dLSE needs it.
  if (has_dlse && apart && query->pairs > 0) taint = std::max(taint, taint_of(query->lse_apart));
  query->row_taint = taint;
  query->taint = query->pairs == 0 ? kPure : std::max(taint, q_taint);
  if (!std::isfinite(query->lse)) query->lse = 0;
  if (!std::isfinite(query->lse_apart)) query->lse_apart = 0;
  if (query->sink_taint != kPure) query->gradient = query->gradient_size = query->gradient_factors = 0;
}

void SavedRows::load_lse(Block::Query* query) const {
  const StoredRow at = sequences_.query_row(query->at.b, query->at.i);
  const int64_t h = query->at.h;
  const double stored =
      exact_ != nullptr
          ? exact_->lse[query->row]
          : decode(ATTN_F32, host_.lse.data, offset_of(host_.lse, at.entry, h, at.row, 0)) * model_.log_unit;
  query->lse = stored;
  query->lse_taint = taint_of(stored);
  if (!sinks) return;
  query->sink = sink_of(p_, host_, h);
  if (query->pairs == 0 && std::isinf(query->sink)) query->lse_taint = kPure;
  if (!apart) return;
  if (query->pairs == 0) {  // the stored LSE has no key and no sink
    query->lse = query->sink;
    query->lse_taint = kPure;
  } else if (exact_ != nullptr) {
    query->lse_apart = exact_->lse_apart[query->row];
  } else {
    query->lse_apart = stored;
    const WithSink with = with_sink(stored, query->sink);
    query->lse = with.lse, query->lse_error = with.error;
    query->lse_taint = taint_of(with.lse);
  }
}

Taint SavedRows::load_dlse(Block::Query* query) const {
  if (query->pairs == 0 && apart) return kPure;
  const StoredRow at = sequences_.query_row(query->at.b, query->at.i);
  query->dlse = decode(ATTN_F32, host_.dlse.data, offset_of(host_.dlse, at.entry, query->at.h, at.row, 0));
  const Taint is = taint_of(query->dlse);
  if (is != kPure) query->dlse = 0;
  if (apart) return is;
  query->gradient -= query->dlse;
  query->gradient_size += std::abs(query->dlse);
  return is;
}

void SavedRows::load_errors(const Rows& dout, int64_t n, Block::Query* query) const {
  for (int64_t c = 0; c < p_.dim_v; ++c)
    query->gradient_error += std::abs(dout.value(n, c)) * exact_->o_error[query->row * p_.dim_v + c];
  query->gradient_error *= 1 + gamma(static_cast<double>(p_.dim_v + 1), kU);
  const auto keys = static_cast<double>(query->keys.size());
  const auto error = [this](double bound, double terms) {
    return bound + 3.01 * kU * std::log(std::max(terms, 1.0)) + model_.eps_reciprocal + 4 * kU;
  };
  query->lse_error = error(exact_->lse_error[query->row], keys + (sinks ? 1 : 0));
  // An automatic derivative adds P dLSE to P (dP - D): one more rounding of each.
  query->gradient_error += 5 * kU * std::abs(query->dlse);
  if (apart && query->pairs > 0) query->lse_apart_error = error(exact_->lse_apart_error[query->row], keys);
}

}  // namespace attnfuzz::gradients
