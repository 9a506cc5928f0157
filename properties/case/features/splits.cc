// Into how many splits the keys are cut; 0: as many as the kernel chooses.
#include <algorithm>

#include "properties/case/features/complaint.h"
#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kFields = [](auto& c) { return std::tie(c.problem.num_splits); };

constexpr Switch kSwitches[] = {
    {"num_splits", is_set<kFields>, unset<kFields>, [](Case& to, const Case& from, int choice) {
       const int64_t n = from.problem.num_splits;
       to.problem.num_splits = choice == 0 ? std::min<int64_t>(2, n) : n;
       return choice < 2;
     }}};
constexpr Part kParts[] = {{"splits", 5, take<kFields>}};
constexpr Mark kMarks[] = {
    {"splits", [](const Placed& x) { return x.splits > 1; }, MarkFor::kBoth},
    {"splits > tiles", [](const Placed& x) { return x.splits > (x.p.seq_k + x.tile_k - 1) / x.tile_k; }}};
constexpr Words kWords[] = {{Told::kNumber, 0, [](const Case& c, std::vector<std::string>& words) {
                               const int64_t n = c.problem.num_splits;
                               if (n != 0) words.push_back(cat(n, n == 1 ? " split" : " splits"));
                             }}};

}  // namespace

extern constinit const Feature splits = {
    .switches = {13, kSwitches},
    .cost =
        [](const Case& c, Cost& cost) {
          cost.count(is_set<kFields>(c));
          cost.at(Rank::kSplits).distance(c.problem.num_splits, 0);
        },
    .forms = [](int64_t, auto& forms) { forms.push_back([](Case& c) { c.problem.num_splits = 2; }); },
    .draw = {Phase::kSizes,
             [](const Toss& toss, Case& c) {
               Dice& dice = toss.dice;
               if (!toss.aim.splits || dice.percent(30)) return;
               const int64_t tiles = c.problem.seq_k / toss.tile_k + 1;
               c.problem.num_splits = dice.percent(80) ? dice.range(1, tiles + 1) : tiles + dice.range(1, 40);
             }},
    .parts = kParts,
    .numbers =
        [](const Toss& toss, const Case& c, std::vector<MovableNumber>& numbers) {
          const Problem& p = c.problem;
          if (!toss.aim.splits) return;
          const int64_t tiles = (p.seq_k + toss.tile_k - 1) / toss.tile_k;
          numbers.push_back({p.num_splits, 0, 1, tiles + toss.dice.range(0, 1),
                             [](Case& x, int64_t n) { x.problem.num_splits = n; }});
        },
    .steps = none,
    .refusals = none,
    .marks = kMarks,
    .words = kWords,
    .tidy = none,
    .illegal = [](const Case& c) -> Complaint {
      if (c.problem.num_splits >= 0) return std::nullopt;
      return say("num_splits", c.problem.num_splits, "0 (the kernel chooses) or more");
    },
};

}  // namespace attnfuzz::feature
