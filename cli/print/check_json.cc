// A check's result as one line of JSON.
#include <cmath>

#include "base/json.h"
#include "cli/print/checked.h"
#include "fuzz/check/counts/kernel_path.h"
#include "fuzz/check/counts/records.h"
#include "fuzz/host/confinement.h"
#include "properties/case/words.h"

namespace attnfuzz {
namespace {

Json reduction_json(const Filed& filed) {
  const Reduction& r = *filed.reduction;
  const FaultGuess& guess = filed.guess;
  return {{"seconds", filed.reduce_seconds},
          {"evaluations", r.evaluations},
          {"complete", r.complete},
          {"lane", r.minimal.build_kind},
          {"vote", filed.vote},
          {"minimal", describe(r.minimal)},
          {"property", r.verdict.property},
          {"kind", to_string(r.verdict.kind)},
          {"message", r.verdict.message},
          {"path", path_of(r.verdict.plan)},
          {"needs", r.needs},
          {"indifferent", r.indifferent},
          {"guess", guess.known()
                        ? Json{{"class", id_of(guess.likely)},
                               {"why", guess.why},
                               {"also", guess.also == FaultClass::kUnknown ? Json() : Json(id_of(guess.also))}}
                        : Json()}};
}

Json failure_json(const Failure& failure, double seconds, const Filed& filed) {
  Json j = {{"property", failure.property->name},
            {"kind", to_string(failure.verdict.kind)},
            {"message", failure.verdict.message},
            {"path", path_of(failure.verdict.plan)},
            {"cheat", to_string(failure.verdict.exploit)},
            {"flaky", failure.flaky},
            {"seconds", seconds},
            {"reproducer", filed.reproducer}};
  if (failure.file.empty()) {
    j["index"] = failure.index;
  } else {
    j["found_before"] = true;
  }
  return j;
}

Json confinement_json(uint32_t measures) {
  Json confined = Json::array(), lacking = Json::array();
  for (const MeasureName& m : measure_names()) (measures & m.measure ? confined : lacking).push_back(m.name);
  return {{"confined", confined}, {"lacking", lacking}};
}

}  // namespace

PropertyStats total_of(const CheckResult& result) {
  PropertyStats total;
  for (const auto& [name, n] : result.properties) total.merge(n);
  return total;
}

const char* status_of(const Checked& checked) {
  if (!checked.result.failures.empty()) return "found";
  if (checked.result.interrupted) return "interrupted";
  return checked.not_judged.empty() ? "held" : "not judged";
}

std::string check_json(const CheckOptions& options, const Checked& checked) {
  const KernelInfo& kernel = checked.kernel;
  const CheckResult& result = checked.result;
  Json j;
  j["status"] = status_of(checked);
  j["not_judged"] = checked.not_judged;
  j["kernel"] = kernel.name;
  j["backend"] = kernel.backend == ATTN_CPU ? "cpu" : "cuda";
  j["lane"] = kernel.build_kind;
  j["build"] = kernel.build.hash;
  if (!kernel.device.empty()) j["device"] = kernel.device;
  if (checked.measures != 0) j["untrusted"] = confinement_json(checked.measures);
  if (checked.taken) j["taken_share"] = *checked.taken;
  if (checked.exploit != Exploit::kNone) j["cheat"] = to_string(checked.exploit);
  j["seed"] = options.seed;
  j["cases"] = result.cases();
  if (result.uncounted + result.never_run + result.died_with.size() > 0)
    j["lost"] = {{"in_flight", result.died_with}, {"not_counted", result.uncounted}, {"not_run", result.never_run}};
  j["seconds"] = result.seconds;
  j["digest"] = result.digest.hex();
  j.update(Json(static_cast<const Statistics&>(result)));
  // The sums over all properties, and the three numbers that a reader wants first.
  const PropertyStats all = total_of(result);
  j["all"] = all;
  j["all"]["runs"] = all.ratios.count();
  j["all"]["median"] = all.ratios.median();
  j["all"]["worst"] = std::isfinite(all.ratios.worst()) ? Json(all.ratios.worst()) : Json("inf");
  if (!options.path.empty()) j["way"] = options.path;
  if (result.declared_of > 0) j["declared_share"] = result.declared / static_cast<double>(result.declared_of);
  j["broken_floors"] = options.path.empty()
                           ? result.features.broken_floors(checked.refused, Classification::kByChance)
                           : std::vector<std::string>{};
  if (checked.covered) j["coverage"] = *checked.covered;
  if (const auto& tiles = checked.tiles; tiles && tiles->keys > 0)
    j["tiles"] = {{"queries", tiles->queries},
                  {"keys", tiles->keys},
                  {"keys_shown", tiles->shown > 0 ? Json(tiles->shown) : Json()},
                  {"contradicted", tiles->contradicted()},
                  {"broken", tiles->broken}};
  j["census"] = result.census;
  // The first failure is also written as "failure", because there is seldom a second one.
  for (size_t i = 0; i < result.failures.size(); ++i) {
    const Filed filed = i < checked.filed.size() ? checked.filed[i] : Filed{};
    Json failure = failure_json(result.failures[i], result.seconds, filed);
    if (i == 0) j["failure"] = failure;
    if (filed.reduction) failure["reduction"] = reduction_json(filed);
    if (i == 0 && filed.reduction) j["reduction"] = failure["reduction"];
    j["failures"].push_back(failure);
  }
  j["suspects"] = Json::array();
  for (size_t i = 0; i < checked.warnings.size(); ++i) {
    const WarnedCase& warned = result.warnings[i];
    j["suspects"].push_back({{"index", warned.index},
                             {"sign", warned.warning.sign},
                             {"message", warned.warning.message},
                             {"reproducer", checked.warnings[i]}});
  }
  return json_text(j) + "\n";
}

}  // namespace attnfuzz
