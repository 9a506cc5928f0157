// A window around the diagonal, its sides included; -1: no bound on that side.
#include <limits>

#include "properties/case/features/complaint.h"
#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kFields = [](auto& c) { return std::tie(c.problem.window_left, c.problem.window_right); };

// What arithmetic in 32 or 64 bits makes of a window that no sequence is as wide as.
constexpr int64_t kWidest[] = {(int64_t{1} << 31) - 1, int64_t{1} << 31, int64_t{1} << 62,
                               std::numeric_limits<int64_t>::max()};

int64_t draw_side(Dice& dice, int64_t seq_k) {
  return dice.weighted<int64_t>({{25, -1},
                                 {6, dice.pick<int64_t>(kWidest)},
                                 {20, 0},
                                 {25, dice.range(1, 8)},
                                 {20, dice.range(1, seq_k + 1)},
                                 {10, seq_k + dice.range(0, 5)}});
}

bool is_there(const Problem& p) { return p.window_left >= 0 || p.window_right >= 0; }

template <int64_t Problem::* kSide>
constexpr Switch side_switch(const char* name) {
  return {name, [](const Case& c) { return c.problem.*kSide >= 0; }, [](Case& c) { c.problem.*kSide = -1; },
          [](Case& to, const Case& from, int choice) {
            to.problem.*kSide = choice == 0 ? 0 : from.problem.*kSide;
            to.problem.align = from.problem.align;
            return choice < 2;
          }};
}

template <int64_t Problem::* kSide>
void number_of(const Toss& toss, const Problem& p, std::vector<MovableNumber>& numbers) {
  if (p.*kSide < 0) return;
  numbers.push_back({p.*kSide, -1, toss.tile_k, p.seq_k, [](Case& x, int64_t n) { x.problem.*kSide = n; }});
}

std::string side_words(const char* sign, int64_t side) {
  return side < 0 ? cat(sign, "inf") : side == 0 ? std::string("0") : cat(sign, side);
}

constexpr Switch kSwitches[] = {side_switch<&Problem::window_left>("a window to the left"),
                                side_switch<&Problem::window_right>("a window to the right")};
constexpr Part kParts[] = {{"window", 4, take<kFields>}};
constexpr Refusal kRefusals[] = {{"windows",
                                  [](Problem& p) { p.window_left = 1; },
                                  [](Case& c) { unset<kFields>(c); },
                                  {"window_wide"},
                                  "dead rows"}};
constexpr Mark kMarks[] = {{"window", [](const Placed& x) { return is_there(x.p); }, MarkFor::kBoth}};
constexpr Words kWords[] = {{Told::kMask, 1, [](const Case& c, std::vector<std::string>& words) {
                               const Problem& p = c.problem;
                               if (!is_there(p)) return;
                               words.push_back(cat("window [", side_words("-", p.window_left), ", ",
                                                   side_words("+", p.window_right), "]"));
                               if (!p.causal) words.back() += cat(" (", align_name(p.align), ")");
                             }}};

}  // namespace

extern constinit const Feature window = {
    .switches = {9, kSwitches},
    .cost =
        [](const Case& c, Cost& cost) {
          const int64_t left = c.problem.window_left, right = c.problem.window_right;
          cost.count(int{left >= 0} + int{right >= 0});
          // Unbounded is simplest, then a window of nothing but the diagonal.
          cost.at(Rank::kWindow).add(left < 0 ? 0 : Cost::saturated_add(left, 1));
          cost.add(right < 0 ? 0 : Cost::saturated_add(right, 1));
          cost.distance(left, -1);
          cost.distance(right, -1);
        },
    .forms =
        [](int64_t, auto& forms) {
          for (const int32_t align : {ATTN_TOP_LEFT, ATTN_BOTTOM_RIGHT}) {
            for (const auto& [left, right] : {std::pair{0, -1}, {1, -1}, {2, -1}, {-1, 0}}) {
              forms.push_back([=](Case& c) {
                kFields(c) = std::make_tuple(left, right);
                c.problem.align = align;
              });
            }
          }
        },
    .draw = {Phase::kVisibility,
             [](const Toss& toss, Case& c) {
               if (!toss.dice.percent(15)) return;
               c.problem.window_left = draw_side(toss.dice, c.problem.seq_k);
               c.problem.window_right = draw_side(toss.dice, c.problem.seq_k);
             }},
    .parts = kParts,
    .numbers =
        [](const Toss& toss, const Case& c, std::vector<MovableNumber>& numbers) {
          number_of<&Problem::window_left>(toss, c.problem, numbers);
          number_of<&Problem::window_right>(toss, c.problem, numbers);
        },
    .steps = none,
    .refusals = kRefusals,
    .marks = kMarks,
    .words = kWords,
    .tidy =
        [](Case& c) {
          if (c.problem.window_left < 0) c.problem.window_left = -1;
          if (c.problem.window_right < 0) c.problem.window_right = -1;
        },
    .illegal = none,
};

}  // namespace attnfuzz::feature
