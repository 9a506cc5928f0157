#include "properties/nsa/whole.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "properties/case/words.h"

namespace attnfuzz::nsa {
namespace {

using enum TensorId;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// An exact number, and a bound of a result's error.
struct Known {
  double value, off;
};

Known known(const Expected& due, int64_t at) {
  const auto n = static_cast<size_t>(at);
  if (static_cast<Due>(due.rule[n]) != Due::kNumber) return {0, kInfinity};
  return {due.exact.empty() ? due.value[n] : due.exact[n], due.allowance(at)};
}

// O_1 of a query in (nearly) exact arithmetic, from the exact compressed keys, with a bound of the error that
// the kernel's compressed keys cause.
class OverCompressed {
 public:
  OverCompressed(const Problem& p, const Expected& k, const Expected& v) : p_(p), k_(k), v_(v) {}

  // `rows`: the first row of the KV head. The query sees `count` rows from there.
  std::vector<Known> row(const float* q, int64_t rows, int64_t count) {
    std::vector<Known> o(static_cast<size_t>(p_.dim_v));
    if (count == 0) return o;
    weigh(q, rows, count);
    for (int64_t c = 0; c < p_.dim_v; ++c) o[static_cast<size_t>(c)] = column(rows, count, c);
    return o;
  }

 private:
  void weigh(const float* q, int64_t rows, int64_t count) {
    weights_.clear();
    off_ = 0;
    double most = -kInfinity, sum = 0;
    for (int64_t j = 0; j < count; ++j) {
      double product = 0, off = 0;
      for (int64_t t = 0; t < p_.dim_qk; ++t) {
        const Known k = known(k_, (rows + j) * p_.dim_qk + t);
        product += q[t] * k.value, off += std::abs(q[t]) * k.off;
      }
      weights_.push_back(score(p_, product, 0));
      most = std::max(most, weights_.back());
      off_ = std::max(off_, std::abs(p_.scale) * off);
    }
    for (double& weight : weights_) sum += weight = std::exp(weight - most);
    for (double& weight : weights_) weight /= sum;
  }
  Known column(int64_t rows, int64_t count, int64_t c) const {
    Known o = {0, 0};
    for (int64_t j = 0; j < count; ++j) o.value += weights_[static_cast<size_t>(j)] * value(rows + j, c).value;
    for (int64_t j = 0; j < count; ++j) {
      const Known v = value(rows + j, c);
      o.off += weights_[static_cast<size_t>(j)] *
               (std::expm1(2 * off_) * std::abs(v.value - o.value) + std::exp(2 * off_) * v.off);
    }
    return o;
  }
  Known value(int64_t row, int64_t c) const { return known(v_, row * p_.dim_v + c); }

  const Problem& p_;
  const Expected &k_, &v_;
  std::vector<double> weights_;
  double off_ = 0;
};

const Reference& due_of(const Pass& pass, Stage stage) {
  return pass.calls[static_cast<size_t>(stage)].reference;
}

// A row of the combination: the batch entry and the query of the other calls, the head, and the token.
struct Place {
  int64_t b, i, h, token;
};

Place place(const Sizes& s, std::span<const int64_t> tokens, PassKind kind, int64_t row) {
  if (kind == PassKind::kDecode)
    return {row / s.heads_q, 0, row % s.heads_q, tokens[static_cast<size_t>(row / s.heads_q)]};
  Place at = {0, row % s.tokens, row / s.tokens, row % s.tokens};
  if (kind == PassKind::kPrefill) return at;
  for (; at.i >= s.packed[static_cast<size_t>(at.b)]; ++at.b) at.i -= s.packed[static_cast<size_t>(at.b)];
  return at;
}

}  // namespace

Whole whole_of(const Sizes& s, const Inputs& in, std::span<const int64_t> tokens, PassKind kind,
               const Pass& pass) {
  const Problem p = case_of(Stage::kCompressed, s, tokens, kind).problem;
  const Reference& compressed = due_of(pass, Stage::kCompress);
  OverCompressed over(p, compressed[kKCmp], compressed[kVCmp]);
  const Expected* branches[] = {&due_of(pass, Stage::kCompressed)[kO], &due_of(pass, Stage::kListed)[kO],
                                &due_of(pass, Stage::kWindow)[kO]};
  const Expected& combined = due_of(pass, Stage::kCombine)[kO];
  const std::vector<float>& got = pass.calls[static_cast<size_t>(Stage::kCombine)].outputs[kO];
  const int64_t count = kind == PassKind::kDecode ? std::ssize(tokens) : s.tokens;
  Whole whole;
  for (int64_t row = 0; row < count * s.heads_q; ++row) {
    const auto [b, i, h, token] = place(s, tokens, kind, row);
    const int64_t of_inputs = h * s.tokens + token, of_branches = (b * s.heads_q + h) * p.seq_q + i;
    const int64_t rows = (b * s.heads_kv + h / (s.heads_q / s.heads_kv)) * p.seq_k;
    const std::vector<Known> first =
        over.row(&in.q[static_cast<size_t>(of_inputs * s.dim)], rows, key_range(p, lengths_of(p, b), i).last);
    for (int64_t c = 0; c < s.dim; ++c) {
      const int64_t at = row * s.dim + c;
      double due = 0, bound = known(combined, at).off;
      for (size_t branch = 0; branch < 3; ++branch) {
        const double gate = in.gates[static_cast<size_t>(of_inputs * 3) + branch];
        Known side = known(*branches[branch], of_branches * s.dim + c);
        if (branch == 0)
          side = {first[static_cast<size_t>(c)].value, side.off + first[static_cast<size_t>(c)].off};
        due += gate * side.value;
        if (gate != 0) bound += std::abs(gate) * side.off;
      }
      bound += 1e-12 * std::abs(due);  // for this file's own rounding in double
      // With an infinite bound every value passes, even infinity and NaN.
      const double off = std::abs(got[static_cast<size_t>(at)] - due),
                   ratio = off == 0 || std::isinf(bound) ? 0 : off / bound;
      whole.due.push_back(due), whole.bound.push_back(bound);
      ++(std::isfinite(bound) ? whole.judged : whole.open);
      if (!(ratio <= 1) && whole.wrong.empty())
        whole.wrong = cat(name_of(kind), ", the whole: O of token ", token, ", head ", h, ", column ", c,
                          " is ", number(got[static_cast<size_t>(at)]), ", the chain of oracles gives ",
                          number(due), ", at most ", number(bound), " off");
      whole.worst = std::max(whole.worst, ratio);
    }
  }
  return whole;
}

std::string differs(const Sizes& s, std::span<const int64_t> tokens, const Pass& prefill,
                    const Whole& of_prefill, const Pass& decode, const Whole& of_decode) {
  const auto outputs = [](const Pass& pass, Stage stage) -> const Outputs& {
    return pass.calls[static_cast<size_t>(stage)].outputs;
  };
  const auto &chosen = prefill.lists(), &chosen_one = decode.lists();
  const auto &o = outputs(prefill, Stage::kCombine)[kO], &o_one = outputs(decode, Stage::kCombine)[kO];
  const auto &keys = outputs(prefill, Stage::kCompress)[kKCmp],
             &keys_one = outputs(decode, Stage::kCompress)[kKCmp];
  const int64_t group = s.heads_q / s.heads_kv;
  for (size_t n = 0; n < tokens.size(); ++n) {
    const int64_t t = tokens[n], own = s.compressed(t + 1);
    for (int64_t g = 0; g < s.heads_kv; ++g) {
      const int64_t row = static_cast<int64_t>(n) * s.heads_kv + g;
      const auto from = keys.begin() + g * s.compressed() * s.dim,
                 one = keys_one.begin() + row * s.compressed() * s.dim;
      const auto list = chosen.begin() + (g * s.tokens + t) * s.select,
                 list_one = chosen_one.begin() + row * s.select;
      // If prefill and decode have rounded the compressed keys differently, they may choose different blocks. A
      // kernel that computes the scores may choose either way where scores are closer than their errors; each
      // of its lists was judged by itself. If the lists differ, O may differ, and is not compared.
      const bool same_list = std::equal(list, list + s.select, list_one);
      if (!same_list && prefill.chooses == Stage::kChoose && std::equal(from, from + own * s.dim, one))
        return cat("prefill and decode choose other blocks for token ", t, ", KV head ", g);
      for (int64_t at_head = 0; at_head < group * s.dim && same_list; ++at_head) {
        const int64_t h = g * group + at_head / s.dim, c = at_head % s.dim;
        const auto at = static_cast<size_t>((h * s.tokens + t) * s.dim + c),
                   at_one = static_cast<size_t>((static_cast<int64_t>(n) * s.heads_q + h) * s.dim + c);
        if (std::abs(double{o[at]} - o_one[at_one]) > of_prefill.bound[at] + of_decode.bound[at_one])
          return cat("prefill and decode differ for token ", t, ", head ", h, ", column ", c, ": ",
                     number(o[at]), " and ", number(o_one[at_one]));
      }
    }
  }
  return "";
}

Judged judge_chain(const Sizes& sizes, const Inputs& inputs, const Kernels& kernels) {
  std::vector<int64_t> tokens(static_cast<size_t>(sizes.tokens));
  std::iota(tokens.begin(), tokens.end(), int64_t{0});
  Judged result;
  Pass passes[2];
  Whole wholes[2];
  // Judges a pass and its whole, and adds them to the result. False: nothing more is judged.
  const auto judge = [&](PassKind kind, Pass& pass, Whole& whole) {
    pass = run_pass(sizes, inputs, tokens, kind, kernels);
    result.worst = std::max(result.worst, pass.worst);
    (kind == PassKind::kPacked ? result.packed_refused : result.refused) = pass.refused;
    result.failure = pass.failure;
    if (!pass.complete()) return false;
    whole = whole_of(sizes, inputs, tokens, kind, pass);
    result.worst_whole = std::max(result.worst_whole, whole.worst);
    result.judged += whole.judged, result.open += whole.open;
    result.wrong = whole.wrong;
    return !result.failed();
  };
  for (const PassKind kind : {PassKind::kPrefill, PassKind::kDecode}) {
    if (!judge(kind, passes[static_cast<size_t>(kind)], wholes[static_cast<size_t>(kind)])) return result;
  }
  result.wrong = differs(sizes, tokens, passes[0], wholes[0], passes[1], wholes[1]);
  if (result.failed() || sizes.packed.empty() || !takes_no_packed(kernels).empty()) return result;
  Pass pass;
  Whole whole;
  result.packed = judge(PassKind::kPacked, pass, whole);
  return result;
}

}  // namespace attnfuzz::nsa
