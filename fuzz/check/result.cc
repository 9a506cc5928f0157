// Adding up results, and carrying them from a job to its parent.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "fuzz/check/shard.h"

namespace attnfuzz {

void PropertyCount::merge(const PropertyCount& other) {
  cases += other.cases;
  passed += other.passed;
  rejected += other.rejected;
  uninformative += other.uninformative;
  failed += other.failed;
  ratios.merge(other.ratios);
}

uint64_t CheckResult::cases() const {
  uint64_t sum = 0;
  for (const auto& [name, n] : properties) sum += n.cases;
  return sum;
}

void CheckResult::merge(const CheckResult& other) {
  for (const auto& [name, n] : other.properties) properties[name].merge(n);
  for (const auto& [reason, n] : other.rejections) rejections[reason] += n;
  classification.merge(other.classification);
  digest.merge(other.digest);
  if (other.failure && (!failure || other.failure->index < failure->index)) failure = other.failure;
  for (size_t i = 0; i < stage_seconds.size(); ++i) stage_seconds[i] += other.stage_seconds[i];
  rows += other.rows;
  dead_rows += other.dead_rows;
  unconstrained_rows += other.unconstrained_rows;
  uninformative_rows += other.uninformative_rows;
  for (const std::string& assumption : other.assumptions) {
    if (std::ranges::find(assumptions, assumption) == assumptions.end()) assumptions.push_back(assumption);
  }
  seconds = std::max(seconds, other.seconds);
}

namespace {

// Both ends are the same program on the same machine: a flat record serves. A
// failure crosses as (index, property, case); the parent judges it anew, so
// that what is reported was seen by the process that reports it.
class Writer {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(const std::string& s) {
    put(uint64_t{s.size()});
    text_ += s;
  }
  void put(const std::map<std::string, uint64_t>& m) {
    put(uint64_t{m.size()});
    for (const auto& [key, n] : m) put(key), put(n);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, bytes(sizeof value), sizeof value);
    return value;
  }
  std::string string() {
    const uint64_t n = get<uint64_t>();
    return {bytes(n), n};
  }
  std::map<std::string, uint64_t> counts() {
    std::map<std::string, uint64_t> m;
    for (uint64_t n = get<uint64_t>(); n > 0; --n) {
      std::string key = string();
      m[key] = get<uint64_t>();
    }
    return m;
  }

 private:
  const char* bytes(uint64_t n) {
    if (n > text_.size() - at_)
      throw std::runtime_error("a job of the check ended before its result was complete");
    const char* p = text_.data() + at_;
    at_ += n;
    return p;
  }
  const std::string& text_;
  size_t at_ = 0;
};

}  // namespace

std::string serialize(const CheckResult& r) {
  Writer w;
  w.put(uint64_t{r.properties.size()});
  for (const auto& [name, n] : r.properties) w.put(name), w.put(n);
  w.put(r.rejections);
  w.put(r.classification.cases), w.put(r.classification.rejected), w.put(r.classification.uninformative);
  w.put(r.classification.counts);
  w.put(r.digest);
  w.put(r.stage_seconds);
  w.put(r.rows), w.put(r.dead_rows), w.put(r.unconstrained_rows), w.put(r.uninformative_rows);
  w.put(uint64_t{r.assumptions.size()});
  for (const std::string& assumption : r.assumptions) w.put(assumption);
  w.put(r.seconds);
  w.put(r.failure.has_value());
  if (r.failure)
    w.put(r.failure->index), w.put(std::string(r.failure->property->name)), w.put(encode(r.failure->c));
  return w.take();
}

CheckResult deserialize(const std::string& text) {
  Reader in(text);
  CheckResult r;
  for (uint64_t n = in.get<uint64_t>(); n > 0; --n) {
    const std::string name = in.string();
    r.properties[name] = in.get<PropertyCount>();
  }
  r.rejections = in.counts();
  r.classification.cases = in.get<uint64_t>();
  r.classification.rejected = in.get<uint64_t>();
  r.classification.uninformative = in.get<uint64_t>();
  r.classification.counts = in.counts();
  r.digest = in.get<StreamDigest>();
  r.stage_seconds = in.get<std::array<double, 4>>();
  r.rows = in.get<uint64_t>();
  r.dead_rows = in.get<uint64_t>();
  r.unconstrained_rows = in.get<uint64_t>();
  r.uninformative_rows = in.get<uint64_t>();
  for (uint64_t n = in.get<uint64_t>(); n > 0; --n) r.assumptions.push_back(in.string());
  r.seconds = in.get<double>();
  if (in.get<bool>()) {
    Failure failure;
    failure.index = in.get<uint64_t>();
    failure.property = find_property(in.string());
    auto decoded = decode(in.string());
    if (!std::holds_alternative<Case>(decoded) || failure.property == nullptr) {
      throw std::runtime_error("a job of the check sent a failure that cannot be read");
    }
    failure.c = std::get<Case>(decoded);
    r.failure = std::move(failure);
  }
  return r;
}

}  // namespace attnfuzz
