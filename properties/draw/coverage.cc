#include "properties/draw/coverage.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "base/hash.h"
#include "properties/axes/axis.h"
#include "properties/case/words.h"
#include "properties/draw/draw.h"
#include "properties/draw/mutate.h"
#include "properties/draw/rapidcheck_rng.h"

namespace attnfuzz {
namespace {

// The classes of all axes, numbered one after another.
struct Table {
  std::vector<uint32_t> first;              // first number of each axis
  std::vector<std::pair<int, int>> places;  // axis and class of each number
  uint64_t name = text_hash("");            // hash of the whole table
};
const Table& table() {
  static const Table all = [] {
    Table t;
    for (size_t axis = 0; axis < axes().size(); ++axis) {
      t.first.push_back(static_cast<uint32_t>(t.places.size()));
      t.name = text_hash(axes()[axis].name + "\n", t.name);
      for (size_t at = 0; at < axes()[axis].classes.size(); ++at) {
        t.places.emplace_back(static_cast<int>(axis), static_cast<int>(at));
        t.name = text_hash(axes()[axis].classes[at] + "\n", t.name);
      }
    }
    return t;
  }();
  return all;
}
uint32_t class_count() { return static_cast<uint32_t>(table().places.size()); }
const CaseAxis& axis_of(uint32_t n) { return axes()[static_cast<size_t>(table().places[n].first)]; }

// A pair or a triple of numbers as one number. The lower number comes first.
uint64_t pair_at(uint64_t a, uint64_t b) { return b * (b - 1) / 2 + a; }
uint64_t triple_at(uint64_t a, uint64_t b, uint64_t c) { return c * (c - 1) * (c - 2) / 6 + pair_at(a, b); }

void set(std::vector<uint64_t>& bits, uint64_t at) { bits[at / 64] |= uint64_t{1} << at % 64; }
// Sets bit at + n of `bits` for each bit n < count that is set in `from`.
void set_all(std::vector<uint64_t>& bits, uint64_t at, const std::vector<uint64_t>& from, uint64_t count) {
  const uint64_t shift = at % 64;
  for (uint64_t n = 0; 64 * n < count; ++n) {
    const uint64_t left = count - 64 * n, word = left < 64 ? from[n] & ((uint64_t{1} << left) - 1) : from[n];
    if (word == 0) continue;
    bits[at / 64 + n] |= word << shift;
    if (const uint64_t over = shift == 0 ? 0 : word >> (64 - shift)) bits[at / 64 + n + 1] |= over;
  }
}
bool has(const std::vector<uint64_t>& bits, uint64_t at) { return (bits[at / 64] >> at % 64 & 1) != 0; }
uint64_t count(const std::vector<uint64_t>& bits) {
  uint64_t sum = 0;
  for (const uint64_t word : bits) sum += static_cast<uint64_t>(std::popcount(word));
  return sum;
}

std::string name_of(uint32_t n) {
  const auto [axis, at] = table().places[n];
  return axes()[static_cast<size_t>(axis)].name + " " +
         axes()[static_cast<size_t>(axis)].classes[static_cast<size_t>(at)];
}

// Builds cases that have given classes at once.
class Witness {
 public:
  explicit Witness(const GeneratorConfig& config) : config_(config), rng_(rc::Random(rc::Random::Key{})) {
    // Starting points: several entries and heads; one of each; many heads without keys; and two drawn cases.
    for (const auto& [batch, length, keys] : {std::array{2, 3, 3}, {1, 1, 1}, {1, 1, 0}}) {
      Case& c = begin_.emplace_back();
      c.problem.batch = c.problem.heads_q = c.problem.heads_kv = batch;
      c.problem.seq_q = length;
      c.problem.seq_k = keys;
      if (config.variants == 0) c.env.variant = 0;
      fit_domain(config, c);
    }
    for (const uint64_t index : {2, 4}) begin_.push_back(draw(config, 0, index));
  }

  template <size_t N>
  bool legal(std::array<uint32_t, N> classes) {
    for (const Case& begin : begin_) {
      // A later class may undo an earlier one, so both orders are tried.
      for (int way = 0; way < 2; ++way) {
        Case c = begin;
        for (const uint32_t n : classes) make(n, c);
        if (holds(classes, c)) return true;
        std::ranges::reverse(classes);
      }
    }
    return false;
  }

 private:
  DrawContext context() { return {config_, rng_, config_.tiles_q.front(), config_.tiles_k.front()}; }
  void make(uint32_t n, Case& c) { axis_of(n).make(context(), table().places[n].second, c); }

  template <size_t N>
  bool holds(const std::array<uint32_t, N>& classes, Case& c) {
    tidy(c);
    if (illegal(c) || !affordable(c, config_)) return false;
    Case spared = c;
    strip_refused(config_.refused, spared);
    fit_domain(config_, spared);
    tidy(spared);
    const Tiled tiled = {spared, spared.problem, config_.tiles_q.front(), config_.tiles_k.front(),
                         spared.problem.num_splits};
    return std::ranges::all_of(classes,
                               [&](uint32_t n) { return axis_of(n).of(tiled) == table().places[n].second; });
  }

  const GeneratorConfig& config_;
  RapidcheckRng rng_;
  std::vector<Case> begin_;
};

constexpr uint64_t kSampled = 4000;  // triples

}  // namespace

Coverage::Coverage() {
  const uint64_t n = class_count();
  classes_.resize(n / 64 + 1);
  pairs_.resize(pair_at(0, n) / 64 + 1);
  triples_.resize(triple_at(0, 1, n) / 64 + 1);
}

void Coverage::add(const Tiled& x) {
  ++cases_;
  std::vector<uint32_t> is;  // ascending
  std::vector<uint64_t> bits(classes_.size());
  for (size_t axis = 0; axis < axes().size(); ++axis) {
    const int at = axes()[axis].of(x);
    if (at == kNoClass) continue;
    is.push_back(table().first[axis] + static_cast<uint32_t>(at));
    set(bits, is.back());
  }
  // Bits of all pairs with the same higher class lie one after another, and so do those of all triples with the
  // same two higher classes.
  for (size_t c = 0; c < is.size(); ++c) {
    set(classes_, is[c]);
    set_all(pairs_, pair_at(0, is[c]), bits, is[c]);
    for (size_t b = 0; b < c; ++b) set_all(triples_, triple_at(0, is[b], is[c]), bits, is[b]);
  }
}

void Coverage::merge(const Coverage& other) {
  cases_ += other.cases_;
  for (const auto part : {&Coverage::classes_, &Coverage::pairs_, &Coverage::triples_}) {
    std::ranges::transform(this->*part, other.*part, (this->*part).begin(), std::bit_or<>());
  }
}

bool Coverage::met(uint32_t a) const { return has(classes_, a); }
bool Coverage::met(uint32_t a, uint32_t b) const { return has(pairs_, pair_at(a, b)); }
bool Coverage::met(uint32_t a, uint32_t b, uint32_t c) const { return has(triples_, triple_at(a, b, c)); }

std::string Coverage::bytes() const {
  std::string all(reinterpret_cast<const char*>(&table().name), sizeof(uint64_t));
  all.append(reinterpret_cast<const char*>(&cases_), sizeof cases_);
  for (const auto* part : {&classes_, &pairs_, &triples_})
    all.append(reinterpret_cast<const char*>(part->data()), part->size() * sizeof(uint64_t));
  return all;
}

Coverage Coverage::of_bytes(const std::string& bytes) {
  Coverage coverage;
  const std::string none = coverage.bytes();
  if (bytes.size() != none.size() || bytes.compare(0, sizeof(uint64_t), none, 0, sizeof(uint64_t)) != 0)
    throw std::runtime_error("the coverage belongs to another table of axes");
  const char* at = bytes.data() + sizeof(uint64_t);
  const auto take = [&](void* to, size_t size) { std::memcpy(to, at, size), at += size; };
  take(&coverage.cases_, sizeof coverage.cases_);
  for (auto* part : {&coverage.classes_, &coverage.pairs_, &coverage.triples_})
    take(part->data(), part->size() * sizeof(uint64_t));
  return coverage;
}

Covered measure(const Coverage& met, const GeneratorConfig& config, int at_once) {
  Witness witness(config);
  Covered covered;
  const uint32_t n = class_count();
  std::vector<bool> legal(n);
  for (uint32_t a = 0; a < n; ++a) {
    legal[a] = met.met(a) || witness.legal<1>({a});
    covered.classes.met += met.met(a);
    covered.classes.legal += legal[a];
    if (legal[a] && !met.met(a)) covered.classes_missing.push_back(name_of(a));
  }
  if (at_once < 2) return covered;
  std::vector<uint64_t> pairs(pair_at(0, n) / 64 + 1);
  std::vector<std::pair<uint32_t, uint32_t>> missing;
  for (uint32_t b = 0; b < n; ++b) {
    for (uint32_t a = 0; a < b; ++a) {
      if (!legal[a] || !legal[b] || &axis_of(a) == &axis_of(b)) continue;
      const bool there = met.met(a, b);
      if (!there && !witness.legal<2>({a, b})) continue;
      set(pairs, pair_at(a, b));
      covered.pairs.met += there;
      if (!there) missing.emplace_back(a, b);
    }
  }
  covered.pairs.legal = count(pairs);
  for (size_t i = 0; i < std::min(missing.size(), kNamed); ++i) {
    const auto [a, b] = missing[i * missing.size() / std::min(missing.size(), kNamed)];
    covered.pairs_missing.push_back(name_of(a) + " with " + name_of(b));
  }
  if (at_once < 3) return covered;
  // Counts the open triples: their pairs are all legal, and they were not met. About kSampled of them are
  // tried, spread evenly.
  uint64_t open = 0;
  const auto each_open = [&](const auto& visit) {
    for (uint32_t c = 0; c < n; ++c) {
      for (uint32_t b = 0; b < c; ++b) {
        if (!has(pairs, pair_at(b, c))) continue;
        for (uint32_t a = 0; a < b; ++a) {
          if (has(pairs, pair_at(a, b)) && has(pairs, pair_at(a, c)) && !met.met(a, b, c)) visit(a, b, c);
        }
      }
    }
  };
  each_open([&](uint32_t, uint32_t, uint32_t) { ++open; });
  uint64_t at = 0, tried = 0, good = 0;
  const uint64_t step = open / kSampled + 1;
  each_open([&](uint32_t a, uint32_t b, uint32_t c) {
    if (at++ % step != 0) return;
    ++tried;
    good += witness.legal<3>({a, b, c});
  });
  for (uint32_t c = 0; c < n; ++c) {
    for (uint32_t b = 0; b < c; ++b) {
      for (uint32_t a = 0; a < b; ++a) covered.triples.met += met.met(a, b, c);
    }
  }
  covered.triples.legal = covered.triples.met + (tried == 0 ? 0 : open * good / tried);
  return covered;
}

std::string text(const Covered& covered) {
  char line[256];
  std::snprintf(
      line, sizeof line,
      "  met of the table of axes: %llu of %llu classes (%.1f %%), %llu of %llu pairs (%.1f %%), %llu of about "
      "%llu triples (%.0f %%)\n",
      static_cast<unsigned long long>(covered.classes.met),
      static_cast<unsigned long long>(covered.classes.legal), covered.classes.percent(),
      static_cast<unsigned long long>(covered.pairs.met), static_cast<unsigned long long>(covered.pairs.legal),
      covered.pairs.percent(), static_cast<unsigned long long>(covered.triples.met),
      static_cast<unsigned long long>(covered.triples.legal), covered.triples.percent());
  std::string all = line;
  const auto name = [&](const char* what, const std::vector<std::string>& missing, size_t most) {
    if (missing.empty()) return;
    all += std::string("    ") + what + ": ";
    for (size_t i = 0; i < std::min(missing.size(), most); ++i) all += (i == 0 ? "" : "; ") + missing[i];
    all += missing.size() > kNamed ? cat("; and ", missing.size() - most, " more\n") : "\n";
  };
  name("classes not met", covered.classes_missing, kNamed);
  name("pairs not met, some", covered.pairs_missing, 3);
  return all;
}

}  // namespace attnfuzz
