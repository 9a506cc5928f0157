#include "tests/reference/legal_kernels/emulation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "reference/numbers/formats.h"
#include "reference/rows/visibility.h"

namespace attnfuzz {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr float kLog2E = std::numbers::log2e_v<float>;
constexpr float kLn2 = std::numbers::ln2_v<float>;

float flushed(float x) { return std::abs(x) < 0x1p-126f ? 0.0f : x; }

float truncated(double x) {
  const float nearest = static_cast<float>(x);
  if (std::abs(static_cast<double>(nearest)) <= std::abs(x)) return nearest;
  return std::nextafter(nearest, 0.0f);
}

// acc + sum of a_t b_t over n terms.
class TensorCore {
 public:
  explicit TensorCore(Mma mode) : mode_(mode) {}

  float run(float acc, const float* a, const float* b, int64_t stride_b, int64_t n) const {
    if (mode_ == Mma::kAlign) return align(acc, a, b, stride_b, n);
    for (int64_t t = 0; t < n; ++t) {
      const double sum =
          static_cast<double>(acc) + static_cast<double>(a[t]) * static_cast<double>(b[t * stride_b]);
      acc = mode_ == Mma::kNearest ? static_cast<float>(sum) : truncated(sum);
    }
    return acc;
  }

 private:
  static float align(float acc, const float* a, const float* b, int64_t stride_b, int64_t n) {
    for (int64_t first = 0; first < n; first += 16) {
      const int64_t last = std::min<int64_t>(n, first + 16);
      double term[17], most = std::abs(static_cast<double>(acc));
      int count = 0;
      term[count++] = acc;
      for (int64_t t = first; t < last; ++t) {
        term[count] = static_cast<double>(a[t]) * static_cast<double>(b[t * stride_b]);
        most = std::max(most, std::abs(term[count++]));
      }
      if (most == 0 || !std::isfinite(most)) continue;
      const double per_quantum = std::ldexp(1.0, 23 - std::ilogb(most));
      double sum = 0;
      for (int k = 0; k < count; ++k) sum += std::trunc(term[k] * per_quantum);
      acc = truncated(sum / per_quantum);
    }
    return acc;
  }

  Mma mode_;
};

// exp2 with flushing and with an error that its class allows.
class Exponential {
 public:
  Exponential(ExpError error, uint64_t seed) : error_(error), random_(seed) {}

  float operator()(float x) {
    double y = std::exp2(static_cast<double>(x));
    // The added error leaves room for the rounding, half an ulp. 2^0 is exact on every device.
    if (error_ == ExpError::kUp && x != 0) y *= 1 + 3 * 0x1p-24;
    if (error_ == ExpError::kRandom && x != 0) y *= 1 + 3 * 0x1p-24 * (2 * random_.uniform() - 1);
    return flushed(static_cast<float>(y));
  }

 private:
  ExpError error_;
  Random random_;
};

float round16(const Case& c, float x) {
  const uint16_t bits = encode16(c.problem.dtype, x);
  return static_cast<float>(decode(c.problem.dtype, &bits, 0));
}

std::vector<float> decoded(const Case& c, const std::vector<uint16_t>& data) {
  std::vector<float> out(data.size());
  for (size_t i = 0; i < data.size(); ++i)
    out[i] = static_cast<float>(decode(c.problem.dtype, data.data(), static_cast<int64_t>(i)));
  return out;
}

// One query row over the keys of one split.
class RowWork {
 public:
  RowWork(Case& c, const Emulated& how)
      : c_(c),
        p_(c.problem),
        how_(how),
        tensors_(c.tensors()),
        core_(how.mma),
        exp_(how.exp, how.seed),
        q_(decoded(c, c.q)),
        k_(decoded(c, c.k)),
        v_(decoded(c, c.v)) {
    const double d = static_cast<double>(p_.dim_qk);
    scale_ = how.bug == Bug::kScaleOfD2 ? static_cast<float>(p_.scale * std::sqrt(d / (d - 2))) : p_.scale;
    // Softcap and bias act on the scaled score, so the scale cannot wait for the exponential.
    early_scale_ = p_.softcap > 0 || p_.bias_dtype != ATTN_NONE || c.plan.scale_mode == ATTN_SCALE_SEPARATE;
    sigma_ = early_scale_ ? kLog2E : scale_ * kLog2E;
    hidden_ = how.bug == Bug::kFiniteInfinity ? (early_scale_ ? -5e4f : -5e4f / scale_) : kMinusInfinity;
  }

  void run(int64_t b, int64_t h, int64_t i, int64_t first_key, int64_t last_key, float* o, float* lse) {
    float m = hidden_, mu = kMinusInfinity, l = 0;
    std::vector<float> acc(static_cast<size_t>(p_.dim_v), 0), s, weight;
    for (int64_t tile = first_key; tile < last_key; tile += c_.plan.tile_k) {
      const int64_t end = std::min({last_key, tile + c_.plan.tile_k, p_.seq_k});
      scores(b, h, i, tile, end, &s);
      for (float& x : s) m = std::max(m, oriented(x));
      if (m == kMinusInfinity) continue;
      const float next = oriented(m) * sigma_;
      const float alpha = mu == kMinusInfinity ? 0 : exp_(mu - next);
      mu = next;
      float sum = flushed(l * alpha);
      weight.clear();
      for (const float x : s) {
        float w = x == kMinusInfinity ? 0 : exp_(std::fma(x, sigma_, -mu));
        if (how_.bug == Bug::kFlushP && w < 0x1p-7f) w = 0;
        sum += w;
        weight.push_back(c_.plan.p_format == ATTN_FORMAT_F32 ? w : round16(c_, w));
      }
      l = sum;
      const float* values =
          &v_[static_cast<size_t>(((b * p_.heads_kv + group(h)) * p_.seq_k + tile) * p_.dim_v)];
      for (int64_t col = 0; col < p_.dim_v; ++col) {
        float& a = acc[static_cast<size_t>(col)];
        if (how_.bug != Bug::kNoRescale) a = flushed(a * alpha);
        a = core_.run(a, weight.data(), values + col, p_.dim_v, end - tile);
      }
    }
    const float reciprocal = l > 0 ? 1 / l : 0;
    for (int64_t col = 0; col < p_.dim_v; ++col) o[col] = acc[static_cast<size_t>(col)] * reciprocal;
    *lse = l > 0 ? mu * kLn2 + std::log2(l) * kLn2 : kMinusInfinity;
  }

 private:
  int64_t group(int64_t h) const { return h / (p_.heads_q / p_.heads_kv); }

  // With a negative scale the largest weight belongs to the smallest product.
  float oriented(float x) const { return !early_scale_ && scale_ < 0 && x != kMinusInfinity ? -x : x; }

  void scores(int64_t b, int64_t h, int64_t i, int64_t tile, int64_t end, std::vector<float>* out) {
    out->clear();
    const float* q = &q_[static_cast<size_t>(((b * p_.heads_q + h) * p_.seq_q + i) * p_.dim_qk)];
    for (int64_t j = tile; j < end; ++j) {
      bool visible = sees(p_, tensors_, b, h, i, j);
      if (how_.bug == Bug::kDropLastKey && j == p_.seq_k - 1) visible = false;
      if (how_.bug == Bug::kDiagonalMissing && j == i && i > 0 && i % 2 == 0) visible = false;
      if (!visible) {
        out->push_back(hidden_);
        continue;
      }
      const float* k = &k_[static_cast<size_t>(((b * p_.heads_kv + group(h)) * p_.seq_k + j) * p_.dim_qk)];
      float x = core_.run(0, q, k, 1, p_.dim_qk);
      if (early_scale_) x *= scale_;
      if (p_.softcap > 0) x = p_.softcap * std::tanh(x / p_.softcap);
      if (p_.bias_dtype != ATTN_NONE)
        x += c_.bias[static_cast<size_t>(((b * p_.heads_q + h) * p_.seq_q + i) * p_.seq_k + j)];
      out->push_back(x);
    }
  }

  Case& c_;
  const attn_problem& p_;
  const Emulated how_;
  attn_tensors tensors_;
  TensorCore core_;
  Exponential exp_;
  std::vector<float> q_, k_, v_;
  float scale_, sigma_, hidden_;
  bool early_scale_;
};

}  // namespace

const char* name_of(Bug bug) {
  constexpr const char* kNames[] = {
      "none",           "drop the last key",  "no rescale",  "diagonal key missing",
      "scale from d-2", "flush P below 2^-7", "-5e4 as -inf"};
  return kNames[static_cast<int>(bug)];
}

Output emulate_partials(Case& c, const Emulated& how) {
  const attn_problem& p = c.problem;
  const int64_t rows = p.batch * p.heads_q * p.seq_q;
  Output out;
  out.o.resize(static_cast<size_t>(c.plan.num_splits * rows * p.dim_v));
  out.lse.resize(static_cast<size_t>(c.plan.num_splits * rows));
  RowWork work(c, how);
  const int64_t keys = c.plan.split_tiles * c.plan.tile_k;
  for (int64_t s = 0; s < c.plan.num_splits; ++s)
    for (int64_t row = 0; row < rows; ++row) {
      const size_t at = static_cast<size_t>(s * rows + row);
      work.run(row / p.seq_q / p.heads_q, row / p.seq_q % p.heads_q, row % p.seq_q, std::min(p.seq_k, s * keys),
               std::min(p.seq_k, (s + 1) * keys), &out.o[at * static_cast<size_t>(p.dim_v)], &out.lse[at]);
    }
  return out;
}

Output emulate_reduce(const Case& c, const Output& partials, const Emulated& how) {
  const attn_problem& p = c.problem;
  const auto rows = static_cast<size_t>(p.batch * p.heads_q * p.seq_q), columns = static_cast<size_t>(p.dim_v);
  const size_t splits = rows ? partials.lse.size() / rows : 0;
  Exponential exp(how.exp, how.seed + 1);
  Output out;
  out.o.resize(rows * columns);
  out.lse.resize(rows);
  for (size_t row = 0; row < rows; ++row) {
    float most = kMinusInfinity, sum = 0;
    for (size_t s = 0; s < splits; ++s) most = std::max(most, partials.lse[s * rows + row]);
    std::vector<float> o(columns, 0);
    out.lse[row] = kMinusInfinity;
    if (most != kMinusInfinity) {
      for (size_t s = 0; s < splits; ++s) sum += exp((partials.lse[s * rows + row] - most) * kLog2E);
      out.lse[row] = most + std::log2(sum) * kLn2;
      for (size_t s = 0; s < splits; ++s) {
        if (partials.lse[s * rows + row] == kMinusInfinity) continue;
        const float weight = exp((partials.lse[s * rows + row] - out.lse[row]) * kLog2E);
        for (size_t col = 0; col < columns; ++col)
          o[col] = std::fma(weight, partials.o[(s * rows + row) * columns + col], o[col]);
      }
    }
    for (size_t col = 0; col < columns; ++col) out.o[row * columns + col] = round16(c, o[col]);
  }
  return out;
}

Output emulate(Case& c, const Emulated& how) {
  Output partials = emulate_partials(c, how);
  if (c.plan.num_splits > 1) return emulate_reduce(c, partials, how);
  for (float& x : partials.o) x = round16(c, x);
  return partials;
}

Worst worst_of(const Reference& reference, const Output& output) {
  Worst worst;
  for (int64_t row = 0; row < reference.rows; ++row) {
    const RowState state = reference.state[static_cast<size_t>(row)];
    const bool numbers = state == RowState::kBounded || state == RowState::kUninformative;
    const auto hold = [&](const Expected& due, const std::vector<float>& got, double* most) {
      for (int64_t at = row * due.columns; at < (row + 1) * due.columns; ++at) {
        const auto i = static_cast<size_t>(at);
        *most = std::max(*most, due.ratio(row, at - row * due.columns, got[i]));
        worst.judged += numbers && std::isfinite(due.bound[i]);
      }
    };
    hold(reference[TensorId::kLse], output.lse, &worst.lse);
    hold(reference[TensorId::kO], output.o, &worst.o);
  }
  return worst;
}

}  // namespace attnfuzz
