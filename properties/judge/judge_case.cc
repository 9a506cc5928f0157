// Judges a case by a property: gives the case what the property speaks of, runs the trial, and weighs its
// result.
#include "base/random.h"
#include "properties/case/features/domain.h"
#include "properties/case/places/key_blocks.h"
#include "properties/case/places/packed.h"
#include "properties/case/places/planted_rank.h"
#include "properties/judge/trial.h"

namespace attnfuzz {
namespace {

// A number by which one of several operations is chosen, made from the seeds of the drawn case.
uint64_t dice_of(const Case& c) { return finish64(c.q.seed ^ c.k.seed << 16 ^ c.v.seed << 32); }

// The operation that a property runs on a drawn case; nullptr: the kernel has none. If the property has two and
// the kernel takes both, the case's own operation comes first.
const Operation* operation_of_runs(const Property& property, const Case& c, uint64_t kernel_features) {
  if (property.operation == nullptr) return operation_for(c.problem.features, kernel_features, dice_of(c));
  if (property.also == nullptr || !kernel_has(*property.also, kernel_features)) return property.operation;
  if (!kernel_has(*property.operation, kernel_features)) return property.also;
  for (const Operation* one : {property.operation, property.also}) {
    if (&operation_of(c.problem.features) == one) return one;
  }
  return dice_of(c) % 2 == 0 ? property.operation : property.also;
}

}  // namespace

void keep_known(const Property& property, Case& c) {
  if (!property.packed) unpack(c);
  if (!property.kv8) set_kv8(c, std::nullopt);
  if (!property.key_blocks) give_up_key_blocks(c);
}

bool adapted(Case& c, const Property& property, const Target& target, std::string* why) {
  const std::optional<attn_domain>& declared = target.domain();
  const bool lies = declared && lies_within(*declared, c);
  const Operation* speaks_of = operation_of_runs(property, c, target.info().features);
  if (speaks_of != nullptr) {
    const bool shaped = &operation_of(c.problem.features) != speaks_of;
    make_call(*speaks_of, c, target.info().features);
    if (shaped && declared) shaped_within(*declared, c);
    if (const Operation& asked = operation_of(c.problem.features); &asked != speaks_of) {
      *why = std::string("the property speaks of the operation ") + speaks_of->name + ", the case asks for " +
             asked.name;
      return false;
    }
  }
  keep_known(property, c);
  if (declared && !has_entries_within(*declared, c.problem)) {
    *why = "the kernel takes equal lengths alone, and a packed entry has other keys than queries";
    return false;
  }
  fit_memory(c);  // keys of 8 bits may have become larger
  if (!property.adapt(c, target.info(), why)) return false;
  if (declared) entries_within(*declared, c.problem);
  if (lies) lay_within(*declared, c);
  fit_memory(c);
  if (lies) lay_within(*declared, c);  // the domain may need what was given up
  return true;
}

std::string other_operation(Case c, const Property& property, const Target& target) {
  const Operation& asked = operation_of(c.problem.features);
  std::string why;
  if (!adapted(c, property, target, &why)) return "";  // judge() says why
  const Operation& ran = operation_of(c.problem.features);
  if (&ran == &asked) return "";
  return std::string("the case asks for the operation ") + asked.name + ", and " + target.info().name +
         " would run a case of " + ran.name + " instead, judged by the property '" + property.name + "'";
}

Verdict judge(Case c, const Property& property, Target& target, const Calibration& calibration) {
  std::string why;
  if (!adapted(c, property, target, &why)) {
    Verdict v;
    v.property = property.name;
    v.outcome = Outcome::kRefused;
    v.message = why;
    return v;
  }
  const Turn turn = target.turn();
  Trial trial(c, target, calibration, true, property.compares);
  trial.verdict().property = property.name;
  if (property.ask) property.ask(trial);
  if (!trial.done()) property.check(trial);
  trial.note_outside_domain();
  Verdict v = std::move(trial.verdict());
  if (v.outcome == Outcome::kFail && v.kind == Kind::kRelation && trial.asked_fast()) {
    // A relation uses the bounds of several runs, and some of these are the fast oracle's.
    Trial again(c, target, calibration, false);
    again.verdict().property = property.name;
    property.check(again);
    if (again.verdict().outcome == Outcome::kFail)
      v = std::move(again.verdict());
    else
      v.message +=
          "; judged again by the CPU's oracle alone it passed: the kernel does not repeat itself, or the "
          "oracles do not agree";
  }
  weigh_rows(v);
  return v;
}

void weigh_rows(Verdict& v) {
  if (v.outcome == Outcome::kPass && v.rows > 0 && v.sampled == 0) {
    v.outcome = Outcome::kNotJudged;
    v.message = "none of " + std::to_string(v.rows) + " rows was compared";
  }
  if (v.outcome != Outcome::kPass || 2 * (v.uninformative_rows + v.unconstrained_rows) <= v.sampled) return;
  v.outcome = Outcome::kNotJudged;
  v.message = std::to_string(v.uninformative_rows) + " uninformative and " +
              std::to_string(v.unconstrained_rows) + " unconstrained of " + std::to_string(v.sampled) + " rows";
}

}  // namespace attnfuzz
