// A packed batch entry has the scores and the lists that it has alone in a dense call.
#include "properties/operations/forward/relations/storage/packed_tools.h"
#include "properties/operations/nsa_score/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool scores_as_alone(Trial& trial, const Run& base, int64_t b, const Run& alone, std::string_view what) {
  const Problem& p = base.c.problem;
  const bool bits = same_work_on_rows(trial, base, alone);
  for (int64_t g = 0; g < p.heads_kv; ++g) {
    for (int64_t i = 0; i < lengths_of(p, b).queries; ++i) {
      const int64_t row = lists_of(p).of(b, g, i), there = lists_of(alone.c.problem).of(0, g, i);
      if (!same_choice(trial, base, row, alone, there, bits, what)) return false;
    }
  }
  return true;
}

void check_score_packed_alone(Trial& trial) { compare_entries_alone(trial, entry_alone_as_wide, scores_as_alone); }

}  // namespace

extern const Property score_packed_alone = {
    .name = "score_packed_alone",
    .statement = "a packed batch entry has the scores and the choice that it has alone in a dense call",
    .adapt = pack,
    .check = check_score_packed_alone,
    .operation = &operations::nsa_score,
    .features = ATTN_FEATURE_RAGGED,
    .packed = true};

}  // namespace attnfuzz::relations
