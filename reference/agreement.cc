#include "reference/agreement.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace attnfuzz {
namespace {

std::string words(const Expected& e, size_t at) {
  const Due due = static_cast<Due>(e.rule[at]);
  if (due == Due::kMustBeNaN) return "NaN";
  if (due == Due::kAnything) return "anything";
  char text[80];
  std::snprintf(text, sizeof text, "%.17g +- %.17g", e.value[at], e.bound[at]);
  return text;
}

// |a - b| in units of `unit`; 0 if they are equal, including equal infinities.
double apart(double a, double b, double unit) {
  if (a == b) return 0;
  const double off = std::abs(a - b) / unit;
  return std::isnan(off) ? HUGE_VAL : off;
}

const char* name_of_state(RowState state) {
  static constexpr const char* kNames[] = {"dead", "bounded", "uninformative", "unconstrained", "NaN", "skipped",
                                           "absent"};
  return kNames[static_cast<size_t>(state)];
}

}  // namespace

Agreement compare(const attn_problem& problem, const Reference& a, const Reference& b) {
  Agreement all;
  const auto place = [&](TensorId tensor, int64_t row) {
    const TensorSpec& spec = spec_of(tensor);
    const std::array<int64_t, 4> size = shape_of(spec, problem);
    const Row at = RowSpace(size[0], size[1], size[2]).at(row);
    return "(b=" + std::to_string(at.b) + ",h=" + std::to_string(at.h) +
           (spec.shape[2] == Size::kSeqK ? ",k=" : ",q=") + std::to_string(at.i);
  };
  const auto differ = [&](const std::string& what) {
    if (all.difference.empty()) all.difference = what;
  };
  if (a.state.size() != b.state.size() || a.outputs.size() != b.outputs.size()) {
    differ("not of one problem");
    return all;
  }
  for (size_t row = 0; row < a.state.size(); ++row)
    if (a.state[row] != b.state[row])
      differ("row" + place(b.outputs[0].tensor, static_cast<int64_t>(row)) + "): " + name_of_state(a.state[row]) + " and " +
             name_of_state(b.state[row]));
  for (size_t n = 0; n < a.outputs.size(); ++n) {
    const Expected &x = a.outputs[n], &y = b.outputs[n];
    if (x.value.size() != y.value.size() || x.exact.size() != y.exact.size()) {
      differ(std::string(name_of(y.tensor)) + " has another size");
      continue;
    }
    for (size_t at = 0; at < x.value.size(); ++at) {
      double value = 0, bound = 0;
      if (x.rule[at] == y.rule[at] && static_cast<Due>(y.rule[at]) == Due::kNumber) {
        // A bound of 0 requires the exact value.
        const double unit = y.bound[at];
        value = apart(x.value[at], y.value[at], unit);
        if (!y.exact.empty()) value = std::max(value, apart(x.exact[at], y.exact[at], unit));
        bound = apart(x.bound[at], y.bound[at], unit);
        all.value = std::max(all.value, value);
        all.bound = std::max(all.bound, bound);
      }
      if (x.rule[at] == y.rule[at] && value <= kApart && bound <= kApart) continue;
      const auto row = static_cast<int64_t>(at) / y.columns, column = static_cast<int64_t>(at) % y.columns;
      differ(name_of(y.tensor) + place(y.tensor, row) + ",d=" + std::to_string(column) + "): " + words(x, at) + " and " +
             words(y, at));
    }
  }
  return all;
}

}  // namespace attnfuzz
