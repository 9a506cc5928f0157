// A packed batch entry has the compressed keys and values that it has alone in a dense call.
#include "properties/operations/forward/relations/storage/packed_tools.h"

namespace attnfuzz::operations {
extern const Operation nsa_compress;
}

namespace attnfuzz::relations {
namespace {

bool rows_as_alone(Trial& trial, const Run& base, int64_t b, const Run& alone, std::string_view what) {
  return entries_agree(trial, base, b, alone, 0, what);
}

void check_compress_packed_alone(Trial& trial) { compare_entries_alone(trial, entry_alone, rows_as_alone); }

}  // namespace

extern const Property compress_packed_alone = {
    .name = "compress_packed_alone",
    .statement = "a packed batch entry is compressed as it is alone in a dense call",
    .adapt = pack,
    .check = check_compress_packed_alone,
    .operation = &operations::nsa_compress,
    .features = ATTN_FEATURE_RAGGED,
    .packed = true};

}  // namespace attnfuzz::relations
