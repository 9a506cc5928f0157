#include "properties/judge/statistical_warning.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "properties/judge/judge.h"
#include "reference/warnings/error_statistics.h"

namespace attnfuzz {
namespace {

struct Sign {
  const char* name;
  double size;
  TensorId of;
  std::string words;
};

// Two digits suffice for an estimate.
std::string times(double x) {
  char text[24];
  std::snprintf(text, sizeof text, "%.2g", x);
  return text;
}

std::string row_of(TensorId tensor, const Problem& p, const attn_plan& plan, int64_t row) {
  const Where where = where_is(tensor, p, plan, row, 0);
  return "b=" + std::to_string(where.b) + ", h=" + std::to_string(where.h) + ", q=" + std::to_string(where.q);
}

}  // namespace

std::optional<StatisticalWarning> statistical_warning(const Case& c, const attn_plan& plan,
                                                      const Reference& reference, const Outputs& outputs) {
  if (&operation_of(c.problem.features) != &operations::forward) return std::nullopt;  // the signs are its own
  const Problem& p = c.problem;
  const std::vector<float>&o = outputs[TensorId::kO], &lse = outputs[TensorId::kLse];
  const ErrorStatistics a = error_statistics(reference, p.dtype, plan, o, lse);
  if (!a.unlikely()) return std::nullopt;
  const std::array<Sign, 4> signs = {
      {{"size", a.size, TensorId::kO,
        "errors of O are " + times(a.size) + " times what random rounding gives"},
       {"row", a.row, TensorId::kO,
        "errors of O in the row (" + row_of(TensorId::kO, p, plan, a.worst_row) + ") are " + times(a.row) +
            " times what random rounding gives"},
       {"bias", a.bias, TensorId::kO,
        std::string("O lies ") + (a.toward_zero ? "nearer to" : "farther from") + " 0 than it should, by " +
            times(a.bias) + " times what random rounding gives"},
       {"lse", a.lse, TensorId::kLse,
        "the LSE of the row (" + row_of(TensorId::kLse, p, plan, a.worst_lse) + ") is off by " + times(a.lse) +
            " times what random rounding gives"}}};
  const Sign& sign = *std::ranges::max_element(signs, {}, &Sign::size);
  const std::vector<float>& got = outputs[sign.of];
  const std::string where = text_of(
      shape_of(reference, reference[sign.of], p, plan, got, &c, mark_beyond(reference, p.dtype, sign.of, got)));
  return StatisticalWarning{sign.name, sign.words + (where.empty() ? "" : "; " + where), c};
}

}  // namespace attnfuzz
