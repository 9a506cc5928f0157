// Adds up results, and serialises them, because a job sends its result to its parent.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "fuzz/check/counts/records.h"
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

namespace {

// Writes a length in eight bytes, then that many bytes. Long texts are not written as CBOR, whose reader takes
// a text byte by byte.
void put(std::string& text, const std::string& bytes) {
  const uint64_t size = bytes.size();
  text.append(reinterpret_cast<const char*>(&size), sizeof size).append(bytes);
}

// Takes what put() wrote from the front of the text.
std::string take(std::string_view& text) {
  uint64_t size;
  if (text.size() < sizeof size) throw std::runtime_error("it has no length");
  std::memcpy(&size, text.data(), sizeof size);
  text.remove_prefix(sizeof size);
  if (text.size() < size) throw std::runtime_error("it is shorter than its length");
  std::string bytes(text.substr(0, size));
  text.remove_prefix(size);
  return bytes;
}

}  // namespace

// First the parts that serialise themselves, then CBOR, which keeps every bit of a number and every
// byte of a text.
std::string serialize(const CheckResult& result) {
  std::string text;
  put(text, result.coverage.bytes());
  put(text, result.census.bytes());
  Json::to_cbor(Json::array({Json(static_cast<const Statistics&>(result)), Json(result)}), text);
  return text;
}

CheckResult deserialize(const std::string& text) {
  try {
    std::string_view rest = text;
    CheckResult result;
    result.coverage = Coverage::of_bytes(take(rest));
    result.census = Census::of_bytes(take(rest));
    const Json j = Json::from_cbor(rest);
    j.at(0).get_to(static_cast<Statistics&>(result));
    j.at(1).get_to(result);
    return result;
  } catch (const std::exception& e) {
    throw std::runtime_error(std::string("a job of the check ended before its result was complete: ") +
                             e.what());
  }
}

}  // namespace attnfuzz
