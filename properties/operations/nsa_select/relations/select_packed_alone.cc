// A packed batch entry has the lists that it has alone in a dense call.
#include <algorithm>
#include <cmath>
#include <span>

#include "properties/judge/judge.h"
#include "properties/operations/forward/relations/storage/packed_tools.h"
#include "reference/numbers/formats.h"

namespace attnfuzz::operations {
extern const Operation nsa_select;
}

namespace attnfuzz::relations {
namespace {

// Leaves planted NaNs out. Only a block that its query cannot choose may have one, and packing changes these blocks.
bool adapt_select_packed_alone(Case& c, const KernelInfo& kernel, std::string* why) {
  std::erase_if(c.planted, [](const Planted& x) { return std::isnan(decode(ATTN_F32, &x.bits, 0)); });
  return pack(c, kernel, why);
}

bool lists_as_alone(Trial& trial, const Run& base, int64_t b, const Run& alone, std::string_view what) {
  const Problem& p = base.c.problem;
  const auto columns = static_cast<size_t>(p.select());
  const auto list = [&](const Run& run, int64_t entry, int64_t g, int64_t i) {
    const auto row = static_cast<size_t>(RowSpace(run.c.problem).of(entry, g, i));
    return std::span(run.calls[0].integers(TensorId::kChosen)).subspan(row * columns, columns);
  };
  for (int64_t g = 0; g < p.heads_kv; ++g) {
    for (int64_t i = 0; i < lengths_of(p, b).queries; ++i) {
      if (std::ranges::equal(list(base, b, g, i), list(alone, 0, g, i))) continue;
      const Where where = where_is(TensorId::kChosen, p, base.plan, RowSpace(p).of(b, g, i), 0);
      trial.fail(Kind::kRelation, std::string(what) + ": the row of " + name_of(where) + " must be the same list");
      trial.verdict().where = where;
      return false;
    }
  }
  return true;
}

void check_select_packed_alone(Trial& trial) { compare_entries_alone(trial, entry_alone_as_wide, lists_as_alone); }

}  // namespace

extern const Property select_packed_alone = {
    .name = "select_packed_alone",
    .statement = "a packed batch entry has the lists that it has alone in a dense call",
    .adapt = adapt_select_packed_alone,
    .check = check_select_packed_alone,
    .compares = false,
    .operation = &operations::nsa_select,
    .features = ATTN_FEATURE_RAGGED,
    .packed = true};

}  // namespace attnfuzz::relations
