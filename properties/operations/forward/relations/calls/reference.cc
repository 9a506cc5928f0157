// Each call must be within the oracle's bound and pass all checks that Trial::run() makes for every run. The
// other relations make the same checks and more, on fewer cases.
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

void check_reference(Trial& trial) { trial.run(trial.base()); }

}  // namespace

extern const Property reference = {
    .name = "reference",
    .statement = "outputs lie within the bound of the double-precision reference",
    .adapt = any_case,
    .check = check_reference,
    .compares = false,
    .operation = nullptr,
    .packed = true,
    .kv8 = true,
    .key_blocks = true};

}  // namespace attnfuzz::relations
