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
  for (const Failure& failure : other.failures) add(failure);
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

void CheckResult::add(Failure failure) {
  const std::string_view kind = kind_class(failure.verdict.kind);
  const auto same =
      std::ranges::find_if(failures, [&](const Failure& f) { return kind_class(f.verdict.kind) == kind; });
  if (same != failures.end()) {
    if (!same->file.empty() || (failure.file.empty() && same->index <= failure.index)) return;
    failures.erase(same);
  }
  // What was found before comes first.
  const auto later = [&](const Failure& f) {
    return f.file.empty() && (!failure.file.empty() || f.index > failure.index);
  };
  failures.insert(std::ranges::find_if(failures, later), std::move(failure));
}

namespace {

// Both ends are the same program on the same machine: a flat record serves.
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
  void put(const std::vector<std::string>& list) {
    put(uint64_t{list.size()});
    for (const std::string& s : list) put(s);
  }
  // Of a verdict what is told of a failure.
  void put(const Verdict& v) {
    put(v.outcome), put(v.kind), put(v.property), put(v.message), put(v.crash), put(v.site);
    put(uint64_t{v.shapes.size()});
    for (const Shape& shape : v.shapes) put(shape.text), put(shape.kind);
    put(v.where.has_value());
    if (v.where) {
      const Where& w = *v.where;
      put(w.tensor);
      for (const int64_t n : {w.b, w.h, w.q, w.d, w.tile_q, w.bad, w.of}) put(n);
      for (const double x : {w.got, w.expected, w.bound}) put(x);
    }
    put(v.fault.has_value());
    if (v.fault) {
      const Fault& f = *v.fault;
      put(f.kind), put(f.block), put(f.thread), put(f.message), put(f.file), put(f.line), put(f.detail);
    }
    put(v.failing ? encode(*v.failing) : std::string());
    put(v.call), put(v.worst), put(v.plan), put(v.rows), put(v.sampled), put(v.assumptions);
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
  std::vector<std::string> strings() {
    std::vector<std::string> list(get<uint64_t>());
    for (std::string& s : list) s = string();
    return list;
  }
  Case a_case(const std::string& text) {
    auto decoded = decode(text);
    if (std::holds_alternative<Case>(decoded)) return std::get<Case>(std::move(decoded));
    throw std::runtime_error("a job of the check sent a failure that cannot be read");
  }
  Verdict verdict() {
    Verdict v;
    v.outcome = get<Outcome>(), v.kind = get<Kind>();
    v.property = string(), v.message = string(), v.crash = string(), v.site = string();
    v.shapes.resize(get<uint64_t>());
    for (Shape& shape : v.shapes) shape.text = string(), shape.kind = get<ShapeKind>();
    if (get<bool>()) {
      Where& w = v.where.emplace();
      w.tensor = get<TensorId>();
      for (int64_t* n : {&w.b, &w.h, &w.q, &w.d, &w.tile_q, &w.bad, &w.of}) *n = get<int64_t>();
      for (double* x : {&w.got, &w.expected, &w.bound}) *x = get<double>();
    }
    if (get<bool>()) {
      Fault& f = v.fault.emplace();
      f.kind = get<attn_report_kind>();
      f.block = get<std::array<uint32_t, 3>>(), f.thread = get<std::array<uint32_t, 3>>();
      f.message = string(), f.file = string(), f.line = get<int>();
      f.detail = get<Fault::Detail>();
    }
    if (const std::string text = string(); !text.empty()) v.failing = a_case(text);
    v.call = get<int>(), v.worst = get<double>(), v.plan = get<attn_plan>();
    v.rows = get<int64_t>(), v.sampled = get<int64_t>(), v.assumptions = strings();
    return v;
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
  w.put(r.assumptions);
  w.put(r.seconds);
  w.put(uint64_t{r.failures.size()});
  for (const Failure& f : r.failures)
    w.put(f.index), w.put(std::string(f.property->name)), w.put(encode(f.c)), w.put(f.verdict);
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
  r.assumptions = in.strings();
  r.seconds = in.get<double>();
  for (uint64_t n = in.get<uint64_t>(); n > 0; --n) {
    Failure& failure = r.failures.emplace_back();
    failure.index = in.get<uint64_t>();
    failure.property = find_property(in.string());
    failure.c = in.a_case(in.string());
    failure.verdict = in.verdict();
  }
  return r;
}

}  // namespace attnfuzz
