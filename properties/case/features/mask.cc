// A boolean mask: true is what may be seen.
#include "properties/case/features/pattern.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kFields = [](auto& c) { return std::tie(c.problem.mask); };

constexpr Switch kSwitches[] = {
    {"mask", is_set<kFields>, unset<kFields>, [](Case& to, const Case& from, int choice) {
       to.problem.mask = from.problem.mask;
       if (choice == 0) to.problem.mask->broadcast = {};
       return form_of(to.problem.mask->visible, choice);
     }}};
constexpr Part kParts[] = {{"mask", 4, take<kFields>}};
constexpr Refusal kRefusals[] = {{"mask",
                                  [](Problem& p) { p.mask.emplace(); },
                                  [](Case& c) { unset<kFields>(c); },
                                  {"mask_as_bias"},
                                  "dead rows"}};
constexpr Mark kMarks[] = {{"mask", [](const Placed& x) { return x.p.mask.has_value(); }, MarkFor::kBoth}};
constexpr Words kWords[] = {{Told::kMask, 3, [](const Case& c, std::vector<std::string>& words) {
                               if (const auto& mask = c.problem.mask)
                                 words.push_back("mask: " + to_string(mask->visible) +
                                                 broadcast_words(mask->broadcast));
                             }}};

bool step(const Toss& toss, Case& c) {
  auto& mask = c.problem.mask;
  if (mask) mutate_pattern(toss, c.problem, mask->visible, mask->broadcast);
  return mask.has_value();
}
constexpr bool (*kSteps[])(const Toss&, Case&) = {step};

}  // namespace

extern constinit const Feature mask = {
    .switches = {8, kSwitches},
    .cost =
        [](const Case& c, Cost& cost) {
          const auto& mask = c.problem.mask;
          cost.count(mask.has_value());
          cost.at(Rank::kMask).add(mask.has_value());
          if (!mask) return;
          cost.at(Rank::kMaskForm).add(mask->visible);
          cost.add(mask->broadcast);
        },
    .forms =
        [](int64_t, auto& forms) {
          for (const PatternKind kind :
               {PatternKind::kNothing, PatternKind::kFirstKey, PatternKind::kLastKey}) {
            forms.push_back(
                [=](Case& c) { c.problem.mask = Mask{.visible = {.kind = kind}, .broadcast = {}}; });
          }
          forms.push_back([](Case& c) { c.problem.mask.emplace().broadcast.query = true; });
        },
    .draw = {Phase::kVisibility,
             [](const Toss& toss, Case& c) {
               if (!toss.dice.percent(20)) return;
               c.problem.mask = Mask{draw_pattern(toss, c.problem), draw_broadcast(toss.dice)};
             }},
    .parts = kParts,
    .numbers = none,
    .steps = kSteps,
    .refusals = kRefusals,
    .marks = kMarks,
    .words = kWords,
    .tidy =
        [](Case& c) {
          if (c.problem.mask) tidy(c.problem.mask->visible);
        },
    .illegal = [](const Case& c) -> Complaint {
      return c.problem.mask ? bad_pattern("mask.visible", c.problem.mask->visible) : std::nullopt;
    },
};

}  // namespace attnfuzz::feature
