#include "properties/judge/integer_outputs.h"

#include <algorithm>
#include <limits>

#include "properties/case/places/geometry.h"
#include "properties/case/words.h"
#include "properties/judge/judge.h"
#include "reference/numbers/formats.h"

namespace attnfuzz {
namespace {

constexpr double kWrong = std::numeric_limits<double>::infinity();

bool is_state(TensorId tensor) { return spec_of(tensor).role == Role::kState; }

bool anything(const Expected& due, int64_t at) {
  return static_cast<Due>(due.rule[static_cast<size_t>(at)]) == Due::kAnything;
}

std::span<const int64_t> row_of(std::span<const int64_t> got, int64_t row, int64_t columns) {
  return got.subspan(static_cast<size_t>(row * columns), static_cast<size_t>(columns));
}

// The value of an element: an integer, or the number that the bits of a state's element encode.
double number_of(TensorId tensor, const Problem& p, int64_t element) {
  if (!is_state(tensor)) return static_cast<double>(element);
  const auto bits = static_cast<uint32_t>(element);
  return decode(dtype_of(p, tensor), &bits, 0);  // little-endian
}

// Returns "7"; for a state, "0x3c00 (1)".
std::string in_words(TensorId tensor, const Problem& p, int64_t element) {
  if (!is_state(tensor)) return std::to_string(element);
  return cat("0x", hex(static_cast<uint32_t>(element)), " (", digits(number_of(tensor, p, element)), ")");
}

// Returns "chosen(b=0,h=0,q=3)".
std::string row_name(const Where& where) {
  const auto names = index_names(spec_of(where.tensor));
  return cat(name_of(where.tensor), "(", names[0], "=", where.b, ",", names[1], "=", where.h, ",", names[2],
             "=", where.q, ")");
}

}  // namespace

Tally tally_of_integers(const Output& output, const Reference& reference, std::span<const int64_t> got) {
  Tally tally;
  const Expected& due = reference[output.tensor];
  const int64_t columns = due.columns;
  const auto elements = static_cast<int64_t>(got.size());
  if (output.kind == OutputKind::kExact) {
    for (int64_t at = 0; at < elements; ++at) {
      if (anything(due, at)) continue;
      const auto n = static_cast<size_t>(at);
      tally.add(at / columns, at % columns, got[n] == due.integer[n] ? 0 : kWrong, false);
    }
    return tally;
  }
  for (int64_t row = 0; row * columns < elements; ++row) {
    if (anything(due, row * columns)) continue;
    const bool right = output.objection(reference, row, row_of(got, row, columns)).empty();
    tally.add(row, 0, right ? 0 : kWrong, false);
  }
  return tally;
}

void object_to_integers(const Output& output, const Reference& reference, const Problem& p,
                        const attn_plan& plan, const Tally& tally, std::span<const int64_t> got, Verdict& v) {
  const Expected& due = reference[output.tensor];
  const int64_t row = tally.first_row;
  const auto at = static_cast<size_t>(row * due.columns + tally.first_column);
  Where where = where_is(output.tensor, p, plan, row, tally.first_column);
  where.bad = tally.bad;
  where.of = tally.of;
  std::string message;
  if (output.kind == OutputKind::kExact) {
    where.got = number_of(output.tensor, p, got[at]);
    where.expected = number_of(output.tensor, p, due.integer[at]);
    message = name_of(where) + " is " + in_words(output.tensor, p, got[at]) + ", must be exactly " +
              in_words(output.tensor, p, due.integer[at]);
  } else {
    where.got = where.expected = std::numeric_limits<double>::quiet_NaN();  // no single number is wrong
    message = row_name(where) + " " + output.objection(reference, row, row_of(got, row, due.columns));
  }
  const char* what = output.kind == OutputKind::kExact ? " elements are wrong" : " rows are wrong";
  fail(v, Kind::kWrong, message + "; " + std::to_string(tally.bad) + " of " + std::to_string(tally.of) + what);
  v.where = where;
}

bool judge_same_integers(const Outputs& a, const Outputs& b, TensorId tensor, const Problem& p,
                         const attn_plan& plan, Kind kind, const std::string& message, Verdict& v) {
  const std::vector<int64_t>&x = a.integers(tensor), &y = b.integers(tensor);
  if (x.empty() || y.empty() || x == y) return true;
  const int64_t columns = logical_size(p, tensor)[3];
  int64_t first = -1, differ = 0;
  for (size_t n = 0; n < std::min(x.size(), y.size()); ++n) {
    if (x[n] == y[n]) continue;
    if (differ++ == 0) first = static_cast<int64_t>(n);
  }
  Where where = where_is(tensor, p, plan, first / columns, first % columns);
  const auto at = static_cast<size_t>(first);
  where.expected = number_of(tensor, p, x[at]);
  where.got = number_of(tensor, p, y[at]);
  where.of = static_cast<int64_t>(x.size());
  where.bad = differ;
  fail(v, kind,
       message + ": " + name_of(where) + " was " + in_words(tensor, p, x[at]) + ", is " +
           in_words(tensor, p, y[at]) + "; " + std::to_string(differ) + " of " + std::to_string(x.size()) +
           " elements differ");
  v.where = where;
  return false;
}

}  // namespace attnfuzz
