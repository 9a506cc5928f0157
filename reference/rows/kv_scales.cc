#include "reference/rows/kv_scales.h"

#include <algorithm>
#include <cmath>

#include "reference/call/tensor_spec.h"
#include "reference/numbers/formats.h"
#include "reference/rows/visibility.h"

namespace attnfuzz {
namespace {

struct Scales {
  double least = kInfinity, most = 0;
  bool powers = true;  // all are powers of two

  void take(double scale) {
    if (!std::isfinite(scale)) return;
    least = std::min(least, scale);
    most = std::max(most, scale);
    int exponent;
    powers = powers && std::frexp(scale, &exponent) == 0.5;
  }
  bool any() const { return most > 0; }
};

// True if every code times every scale is a number of the dtype.
bool exact(const attn_problem& problem, const Scales& scales) {
  if (!scales.powers || !scales.any()) return scales.powers;
  const Format codes = format_of(problem.kv_dtype), to = format_of(problem.dtype);
  // The least code is the step among subnormals, twice eta, and all codes are multiples of it.
  return 2 * codes.tiny * scales.least >= 2 * to.tiny && codes.max * scales.most <= to.max;
}

}  // namespace

double kv_scale_of(const attn_tensor& scales, int64_t b, int64_t g, int64_t j) {
  const double scale = decode(ATTN_F32, scales.data, offset_of(scales, b, g, j, 0));
  return scale >= 0x1p-40 && scale <= 0x1p40 ? scale : kInfinity;
}

void charge_kv_scales(const attn_problem& problem, const attn_tensors& tensors, int64_t b, int64_t g, int64_t first,
                      int64_t last, const ErrorModel& general, ErrorModel* model) {
  if (!general.narrow) return;
  *model = general;
  Scales of_k, of_v;
  for (int64_t j = first; j < last; ++j) {
    of_k.take(kv_scale_of(tensors.k_scale, b, g, j));
    of_v.take(kv_scale_of(tensors.v_scale, b, g, j));
  }
  if (!of_k.any() || !of_v.any()) return;  // no key has a scale that the contract allows
  const double unit = (1 + kU) * (1 + general.kv_unit) - 1;
  if (general.kv_rule != ATTN_KV_FOLDED) {
    model->key_overflow = general.kv_overflow;
    if (!exact(problem, of_k)) model->key_unit = unit, model->key_tiny = general.kv_tiny;
    const double limit = general.v_overflow / (1 + unit);  // it may round up to a further format's limit
    model->v_overflow = limit > 0 ? std::min(limit, general.kv_overflow) : general.kv_overflow;
    if (!exact(problem, of_v)) {
      model->v_unit = (1 + general.v_unit) * (1 + unit) - 1;
      model->v_tiny = general.v_tiny + general.kv_tiny;
    }
  }
  if (general.kv_rule == ATTN_KV_DEQUANTISED) return;
  const double least = std::min(of_v.least, 1.0), most = std::max(of_v.most, 1.0);
  model->scaled_unit = 2 * kU;
  model->least_key_scale = std::min(of_k.least, 1.0);
  model->product_flush = kFlush * std::max(of_k.most, 1.0);
  model->value_flush = kFlush * most;
  model->factor_tiny *= std::max(of_k.most, 1.0);
  model->factor_overflow *= model->least_key_scale;
  model->v_unit = (1 + model->v_unit) * (1 + 2 * kU) - 1;
  model->v_tiny += general.v_tiny * (most - 1);
  model->v_overflow =
      general.v_overflow > 0 ? std::min(model->v_overflow, general.v_overflow * least) : model->v_overflow;
  if (of_v.least == 1 && of_v.most == 1) return;
  model->p_predicted = ATTN_NONE;
  model->p_tiny = std::max(general.p_tiny, double{kFlush}) / least;
  model->p_overflow = general.p_overflow / most;
  model->aligned_growth = std::max(most, 1 / least);
  model->partial_tiny = general.partial_tiny * most;
  model->partial_overflow = general.partial_overflow * least;
  model->merge_tiny = general.merge_tiny * most;
}

}  // namespace attnfuzz
