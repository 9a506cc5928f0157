#include "properties/reduce/vary.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "properties/case/switches.h"
#include "properties/case/words.h"
#include "properties/reduce/passes.h"

namespace attnfuzz {
namespace {

// What became of variants of one part.
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
    for (const Dial& dial : dials()) {
      if (dial.applies(minimal_)) number(dial);
    }
  }

  // Features of the minimal case, without which it passes.
  void present() {
    static const std::set<std::string_view> numbers = {"batch",     "more KV heads", "grouped heads",
                                                       "head dims", "more calls",    "num_splits"};
    for (const Switch& feature : switches()) {
      if (!feature.present(minimal_) || numbers.contains(feature.name) || counted(feature)) continue;
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
    const Problem& p = minimal_.problem;
    if (p.causal || p.window_left >= 0 || p.window_right >= 0) {
      const Search::Answer other = with([](Case& c) { c.problem.align = 1 - c.problem.align; });
      if (other == Search::Answer::kFails) indifferent("alignment");
      if (other == Search::Answer::kPasses && !p.causal) {
        needs({.part = "alignment",
               .text = p.align == ATTN_TOP_LEFT ? "top-left alignment" : "bottom-right alignment"});
      }
    }
  }

  // Features that the minimal case does not have, added.
  void absent() {
    const auto whether = [&](const char* name, bool there, std::initializer_list<void (*)(Case&)> variants) {
      if (there) return;
      Tally tally;
      for (const auto variant : variants) tally.add(with(variant));
      if (tally.always()) indifferent(name);
    };
    const Problem& p = minimal_.problem;
    whether("causal", p.causal,
            {[](Case& c) { c.problem.causal = true; },
             [](Case& c) {
               c.problem.causal = true;
               c.problem.align = ATTN_BOTTOM_RIGHT;
             }});
    whether("softcap", p.softcap != 0, {[](Case& c) { c.problem.softcap = 2; }});
    whether("bias", p.bias.has_value(), {[](Case& c) { c.problem.bias.emplace(); }});
    whether("mask", p.mask.has_value(), {[](Case& c) { c.problem.mask.emplace(); }});
    whether("num_splits", p.num_splits != 0,
            {[](Case& c) { c.problem.num_splits = 1; }, [](Case& c) { c.problem.num_splits = 2; },
             [](Case& c) { c.problem.num_splits = 3; }});
    whether("scale", p.scale != 1,
            {[](Case& c) { c.problem.scale = 0.5f; }, [](Case& c) { c.problem.scale = 2; }});
    whether("layout", minimal_.layout != decltype(minimal_.layout){},
            {[](Case& c) {
               for (TensorLayout& l : c.layout) l.row_gap = 8;
             },
             [](Case& c) {
               for (TensorLayout& l : c.layout) l.order = {0, 2, 1};
             }});
    whether("schedule", minimal_.env.schedule_seed != 0,
            {[](Case& c) { c.env.schedule_seed = 1; }, [](Case& c) { c.env.schedule_seed = 2; },
             [](Case& c) { c.env.schedule_seed = 3; }});
    whether("number of calls", minimal_.calls.size() > 1, {[](Case& c) { c.calls.resize(2); }});
    whether("workspace contents", minimal_.calls[0].dirty_workspace,
            {[](Case& c) { c.calls[0].dirty_workspace = true; }});
    whether("prefill", minimal_.prefill != Prefill::kNan, {[](Case& c) { c.prefill = Prefill::kHuge; }});
    whether("sm_count", minimal_.env.sm_count != Environment{}.sm_count,
            {[](Case& c) { c.env.sm_count = 1; }, [](Case& c) { c.env.sm_count = 16; }});
    needed_unless("dtype", "f16", p.dtype != ATTN_F16, [](Case& c) { c.problem.dtype = ATTN_BF16; });
    needed_unless("LSE", "the LSE to be wanted", !minimal_.want_lse, [](Case& c) { c.want_lse = false; });
    variants();
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

  // Nothing is said of what there was no time to try.
  void needs(Need need) {
    if (!s_.out_of_time()) said_.needs.push_back(std::move(need));
  }
  void indifferent(const std::string& what) {
    if (!s_.out_of_time()) said_.indifferent.push_back(what);
  }

  // Whether a number of the feature has been said to be needed, and so the feature.
  bool counted(const Switch& feature) const {
    static const std::map<std::string_view, std::string_view> dial_of = {
        {"a window to the left", "window_left"},
        {"a window to the right", "window_right"},
        {"key lengths", "the longest key length"}};
    const auto dial = dial_of.find(feature.name);
    return dial != dial_of.end() &&
           std::ranges::any_of(said_.needs, [&](const Need& need) { return need.part == dial->second; });
  }

  std::string name_of(const Switch& feature) const {
    const std::string_view name = feature.name;
    for (const std::string& words : mask_words(minimal_.problem)) {
      if (words.starts_with(name)) return words;
    }
    if (name == "softcap") return "softcap " + number_text(minimal_.problem.softcap);
    if (name == "the variant") return cat("variant ", minimal_.env.variant);
    if (name == "the schedule") return cat("schedule ", minimal_.env.schedule_seed);
    if (name == "the scale") return "scale " + number_text(minimal_.problem.scale);
    return std::string(name);
  }
  static std::string number_text(float x) { return attnfuzz::number(x); }

  Search::Answer at(const Dial& dial, int64_t value) {
    return with([&](Case& c) { dial.set(c, value); });
  }

  void number(const Dial& dial) {
    const std::string_view name = dial.name;
    const Borders borders = s_.borders();
    const int64_t now = dial.get(minimal_);
    const bool length = name.starts_with("seq") || name.ends_with("length");
    const int64_t tile = name == "seq_q" ? borders.tile_q : borders.tile_k;
    // Parameters of kinds that have none do not count.
    if (name.ends_with("parameter") && now == 1) return;
    std::vector<int64_t> more = {now + 1, now + 2, now + 3};
    if (length) more.insert(more.end(), {now + tile, 2 * now + tile + 5});
    if (name.starts_with("dim")) more.insert(more.end(), {now + 8, 2 * now + 6});
    std::vector<std::pair<int64_t, Search::Answer>> tried;
    const auto need = [&](Relation relation, std::string text, int64_t period = 0, int64_t least = 0) {
      needs({.part = dial.name,
             .relation = relation,
             .value = now,
             .period = period,
             .least = least,
             .text = std::move(text)});
    };
    Tally tally;
    for (const int64_t value : more) {
      tried.emplace_back(value, at(dial, value));
      tally.add(tried.back().second);
    }
    if (tally.always()) {
      if (now > dial.least) {
        need(Relation::kAtLeast, cat(dial.name, " >= ", now));
      } else {
        indifferent(dial.name);
      }
    } else if (tally.never()) {
      need(Relation::kExactly, cat(dial.name, " = ", now));
    } else if (tally.fails > 0) {
      const auto fails = [&](int64_t value) {
        return std::ranges::any_of(
            tried, [&](const auto& t) { return t.first == value && t.second == Search::Answer::kFails; });
      };
      if (fails(now + 2) && !fails(now + 1) && !fails(now + 3)) {
        const bool more = now > dial.least + 1;
        need(Relation::kRemainder,
             cat(dial.name, now % 2 == 0 ? " even" : " odd", more ? cat(", >= ", now) : ""), 2, more ? now : 0);
      } else if (length && fails(now + tile) && !fails(now + 1)) {
        need(Relation::kRemainder, cat(dial.name, " = ", now % tile, " (mod ", tile, ")"), tile);
      } else {
        std::vector<std::string> not_at;
        for (const auto& [value, answer] : tried) {
          if (answer == Search::Answer::kPasses) not_at.push_back(cat(value));
        }
        const bool more = now > dial.least;
        need(more ? Relation::kAtLeast : Relation::kOtherThan,
             cat(dial.name, more ? cat(" >= ", now, " except ") : std::string(" other than "),
                 join(not_at, ", ")));
      }
    }
  }

  void needed_unless(const char* part, const char* text, bool skip, void (*edit)(Case&)) {
    if (skip) return;
    const Search::Answer answer = with(edit);
    if (answer == Search::Answer::kFails) indifferent(part);
    if (answer == Search::Answer::kPasses) needs({.part = part, .text = text});
  }

  void variants() {
    if (minimal_.env.variant != 1) return;  // then it is needed
    Tally tally;
    for (const int variant : {2, 3, 4}) tally.add(with([&](Case& c) { c.env.variant = variant; }));
    if (tally.always()) indifferent("variant");
    if (tally.never()) needs({.part = "the variant", .value = 1, .text = "variant 1"});
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
  varier.absent();
  varier.values();
  return varier.take();
}

}  // namespace attnfuzz
