#include "properties/reduce/vary.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "properties/case/features/feature.h"
#include "properties/case/words.h"
#include "properties/reduce/passes.h"

namespace attnfuzz {
namespace {

// The outcomes of the variants of one part.
struct Tally {
  int fails = 0, passes = 0;
  void add(Search::Answer answer) {
    fails += answer == Search::Answer::kFails;
    passes += answer == Search::Answer::kPasses;
  }
  bool always() const { return fails > 0 && passes == 0; }
  bool never() const { return fails == 0 && passes > 0; }
};

class Varier {
 public:
  explicit Varier(Search& s) : s_(s), minimal_(s.best()) {}

  Variation take() { return std::move(said_); }

  void numbers() {
    for (const ShrinkInteger& integer : shrink_integers()) {
      if (integer.applies(minimal_)) number(integer);
    }
  }

  // Features of the minimal case without which it passes.
  void present() {
    for (const ShrinkToggle& feature : shrink_toggles()) {
      if (!feature.present(minimal_) || counted(feature)) continue;
      Case without = minimal_;
      feature.remove(without);
      if (s_.forced(minimal_, without)) continue;
      const Search::Answer answer = with(feature.remove);
      if (s_.out_of_time()) return;
      if (answer == Search::Answer::kFails) {
        indifferent(feature.name);
      } else {
        needs({.part = feature.name, .refused = answer == Search::Answer::kRefused, .text = name_of(feature)});
      }
    }
    const auto calls = static_cast<int64_t>(minimal_.calls.size());
    if (calls > 1) {
      needs({.part = "calls", .relation = Relation::kAtLeast, .value = calls, .text = cat(calls, " calls")});
    }
  }

  // Alternatives for parts that the minimal case has in their default form.
  void alternatives() {
    for (const Feature* feature : all_features()) {
      for (const Alternatives& alternatives : feature->alternatives) {
        if (!alternatives.usual(minimal_)) continue;
        Tally tally;
        for (const auto edit : alternatives.edits) {
          if (!edit) continue;
          Case other = minimal_;
          edit(other);
          if (!s_.forced(minimal_, other)) tally.add(with(edit));
        }
        if (tally.always()) indifferent(alternatives.part);
        if (tally.never() && alternatives.needed)
          needs({.part = alternatives.part, .text = alternatives.needed});
      }
    }
  }

  void values() {
    values("values of q", &Case::q);
    values("values of k", &Case::k);
    values("values of v", &Case::v);
  }

 private:
  template <typename Edit>
  Search::Answer with(Edit&& edit) {
    Case c = minimal_;
    edit(c);
    return s_.ask(std::move(c));
  }

  // If the time ran out while a part was varied, nothing is said about it.
  void needs(Need need) {
    if (!s_.out_of_time()) said_.needs.push_back(std::move(need));
  }
  void indifferent(const std::string& what) {
    if (!s_.out_of_time() && std::ranges::find(said_.indifferent, what) == said_.indifferent.end())
      said_.indifferent.push_back(what);
  }

  // True if the feature is a number, or if one of its numbers is already known to be needed.
  bool counted(const ShrinkToggle& feature) const {
    return feature.trait == Trait::kCounted || feature.trait == Trait::kSize ||
           (feature.integer &&
            std::ranges::find(said_.needs, feature.integer, &Need::part) != said_.needs.end());
  }

  // "the scale" becomes "scale 0.5", "mask" becomes "mask: all keys".
  std::string name_of(const ShrinkToggle& feature) const {
    std::string_view name = feature.name;
    if (name.starts_with("the ")) name.remove_prefix(4);
    for (const std::string& words : all_words(minimal_)) {
      if (words.starts_with(name)) return words;
    }
    return feature.name;
  }

  Search::Answer at(const ShrinkInteger& integer, int64_t value) {
    return with([&](Case& c) { integer.set(c, value); });
  }

  void number(const ShrinkInteger& integer) {
    const int64_t now = integer.get(minimal_), tile = s_.borders().tile_of(integer);
    const bool length = integer.kind == IntegerKind::kQueries || integer.kind == IntegerKind::kKeys ||
                        integer.kind == IntegerKind::kKeyLength;
    // A parameter that its kind does not use does not count.
    if (integer.kind == IntegerKind::kParameter && now == 1) return;
    std::vector<int64_t> more = {now + 1, now + 2, now + 3};
    if (length) more.insert(more.end(), {now + tile, 2 * now + tile + 5});
    if (integer.kind == IntegerKind::kDim) more.insert(more.end(), {now + 8, 2 * now + 6});
    std::vector<std::pair<int64_t, Search::Answer>> tried;
    const auto need = [&](Relation relation, std::string text, int64_t period = 0, int64_t least = 0) {
      needs({.part = integer.name,
             .relation = relation,
             .value = now,
             .period = period,
             .least = least,
             .text = std::move(text)});
    };
    Tally tally;
    for (const int64_t value : more) {
      tried.emplace_back(value, at(integer, value));
      tally.add(tried.back().second);
    }
    if (tally.always()) {
      Case least = minimal_;
      integer.set(least, integer.least);
      // If the kernel takes no smaller value, the least one says nothing. Other fields that follow the number
      // do not count, such as a scale that follows a head dimension.
      if (now > integer.least && integer.get(s_.settled(least)) != now) {
        need(Relation::kAtLeast, cat(integer.name, " >= ", now));
      } else {
        indifferent(integer.name);
      }
    } else if (tally.never()) {
      need(Relation::kExactly, cat(integer.name, " = ", now));
    } else if (tally.fails > 0) {
      const auto fails = [&](int64_t value) {
        return std::ranges::any_of(
            tried, [&](const auto& t) { return t.first == value && t.second == Search::Answer::kFails; });
      };
      if (fails(now + 2) && !fails(now + 1) && !fails(now + 3)) {
        const bool more = now > integer.least + 1;
        need(Relation::kRemainder,
             cat(integer.name, now % 2 == 0 ? " even" : " odd", more ? cat(", >= ", now) : ""), 2,
             more ? now : 0);
      } else if (length && fails(now + tile) && !fails(now + 1)) {
        need(Relation::kRemainder, cat(integer.name, " = ", now % tile, " (mod ", tile, ")"), tile);
      } else {
        std::vector<std::string> not_at;
        for (const auto& [value, answer] : tried) {
          if (answer == Search::Answer::kPasses) not_at.push_back(cat(value));
        }
        const bool more = now > integer.least;
        need(more ? Relation::kAtLeast : Relation::kOtherThan,
             cat(integer.name, more ? cat(" >= ", now, " except ") : std::string(" other than "),
                 join(not_at, ", ")));
      }
    }
  }

  void values(const char* name, Fill Case::* fill) {
    std::vector<std::string> shows = {to_string((minimal_.*fill).kind)}, hides;
    for (const FillKind kind :
         {FillKind::kZero, FillKind::kConstant, FillKind::kPosition, FillKind::kUniform, FillKind::kGaussian}) {
      if (kind == (minimal_.*fill).kind) continue;
      const Search::Answer answer = with([&](Case& c) { c.*fill = Fill{.kind = kind}; });
      if (answer == Search::Answer::kFails) shows.push_back(to_string(kind));
      if (answer == Search::Answer::kPasses) hides.push_back(to_string(kind));
    }
    if (hides.empty() && shows.size() > 1) {
      indifferent(name);
    } else if (!hides.empty() && hides.size() < shows.size()) {
      needs({.part = name,
             .relation = Relation::kOtherThan,
             .text = cat(name, " other than ", join(hides, ", "))});
    } else if (!hides.empty()) {
      needs({.part = name, .text = cat(name, ": ", join(shows, " or "))});
    }
  }

  Search& s_;
  const Case minimal_;
  Variation said_;
};

}  // namespace

Variation vary(Search& s) {
  Varier varier(s);
  varier.numbers();
  varier.present();
  varier.alternatives();
  varier.values();
  return varier.take();
}

}  // namespace attnfuzz
