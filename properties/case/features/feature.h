// A feature of a case, with everything about it in one place: how it is removed, drawn, mutated, described
// and refused. The draw, the mutations, the reducer, the classification and the descriptions all loop over
// the features.
//
// A new feature is its field in case.h (outside of a problem in codec_fields.h too) and one file
// features/NAME.cc. It must answer each question below, or name it in `without`: a member that is left out does
// not compile.
//
//   for (const Feature* feature : all_features()) feature->tidy(c);
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "properties/case/case.h"
#include "properties/case/features/cost.h"
#include "properties/case/features/generator_config.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/limits.h"
#include "properties/case/places/layouts.h"
#include "properties/case/rng.h"
#include "properties/case/words.h"

namespace attnfuzz {

inline constexpr struct None {
} none;

// A function or `none`, which does nothing and returns R().
template <typename Signature>
class OptionalFunction;
template <typename R, typename... Args>
class OptionalFunction<R(Args...)> {
 public:
  constexpr OptionalFunction(None = none) {}
  template <typename F>
    requires std::convertible_to<F, R (*)(Args...)>
  constexpr OptionalFunction(F function) : function_(function) {}
  R operator()(Args... args) const { return function_ ? function_(std::forward<Args>(args)...) : R(); }
  constexpr bool empty() const { return function_ == nullptr; }

 private:
  R (*function_)(Args...) = nullptr;
};

// A list or `none`.
template <typename T, size_t kMost = 12>
class InplaceVector {
 public:
  constexpr InplaceVector(None = none) {}
  constexpr InplaceVector(std::initializer_list<T> all) : InplaceVector(std::span<const T>(all)) {
    if (all.size() == 0) throw "say none";
  }
  constexpr explicit InplaceVector(std::span<const T> all) : size_(all.size()) {
    std::ranges::copy(all, all_.begin());
  }
  constexpr const T* begin() const { return all_.data(); }
  constexpr const T* end() const { return begin() + size_; }
  constexpr bool empty() const { return size_ == 0; }

 private:
  std::array<T, kMost> all_ = {};
  size_t size_ = 0;
};

// The toggles that the reducer turns off, and their place among all toggles. Each tensor may have one.
using ShrinkToggleList = InplaceVector<ShrinkToggle, 12 + kTensorCount>;
struct ShrinkToggles {
  constexpr ShrinkToggles(None = none) : place(0), all(none) {}
  constexpr bool empty() const { return all.empty(); }
  constexpr ShrinkToggles(int at, ShrinkToggleList shrink_toggles) : place(at), all(shrink_toggles) {}
  int place;
  ShrinkToggleList all;
};

// Alternative values of a part. Each is tried by itself on a case that has the usual value. If all of them
// fail, too, the part does not matter.
struct Alternatives {
  const char* part;  // "softcap"
  bool (*usual)(const Case& c);
  std::array<void (*)(Case&), 3> edits;  // unused entries are null
  // words for the usual value, if it is needed because all others pass: "f16"
  const char* needed = nullptr;
};

// A unit that a mutation draws anew, or that a crossover takes from the other parent.
struct CrossoverGroup {
  const char* name;
  int weight;  // how often it is drawn anew, relative to others
  void (*take)(Case& to, const Case& from);
};

// A case with a kernel's tiles.
struct Tiled {
  const Case& c;
  const Problem& p;
  int64_t tile_q, tile_k, splits;
};

// Names by which a draw is classified, and which a fuzzer collects in pairs. Stored ledgers hold these
// names: a changed name is missing from old ledgers.
enum class TagUse : uint8_t { kClasses, kPairs, kBoth };
struct Tag {
  const char* name;
  bool (*there)(const Tiled& x);
  TagUse use = TagUse::kClasses;
};

// Something that a kernel may refuse: ask() adds it alone to a problem, and strip() removes it from a case.
struct Refusal {
  const char* name;  // as people read it: "windows"
  void (*ask)(Problem& p);
  void (*strip)(Case& c);
  std::array<const char*, 2> properties = {};  // properties that need it, so a refusal makes them pointless
  const char* floor = nullptr;                 // the draw's floor that a refusal drops (generator.h)
  Limit limit = Limit::kNone;                  // the limit by which a kernel declares the refusal
};

// The configuration, random numbers and tiles that a case is drawn with.
struct DrawContext {
  const GeneratorConfig& config;
  Rng& rng;
  int64_t tile_q, tile_k;
};
// The phases of a draw, in order. kNone: never drawn. kLater: drawn after all others, from random numbers of
// its own, so that cases without the feature stay as they were before there was one.
enum class Phase : uint8_t { kNone, kSizes, kVisibility, kValues, kMemory, kLater };

struct Draw {
  constexpr Draw(None = none) : phase(Phase::kNone), draw(none) {}
  constexpr bool empty() const { return phase == Phase::kNone; }
  constexpr Draw(Phase in, OptionalFunction<void(const DrawContext& context, Case& c)> function)
      : phase(in), draw(function) {}
  Phase phase;
  OptionalFunction<void(const DrawContext& context, Case& c)> draw;
};

// A number that a mutation doubles, halves, moves by one, or moves to a tile's border.
struct MovableNumber {
  int64_t now, least, tile, other;  // other: a number that it may be made equal to
  std::function<void(Case&, int64_t)> set;
};

// The place of the words in a description.
enum class Section : uint8_t { kMask, kNumber, kData, kSurroundings, kCalls };
using Sentence = std::vector<std::string>;
struct Words {
  Section where;
  int order;  // among words of the same place
  void (*say)(const Case& c, Sentence& words);
};

namespace feature {
// The members of a Feature, in their order.
enum Member : uint8_t {
  kShrinkToggles,
  kShrinkIntegers,
  kAlternatives,
  kCost,
  kCanonicalSeeds,
  kDraw,
  kCrossoverGroups,
  kNumbers,
  kMutations,
  kRefusals,
  kTags,
  kWords,
  kTidy,
  kIllegal
};
}  // namespace feature

struct Feature {
  InplaceVector<feature::Member, 14> without;  // the members that are left empty

  // For the reducer: what can be turned off, lowered, or replaced.
  ShrinkToggles shrink_toggles;
  InplaceVector<ShrinkInteger> shrink_integers;
  InplaceVector<Alternatives> alternatives;
  OptionalFunction<void(const Case& c, Cost& cost)> cost;
  // The simplest forms in which the feature alone shows a bug, for keys in tiles of this size.
  OptionalFunction<void(int64_t tile_k, std::vector<std::function<void(Case&)>>& seeds)> canonical_seeds;

  // For draws and mutations: in the order of the list, each with its own random numbers.
  Draw draw;
  InplaceVector<CrossoverGroup> crossover_groups;
  OptionalFunction<void(const DrawContext& context, const Case& c, std::vector<MovableNumber>& numbers)>
      numbers;
  // Changes a value; false if there is none to change.
  InplaceVector<bool (*)(const DrawContext& context, Case& c)> mutations;

  InplaceVector<Refusal> refusals;
  InplaceVector<Tag> tags;
  InplaceVector<Words> words;

  // Removes what remains of the feature once something that it needs is gone.
  OptionalFunction<void(Case& c)> tidy;
  // Why the case cannot be run, if it cannot: the field, and what it must be.
  OptionalFunction<std::optional<std::string>(const Case& c)> illegal;
};

// The feature itself, whose members are all given or named in `without`. Otherwise the call does not compile.
consteval Feature checked(const Feature& f) {
  const auto& [without, shrink_toggles, shrink_integers, alternatives, cost, canonical_seeds, draw,
               crossover_groups, numbers, mutations, refusals, tags, words, tidy, illegal] = f;
  const auto all = std::tie(shrink_toggles, shrink_integers, alternatives, cost, canonical_seeds, draw,
                            crossover_groups, numbers, mutations, refusals, tags, words, tidy, illegal);
  const auto empty = std::apply([](const auto&... member) { return std::array{member.empty()...}; }, all);
  for (size_t n = 0; n < std::size(empty); ++n) {
    if (empty[n] != (std::ranges::find(without, static_cast<feature::Member>(n)) != without.end()))
      throw "name each member that is left empty in `without`, and no other";
  }
  return f;
}

// In the order in which they are drawn, which is the order of CMakeLists.txt.
std::span<const Feature* const> all_features();

// The lists of all features, joined in order and sorted by `key`.
template <typename T, typename Key>
std::vector<T> gather(InplaceVector<T> Feature::* list, Key key) {
  std::vector<T> all;
  for (const Feature* feature : all_features()) {
    for (const T& one : feature->*list)
      all.insert(std::ranges::upper_bound(all, std::invoke(key, one), {}, key), one);
  }
  return all;
}

// Words of all features of a case: "softcap 30", "mask: all keys".
Sentence all_words(const Case& c);

// Case{}, with every feature off.
const Case& plain_case();

// These functions take fields by a function that ties them: `[](auto& c) { return std::tie(c.poison); }`.
// It is called through its type, because clang 19 gives such objects of all files one name.
template <auto kFields>
void take(Case& to, const Case& from) {
  decltype(kFields){}(to) = decltype(kFields){}(from);
}
template <auto kFields>
bool is_set(const Case& c) {
  return decltype(kFields){}(c) != decltype(kFields){}(plain_case());
}
template <auto kFields>
bool is_usual(const Case& c) {
  return !is_set<kFields>(c);
}
template <auto kFields>
void unset(Case& c) {
  take<kFields>(c, plain_case());
}
// A toggle for these fields with one form: as found.
template <auto kFields>
constexpr ShrinkToggle whole_toggle(const char* name, Trait trait = Trait::kOwn) {
  return {name, is_set<kFields>, unset<kFields>,
          [](Case& to, const Case& from, int choice) {
            take<kFields>(to, from);
            return choice == 0;
          },
          trait};
}
// A toggle for one field: first this value, then as found.
template <auto kFields, auto kSimplest>
constexpr ShrinkToggle value_toggle(const char* name) {
  return {name, is_set<kFields>, unset<kFields>, [](Case& to, const Case& from, int choice) {
            take<kFields>(to, from);
            if (choice == 0) decltype(kFields){}(to) = std::make_tuple(kSimplest);
            return choice < 2;
          }};
}

// The number in one field.
template <auto kField>
constexpr ShrinkInteger shrink_integer(const char* name, IntegerKind kind, int64_t least) {
  return {name, kind, least, [](const Case& c) { return std::get<0>(kField(c)); },
          [](Case& c, int64_t value) { std::get<0>(kField(c)) = value; }};
}

// A field's fault, in words.
using Complaint = std::optional<std::string>;

inline constexpr int64_t kMaxSize = int64_t{1} << 31;
inline constexpr int64_t kMaxIndex = int64_t{1} << 40;  // of a remapped recipe

inline bool hides_by_diagonal(const Problem& p) { return p.causal || p.window_left >= 0 || p.window_right >= 0; }
inline bool is_append(const Problem& p) { return (p.features & ATTN_FEATURE_APPEND) != 0; }

inline std::string say(std::string_view field, int64_t value, const std::string& allowed) {
  return cat(field, " is ", value, ", must be ", allowed);
}

inline Complaint outside(std::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return std::nullopt;
  return say(field, value, cat(low, "..", high));
}

// Prefixes a member's complaint with its field. The reducer checks the legality of every case, so names
// are joined only if there is a complaint.
template <typename... Name>
Complaint of_field(const Complaint& member, const Name&... field) {
  return member ? Complaint(cat(field..., *member)) : std::nullopt;
}

inline Complaint bad_fill(std::string_view field, const Fill& fill) {
  if (fill.version != 1) return say(cat(field, ".version"), fill.version, "1, the only one known");
  return of_field(outside(".exponent", fill.exponent, -256, 256), field);
}

inline constexpr int64_t kLargestNumber = int64_t{1} << 31;  // mutations go no further
// Changes a number as a mutation does: doubles it, halves it, moves it by one or a tile, moves it to a
// tile's border, or makes it equal to another.
int64_t moved(int64_t now, int64_t least, int64_t tile, int64_t other, Rng& rng);

}  // namespace attnfuzz
