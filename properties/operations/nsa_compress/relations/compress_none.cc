// Blocks of one key, one after another, compress nothing: each key arrives unchanged.

#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::operations {
extern const Operation nsa_compress;
}

namespace attnfuzz::relations {
namespace {

bool adapt_compress_none(Case& c, const KernelInfo&, std::string*) {
  c.problem.key_step = 1, c.problem.key_offset = 0;
  return true;
}

void check_compress_none(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const Problem& p = base->c.problem;
  for (const int64_t row : some_rows(base->c, base->plan.tile_q, 128)) {
    const Row at = RowSpace(p).at(row);
    if (at.i >= key_length(p, at.b)) continue;  // there is no such key
    for (const auto& [output, input] :
         {std::pair{TensorId::kKCmp, TensorId::kK}, {TensorId::kVCmp, TensorId::kV}}) {
      if (!row_arrives(trial, *base, output, row, input, at, "blocks of one key")) return;
    }
  }
}

}  // namespace

extern const Property compress_none = {.name = "compress_none",
                                       .statement = "blocks of one key are the keys themselves",
                                       .adapt = adapt_compress_none,
                                       .check = check_compress_none,
                                       .operation = &operations::nsa_compress,
                                       .packed = true};

}  // namespace attnfuzz::relations
