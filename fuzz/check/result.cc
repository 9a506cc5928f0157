// Adding up results, and carrying them from a job to its parent.
#include <algorithm>
#include <stdexcept>

#include "fuzz/check/records.h"
#include "fuzz/check/shard.h"

namespace attnfuzz {

void CheckResult::merge(const CheckResult& other) {
  Statistics::merge(other);
  digest.merge(other.digest);
  coverage.merge(other.coverage);
  census.merge(other.census);
  for (const Failure& failure : other.failures) add(failure);
  for (const WarnedCase& warned : other.warnings) add(warned);
  assume(other.assumptions);
  declared += other.declared;
  declared_of += other.declared_of;
  seconds = std::max(seconds, other.seconds);
}

void CheckResult::assume(const std::vector<Assumption>& what) {
  for (const Assumption& assumption : what) {
    if (std::ranges::find(assumptions, assumption) == assumptions.end()) assumptions.push_back(assumption);
  }
}

void CheckResult::add(Failure failure) {
  const std::string_view kind = kind_class(failure.verdict.kind);
  const auto same =
      std::ranges::find_if(failures, [&](const Failure& f) { return kind_class(f.verdict.kind) == kind; });
  if (same != failures.end()) {
    if (!same->file.empty() || (failure.file.empty() && same->index <= failure.index)) return;
    failures.erase(same);
  }
  // Failures that were found before come first.
  const auto later = [&](const Failure& f) {
    return f.file.empty() && (!failure.file.empty() || f.index > failure.index);
  };
  failures.insert(std::ranges::find_if(failures, later), std::move(failure));
}

void CheckResult::add(WarnedCase warned) {
  const auto same =
      std::ranges::find(warnings, warned.warning.sign, [](const WarnedCase& s) { return s.warning.sign; });
  if (same == warnings.end())
    warnings.push_back(std::move(warned));
  else if (warned.index < same->index)
    *same = std::move(warned);
}

void fields(Is<WarnedCase> auto& r, auto f) { f("index", r.index), f("suspicion", r.warning); }

void to_json(Json& j, const Failure& r) {
  j = {{"index", r.index}, {"property", r.property->name}, {"case", r.c}, {"verdict", r.verdict}};
}

void from_json(const Json& j, Failure& r) {
  j.at("index").get_to(r.index), j.at("case").get_to(r.c), j.at("verdict").get_to(r.verdict);
  r.property = find_property(j.at("property").get<std::string>());
}

void fields(Is<CheckResult> auto& r, auto f) {
  f.bytes("digest", r.digest), f("assumptions", r.assumptions), f("seconds", r.seconds),
      f("declared", r.declared), f("declared_of", r.declared_of), f("failures", r.failures),
      f("suspects", r.warnings);
}

// CBOR, which keeps every bit of a number and every byte of a text.
std::string serialize(const CheckResult& result) {
  std::string text;
  Json::to_cbor(Json::array({Json(static_cast<const Statistics&>(result)), Json(result),
                             result.coverage.bytes(), result.census.bytes()}),
                text);
  return text;
}

CheckResult deserialize(const std::string& text) {
  try {
    const Json j = Json::from_cbor(text);
    CheckResult result;
    j.at(0).get_to(static_cast<Statistics&>(result));
    j.at(1).get_to(result);
    result.coverage = Coverage::of_bytes(j.at(2).get_ref<const std::string&>());
    result.census = Census::of_bytes(j.at(3).get_ref<const std::string&>());
    return result;
  } catch (const std::exception& e) {
    throw std::runtime_error(std::string("a job of the check ended before its result was complete: ") +
                             e.what());
  }
}

}  // namespace attnfuzz
