#include "properties/judge/judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "properties/case/places/geometry.h"
#include "properties/case/words.h"
#include "properties/data/recipe.h"
#include "properties/judge/integer_outputs.h"
#include "properties/judge/shape/shape.h"
#include "properties/judge/tally.h"

namespace attnfuzz {
namespace {

bool any_set(const uint8_t* flags, int64_t n) {
  uint8_t all = 0;
  for (int64_t c = 0; c < n; ++c) all |= flags[c];
  return all != 0;
}

// Compares a row of plain numbers without a branch for each element. False if one is out of bounds; *worst
// then means nothing.
bool plain_row(const double* expected, const double* bound, const float* got, int64_t n, double* worst) {
  double largest = *worst;
  int outside = 0;
  for (int64_t c = 0; c < n; ++c) {
    const double error = std::fabs(got[c] - expected[c]);
    outside |= !(error <= bound[c]);
    // With a bound of 0, only an error of 0 passes; its ratio is 0.
    const double ratio = error / (bound[c] + std::numeric_limits<double>::min());
    largest = ratio > largest ? ratio : largest;
  }
  if (outside == 0) *worst = largest;
  return outside == 0;
}

// In a logarithm, -inf is a value like others.
bool is_number(const Expected& expected, float got) {
  return std::isfinite(got) || (expected.logarithm && got == -std::numeric_limits<float>::infinity());
}

Tally tally_of(const Expected& expected, std::span<const float> got) {
  Tally tally;
  const int64_t n = expected.columns, rows = n > 0 ? static_cast<int64_t>(expected.value.size()) / n : 0;
  if (got.empty()) return tally;
  for (int64_t row = 0; row < rows; ++row) {
    const uint8_t* rule = expected.rule.data() + row * n;
    const float* x = got.data() + row * n;
    if (n > 1 && !any_set(rule, n) &&
        plain_row(expected.value.data() + row * n, expected.bound.data() + row * n, x, n, &tally.worst)) {
      tally.of += n;
      continue;
    }
    for (int64_t c = 0; c < n; ++c) {
      if (static_cast<Due>(rule[c]) != Due::kAnything)
        tally.add(row, c, expected.ratio(row, c, x[c]), !is_number(expected, x[c]));
    }
  }
  return tally;
}

// Marks the bad elements. Only failures need this.
std::vector<uint8_t> marks_of(const Expected& expected, std::span<const float> got) {
  std::vector<uint8_t> bad(got.size());
  for (size_t n = 0; n < got.size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    bad[n] = !(expected.ratio(at / expected.columns, at % expected.columns, got[n]) <= 1);
  }
  return bad;
}

// Why a row must be its dead value, and why an element must be NaN.
const char* why_dead(const Problem& p) {
  return p.compresses() ? "the batch entry does not have all keys of this block"
                        : "no key is visible to this query";
}
const char* why_nan(const Problem& p) {
  return attends(p.features) ? "a NaN is visible to this query" : "a number that it is computed from is NaN";
}

void object(const Reference& reference, const Expected& expected, const Problem& p, const attn_plan& plan,
            const Tally& tally, std::span<const float> got, const Case* c, Verdict& v) {
  const int64_t row = tally.first_row, index = row * expected.columns + tally.first_column;
  Where where = where_is(expected.tensor, p, plan, row, tally.first_column);
  where.got = got[index];
  where.bad = tally.bad;
  where.of = tally.of;
  const bool dead = of_queries(spec_of(expected.tensor)) && reference.state[row] == RowState::kDead;
  const bool wants_nan = static_cast<Due>(expected.rule[index]) == Due::kMustBeNaN;
  where.expected = wants_nan ? std::numeric_limits<double>::quiet_NaN() : expected.value[index];
  where.bound = wants_nan ? 0 : expected.bound[index];

  std::string message = name_of(where) + " is " + digits(where.got);
  if (dead) {
    message += cat(", but ", why_dead(p), ": it must be exactly ", digits(where.expected));
  } else if (wants_nan) {
    message += cat(", but ", why_nan(p), ": it must be NaN");
  } else {
    message += ", must be " + digits(where.expected) + " +- " + digits(where.bound);
    if (std::isfinite(tally.first_ratio)) message += " (error/bound " + digits(tally.first_ratio) + ")";
  }
  if (expected.unit != 1) message += ", to base 2";
  message += "; " + std::to_string(tally.bad) + " of " + std::to_string(tally.of) + " elements are outside";
  const bool non_finite = wants_nan                    ? true
                          : dead && expected.logarithm ? std::isnan(where.got)
                                                       : !is_number(expected, got[index]);
  fail(v, non_finite ? Kind::kNonFinite : Kind::kWrong, message);
  v.where = where;
  v.shapes = shape_of(reference, expected, p, plan, got, c, marks_of(expected, got));
}

}  // namespace

std::vector<Shape> shape_of(const Reference& reference, const Expected& expected, const Problem& p,
                            const attn_plan& plan, std::span<const float> got, const Case* c,
                            std::span<const uint8_t> bad) {
  const std::array<int64_t, 4> size = logical_size(p, expected.tensor);
  const int64_t columns = expected.columns, rows = RowSpace(size[0], size[1], size[2]).count();
  std::vector<uint8_t> dead(static_cast<size_t>(rows));
  for (int64_t row = 0; row < rows; ++row)
    dead[row] = of_queries(spec_of(expected.tensor)) && reference.state[row] == RowState::kDead;
  ShapeInput input;
  input.batch = size[0];
  input.heads = size[1];
  input.seq_q = size[2];
  input.dim_v = columns;
  input.tile_q = plan.tile_q;
  if (of_keys(spec_of(expected.tensor))) input.tile_q = plan.tile_k, input.tile_name = "key tile";
  input.got = got;
  input.expected = expected.value;
  input.bad = bad;
  input.dead = dead;
  std::vector<double> value;
  constexpr int64_t kMostValues = int64_t{1} << 20;
  if (expected.tensor == TensorId::kO && c && p.batch * p.heads_kv * p.seq_k * p.dim_v <= kMostValues) {
    for (int64_t b = 0; b < p.batch; ++b) {
      for (int64_t g = 0; g < p.heads_kv; ++g) {
        const std::vector<double> v = matrix_at(*c, TensorId::kV, b, g);
        value.insert(value.end(), v.begin(), v.end());
      }
    }
    input.heads_kv = p.heads_kv;
    input.seq_k = p.seq_k;
    input.value = value;
  }
  return error_shape(input);
}

void fail(Verdict& v, Kind kind, std::string message) {
  if (v.outcome != Outcome::kPass) return;
  v.outcome = Outcome::kFail;
  v.kind = kind;
  v.message = std::move(message);
}

std::string digits(double x) {
  if (std::isnan(x)) return "nan";
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", x);
  // A float that the kernel wrote is printed with enough digits to be exact.
  const auto single = static_cast<float>(x);
  if (single == x && std::strtof(text, nullptr) != single) std::snprintf(text, sizeof text, "%.9g", x);
  return text;
}

Where where_is(TensorId tensor, const Problem& p, const attn_plan& plan, int64_t row, int64_t d) {
  const std::array<int64_t, 4> size = logical_size(p, tensor);
  const Row at = RowSpace(size[0], size[1], size[2]).at(row);
  Where where;
  where.tensor = tensor;
  where.b = at.b;
  where.h = at.h;
  where.q = at.i;
  where.d = d;
  const int64_t tile = of_keys(spec_of(tensor)) ? plan.tile_k : plan.tile_q;
  where.tile_q = tile > 0 ? where.q / tile : 0;
  return where;
}

std::string name_of(const Where& where) {
  const TensorSpec& spec = spec_of(where.tensor);
  const auto names = index_names(spec);
  const auto index = [&](size_t n, int64_t value) { return cat(names[n], "=", value); };
  std::string name = cat(spec.name, "(", index(0, where.b), ",", index(1, where.h), ",", index(2, where.q));
  if (spec.shape[3] != Size::kOne) name += cat(",", index(3, where.d));
  return name + ")";
}

// Why outputs cannot be judged by the reference; empty if they can. The kernel is not at fault.
static std::string unjudged(const Operation& operation, const Reference& reference, const Outputs& outputs) {
  if (std::string why = not_of(operation, reference); !why.empty()) return why;
  for (size_t n = 0; n < operation.outputs.size(); ++n) {
    const Output& output = operation.outputs[n];
    const size_t due = reference.outputs[n].rule.size(), written = outputs.size(output.tensor);
    if (written == due || (written == 0 && output.optional)) continue;
    return "it has " + std::to_string(due) + " elements of " + name_of(output.tensor) + ", and " +
           std::to_string(written) + " were written";
  }
  return "";
}

bool judge_outputs(const Operation& operation, const Reference& reference, const Problem& p,
                   const attn_plan& plan, const Outputs& outputs, Verdict& v, const Case* c) {
  if (v.outcome != Outcome::kPass) return false;
  if (const std::string why = unjudged(operation, reference, outputs); !why.empty()) {
    fail(v, Kind::kOracle,
         std::string("the reference is not one of the operation ") + operation.name + ": " + why +
             ". No fault of the kernel: report it");
    return false;
  }
  std::vector<Tally> tallies;
  double worst = 0;
  for (size_t n = 0; n < operation.outputs.size(); ++n) {
    const Output& output = operation.outputs[n];
    tallies.push_back(output.kind == OutputKind::kBounded
                          ? tally_of(reference.outputs[n], outputs[output.tensor])
                          : tally_of_integers(output, reference, outputs.integers(output.tensor)));
    worst = std::max(worst, tallies.back().worst);
  }
  v.worst = std::max(v.worst, worst);
  v.ratios.push_back(static_cast<float>(worst));
  // Reports the first output with an element that is not a number, else the first wrong output.
  auto wrong = std::ranges::find_if(tallies, &Tally::stray);
  if (wrong == tallies.end()) wrong = std::ranges::find_if(tallies, [](const Tally& t) { return t.bad > 0; });
  if (wrong == tallies.end()) return true;
  const Expected& first = reference.outputs[static_cast<size_t>(wrong - tallies.begin())];
  if (const Output& output = operation.output(first.tensor); output.kind != OutputKind::kBounded) {
    object_to_integers(output, reference, p, plan, *wrong, outputs.integers(first.tensor), v);
  } else {
    object(reference, first, p, plan, *wrong, outputs[first.tensor], c, v);
  }
  for (size_t n = 0; n < tallies.size(); ++n) {
    const TensorId tensor = reference.outputs[n].tensor;
    if (tensor == first.tensor || outputs.size(tensor) == 0) continue;
    const std::string name = title_of(tensor);
    v.message += tallies[n].bad > 0 ? "; of " + name + " " + std::to_string(tallies[n].bad) + " of " +
                                          std::to_string(tallies[n].of)
                                    : "; " + name + " is right";
  }
  return false;
}

std::optional<int64_t> first_difference(std::span<const float> a, std::span<const float> b) {
  // Usually all bits are equal, which memcmp finds fastest.
  if (a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0))
    return std::nullopt;
  for (size_t n = 0; n < std::min(a.size(), b.size()); ++n) {
    if (std::isnan(a[n]) && std::isnan(b[n])) continue;
    if (std::bit_cast<uint32_t>(a[n]) != std::bit_cast<uint32_t>(b[n])) return static_cast<int64_t>(n);
  }
  if (a.size() != b.size()) return static_cast<int64_t>(std::min(a.size(), b.size()));
  return std::nullopt;
}

// judge_same() for the tensors that are read as integers. Two states of a problem without them are empty.
static bool same_integers(const Outputs& a, const Outputs& b, const Problem& p, const attn_plan& plan,
                          Kind kind, const std::string& message, Verdict& v) {
  return std::ranges::all_of(kTensors, [&](const TensorSpec& spec) {
    return !is_written(spec) || !read_as_integers(spec) ||
           judge_same_integers(a, b, spec.id, p, plan, kind, message, v);
  });
}

bool judge_same(const Outputs& outputs_a, const Outputs& outputs_b, const Problem& p, const attn_plan& plan,
                Kind kind, const std::string& message, Verdict& v) {
  if (v.outcome != Outcome::kPass) return false;
  if (!same_integers(outputs_a, outputs_b, p, plan, kind, message, v)) return false;
  std::optional<int64_t> first;
  TensorId tensor = {};
  for (const TensorId t : kOutputs) {
    if (is_integer(spec_of(t))) continue;
    if (outputs_a[t].empty() || outputs_b[t].empty()) continue;
    first = first_difference(outputs_a[tensor = t], outputs_b[t]);
    if (first) break;
  }
  if (!first) return true;
  const std::vector<float>&a = outputs_a[tensor], &b = outputs_b[tensor];
  const int64_t columns = logical_size(p, tensor)[3];
  Where where = where_is(tensor, p, plan, *first / columns, *first % columns);
  where.expected = a[*first];
  where.got = b[*first];
  where.of = static_cast<int64_t>(a.size());
  for (size_t n = 0; n < a.size(); ++n) {
    where.bad += std::bit_cast<uint32_t>(a[n]) != std::bit_cast<uint32_t>(b[n]) &&
                 !(std::isnan(a[n]) && std::isnan(b[n]));
  }
  fail(v, kind,
       message + ": " + name_of(where) + " was " + digits(where.expected) + ", is " + digits(where.got) + "; " +
           std::to_string(where.bad) + " of " + std::to_string(where.of) + " elements differ");
  v.where = where;
  return false;
}

}  // namespace attnfuzz
