// Sinks of -inf give the same result as no sinks. Callers pad the heads of a layer with such sinks.
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_sink_none(Case& c, const KernelInfo&, std::string*) {
  if (!c.problem.sink) c.problem.sink.emplace();
  c.problem.sink->kind = SinkKind::kMinusInf;
  c.problem.sink->seed = 0;
  return true;
}

void check_sink_none(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case other = variant_of(base->c);
  other.problem.sink.reset();
  if (const Run* run = trial.run(other, "without sinks"))
    trial.all_within(*base, *run, "sinks of -inf against none");
}

}  // namespace

extern const Property sink_none = {.name = "sink_none",
                                   .statement = "sinks of -inf change nothing",
                                   .adapt = adapt_sink_none,
                                   .check = check_sink_none,
                                   .features = ATTN_FEATURE_SINK,
                                   .packed = true};

}  // namespace attnfuzz::relations
