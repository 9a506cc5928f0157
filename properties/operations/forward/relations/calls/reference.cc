// Each call must be within the oracle's bound and pass all checks that Trial::run() makes for every run. The
// other relations make the same checks and more, on fewer cases.
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

void check_reference(Trial& trial) { trial.run(trial.base()); }

}  // namespace

extern const Property reference = {"reference",
                                   "outputs lie within the bound of the double-precision reference",
                                   any_case,
                                   check_reference,
                                   /*needs_stages=*/false,
                                   /*asks_target=*/false,
                                   /*compares=*/false,
                                   /*operation=*/nullptr,
                                   /*ask=*/nullptr,
                                   /*features=*/0,
                                   /*packed=*/true,
                                   /*kv8=*/true,
                                   /*key_blocks=*/true};

}  // namespace attnfuzz::relations
