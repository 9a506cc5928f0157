// A packed batch entry gives the same result as a dense call of that entry alone. This shows the offset of a
// wrong entry, the length of the wrong side, or a diagonal computed from the longest length, even if the
// numbers look plausible.
#include "properties/operations/forward/relations/storage/packed_tools.h"

namespace attnfuzz::operations {
extern const Operation selected;
}

namespace attnfuzz::relations {
namespace {

bool is_as_alone(Trial& trial, const Run& base, int64_t b, const Run& alone, std::string_view what) {
  return entries_agree(trial, base, b, alone, 0, what);
}

void check_packed_alone(Trial& trial) { compare_entries_alone(trial, entry_alone, is_as_alone); }

}  // namespace

extern const Property packed_alone = {
    .name = "packed_alone",
    .statement = "a packed batch entry gives what it gives alone in a dense call",
    .adapt = pack,
    .check = check_packed_alone,
    .features = ATTN_FEATURE_RAGGED,
    .packed = true,
    .kv8 = true,
    .key_blocks = true,
    .also = &operations::selected};

}  // namespace attnfuzz::relations
