// What a draw aims at: what a kernel takes, its tiles and what its least cases cost (check.h).
#include <algorithm>

#include "fuzz/check/check.h"
#include "fuzz/check/refusals.h"
#include "properties/case/domain.h"
#include "properties/draw/covering.h"
#include "properties/draw/draw.h"
#include "properties/judge/execution.h"

namespace attnfuzz {

Aim aim_at(Target& target, const CheckOptions& options) {
  if (options.aim) return *options.aim;
  // Of a domain whose least case is large more than that one is drawn: four times as many queries, and keys.
  constexpr int64_t kTimesLeast = 16, kMostLeast = 50'000'000;
  constexpr int64_t kSmallTile = 16, kLargeTile = 512, kUsualTile = 64;
  Aim aim;
  aim.variants = std::min<int32_t>(static_cast<int32_t>(target.info().variants.size()), options.max_variant);
  aim.splits = target.info().has_stages;
  aim.work = options.work;
  aim.refused = options.refused ? *options.refused
                : options.terms ? options.terms->refused
                                : ask_for_refusals(target);
  // No plan sees them, so that a kernel that promises nothing there cannot say so: it is not asked.
  for (const Refusal* refusal : aim.refused.those) {
    if (refusal == refusal_of_several(kNonFinite) && (options.finite || !target.info().refuses_late))
      aim.never.push_back(refusal);
  }
  aim.domain = options.terms ? options.terms->domain : target.info().domain;
  if (aim.domain) aim.work = std::max(aim.work, kTimesLeast * std::min(least_work(*aim.domain), kMostLeast));
  aim.tiles_q.clear();
  aim.tiles_k.clear();
  const int32_t usual = target.info().variants.empty() ? 0 : 1;
  // A kernel may tile each head dimension differently, and each variant does: ask about one of each.
  const auto ask = [&](int64_t dim, int32_t variant) {
    Case c;
    c.problem.dim_qk = c.problem.dim_v = dim;
    c.env.variant = variant;
    if (aim.domain) fit(*aim.domain, c);
    if (illegal(c)) return;
    const Execution e(c, target);
    if (!e.why_not().empty()) return;  // the first case says what is wrong with it
    const auto add = [](std::vector<int64_t>& tiles, int64_t tile) {
      if (tile > 0 && std::ranges::find(tiles, tile) == tiles.end()) tiles.push_back(tile);
    };
    if (e.plan.tile_q > 0 && e.plan.tile_k > 0)
      aim.tilings.push_back({variant, dim, e.plan.tile_q, e.plan.tile_k});
    if (variant != usual) return;
    add(aim.tiles_q, e.plan.tile_q);
    add(aim.tiles_k, e.plan.tile_k);
  };
  for (const int64_t dim : {64, 128, 256}) {
    for (int32_t variant = 0; variant <= std::max(aim.variants, usual); ++variant) ask(dim, variant);
  }
  for (std::vector<int64_t>* tiles : {&aim.tiles_q, &aim.tiles_k}) {
    // Few keys fill small tiles: what goes wrong beyond them is drawn for as well, whatever the plan says.
    // Tiles that hardly any kernel has are not believed alone.
    const auto usual_tile = [&](int64_t tile) {
      return tile >= kSmallTile && tile <= kLargeTile && tile % 8 == 0;
    };
    if (std::ranges::none_of(*tiles, usual_tile)) tiles->push_back(kUsualTile);
  }
  // Of a domain whose least case of three tiles of keys hardly fits into that, few would have three.
  constexpr int64_t kTimesThreeTiles = 6;
  if (aim.domain) {
    const int64_t three = least_work(*aim.domain, 2 * std::ranges::max(aim.tiles_k) + 1);
    if (2 * three > aim.work) aim.work = std::max(aim.work, std::min(kTimesThreeTiles * three, kMostLeast));
  }
  aim.covering = std::make_shared<Covering>(aim);
  return aim;
}

}  // namespace attnfuzz
