// A window around the diagonal, both ends included; -1 leaves a side unbounded.
#include <limits>

#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kLeft = [](auto& c) { return std::tie(c.problem.window_left); };
constexpr auto kRight = [](auto& c) { return std::tie(c.problem.window_right); };
constexpr auto kWindowFields = [](auto& c) { return std::tie(c.problem.window_left, c.problem.window_right); };

// Windows wider than any sequence, to meet overflow in 32 or 64 bits.
constexpr int64_t kWidest[] = {(int64_t{1} << 31) - 1, int64_t{1} << 31, int64_t{1} << 62,
                               std::numeric_limits<int64_t>::max()};

int64_t draw_window_side(Rng& rng, int64_t tile, int64_t seq_k) {
  // Mostly exactly on a tile's border.
  const int64_t border = tile * rng.range(1, 2) + rng.pick<int64_t>({0, 0, -1, 1});
  return rng.weighted<int64_t>({{25, -1},
                                {6, rng.pick<int64_t>(kWidest)},
                                {20, 0},
                                {22, rng.range(1, 8)},
                                {14, border},
                                {20, rng.range(1, seq_k + 1)},
                                {10, seq_k + rng.range(0, 5)}});
}

bool is_there(const Problem& p) { return p.window_left >= 0 || p.window_right >= 0; }

template <auto kSide>
constexpr ShrinkToggle window_side_toggle(const char* name, const char* integer) {
  return {name,
          [](const Case& c) { return std::get<0>(kSide(c)) >= 0; },
          unset<kSide>,
          [](Case& to, const Case& from, int choice) {
            take<kSide>(to, from);
            if (choice == 0) kSide(to) = std::make_tuple(0);
            to.problem.align = from.problem.align;
            return choice < 2;
          },
          Trait::kHidesKeys,
          integer};
}

template <auto kSide>
void number_of(const DrawContext& context, const Case& c, std::vector<MovableNumber>& numbers) {
  const int64_t side = std::get<0>(kSide(c));
  if (side < 0) return;
  numbers.push_back(
      {side, -1, context.tile_k, c.problem.seq_k, [](Case& x, int64_t n) { kSide(x) = std::make_tuple(n); }});
}

std::string side_words(const char* sign, int64_t side) {
  return side < 0 ? cat(sign, "inf") : side == 0 ? std::string("0") : cat(sign, side);
}

}  // namespace

extern constinit const Feature window = checked({
    .without = {kAlternatives, kMutations, kIllegal},
    .shrink_toggles = {9,
                       {window_side_toggle<kLeft>("a window to the left", "window_left"),
                        window_side_toggle<kRight>("a window to the right", "window_right")}},
    .shrink_integers = {shrink_integer<kLeft>("window_left", IntegerKind::kWindow, 0),
                        shrink_integer<kRight>("window_right", IntegerKind::kWindow, 0)},
    .cost =
        [](const Case& c, Cost& cost) {
          const int64_t left = c.problem.window_left, right = c.problem.window_right;
          cost.count(int{left >= 0} + int{right >= 0});
          // Unbounded is simplest, then a window that holds only the diagonal.
          cost.at(Rank::kWindow).add(left < 0 ? 0 : Cost::saturated_add(left, 1));
          cost.add(right < 0 ? 0 : Cost::saturated_add(right, 1));
          cost.distance(left, -1);
          cost.distance(right, -1);
        },
    .canonical_seeds =
        [](int64_t, auto& seeds) {
          for (const int32_t align : {ATTN_TOP_LEFT, ATTN_BOTTOM_RIGHT}) {
            for (const auto& [left, right] : {std::pair{0, -1}, {1, -1}, {2, -1}, {-1, 0}}) {
              seeds.push_back([=](Case& c) {
                kWindowFields(c) = std::make_tuple(left, right);
                c.problem.align = align;
              });
            }
          }
        },
    .draw = {Phase::kVisibility,
             [](const DrawContext& context, Case& c) {
               if (!context.rng.percent(17)) return;
               c.problem.window_left = draw_window_side(context.rng, context.tile_k, c.problem.seq_k);
               c.problem.window_right = draw_window_side(context.rng, context.tile_k, c.problem.seq_k);
             }},
    .crossover_groups = {{"window", 4, take<kWindowFields>}},
    .numbers =
        [](const DrawContext& context, const Case& c, auto& numbers) {
          number_of<kLeft>(context, c, numbers);
          number_of<kRight>(context, c, numbers);
        },
    .refusals = {{"windows",
                  [](Problem& p) { p.window_left = 1; },
                  [](Case& c) { unset<kWindowFields>(c); },
                  {"window_wide"},
                  "dead rows",
                  Limit::kNoWindow}},
    .tags = {{"window", [](const Tiled& x) { return is_there(x.p); }, TagUse::kBoth}},
    .words = {{Section::kMask, 1,
               [](const Case& c, Sentence& words) {
                 const Problem& p = c.problem;
                 if (!is_there(p)) return;
                 words.push_back(cat("window [", side_words("-", p.window_left), ", ",
                                     side_words("+", p.window_right), "]"));
                 if (!p.causal) words.back() += cat(" (", align_name(p.align), ")");
               }}},
    .tidy =
        [](Case& c) {
          if (c.problem.window_left < 0) c.problem.window_left = -1;
          if (c.problem.window_right < 0) c.problem.window_right = -1;
        },
});

}  // namespace attnfuzz::feature
