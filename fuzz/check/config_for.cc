// Configures a draw by the problems that a kernel takes, its tiles and the cost of its smallest cases
// (check.h).
#include <algorithm>

#include "fuzz/check/check.h"
#include "fuzz/check/takes/refusals.h"
#include "properties/case/features/domain.h"
#include "properties/draw/covering.h"
#include "properties/draw/draw.h"
#include "properties/judge/execution.h"

namespace attnfuzz {

GeneratorConfig config_for(Target& target, const CheckOptions& options) {
  if (options.config) return *options.config;
  // If the domain's smallest case is large, cases with up to four times its queries and keys are drawn, too.
  constexpr int64_t kTimesLeast = 16, kMostLeast = 50'000'000;
  constexpr int64_t kSmallTile = 16, kLargeTile = 512, kUsualTile = 64;
  GeneratorConfig config;
  config.variants = std::min<int32_t>(static_cast<int32_t>(target.info().variants.size()), options.max_variant);
  config.splits = target.info().has_stages;
  config.features = target.info().features;
  // A batch on a GPU cannot judge 8-bit K and V (fuzz/batch/prepare.cc), and a case outside of batches costs as
  // much as fifty in them.
  if (options.batch > 0) config.slow = ATTN_FEATURE_KV8;
  config.on_gpu = target.info().backend == ATTN_CUDA;
  config.work = options.work > 0 ? options.work : config.on_gpu ? kGpuWork : config.work;
  config.refused = options.refused ? *options.refused
                   : options.terms ? options.terms->refused
                                   : ask_for_refusals(target);
  // plan() does not see values, so a kernel cannot refuse NaN or infinities there. Such cases are
  // never drawn for it.
  for (const Refusal* refusal : config.refused.those) {
    if (refusal == refusal_of_several(Limit::kFinite) && (options.finite || !target.info().refuses_late))
      config.never.push_back(refusal);
  }
  config.domain = options.terms ? options.terms->domain : target.info().domain;
  if (config.domain)
    config.work = std::max(config.work, kTimesLeast * std::min(least_work(*config.domain), kMostLeast));
  config.tiles_q.clear();
  config.tiles_k.clear();
  const int32_t usual = target.info().variants.empty() || config.on_gpu ? 0 : 1;
  // Tiles may differ by head dimension, and do differ by variant, so plan() is called for one case of each.
  const auto ask = [&](int64_t dim, int32_t variant) {
    Case c;
    c.problem.dim_qk = c.problem.dim_v = dim;
    c.env.variant = variant;
    if (config.domain) fit(*config.domain, c);
    if (illegal(c)) return;
    const Execution e(c, target);
    if (!e.why_not().empty()) return;  // the first judged case will report the error
    const auto add = [](std::vector<int64_t>& tiles, int64_t tile) {
      if (tile > 0 && std::ranges::find(tiles, tile) == tiles.end()) tiles.push_back(tile);
    };
    const int64_t most = dim > contract::kUsualDims ? contract::kMostDims : dim;
    if (e.plan.tile_q > 0 && e.plan.tile_k > 0)
      config.tilings.push_back({variant, most, e.plan.tile_q, e.plan.tile_k});
    if (variant != usual) return;
    add(config.tiles_q, e.plan.tile_q);
    add(config.tiles_k, e.plan.tile_k);
  };
  const bool wide = (config.features & ATTN_FEATURE_WIDE) != 0;
  for (const int64_t dim : {64, 128, 256, 512}) {
    if (dim > contract::kUsualDims && !wide) continue;
    for (int32_t variant = 0; variant <= std::max(config.variants, usual); ++variant) ask(dim, variant);
  }
  for (std::vector<int64_t>* tiles : {&config.tiles_q, &config.tiles_k}) {
    // If the plan names only unusual tiles, cases are aimed at the borders of the usual tile as
    // well. A few keys fill a small tile, and then no case would reach beyond a usual one.
    const auto usual_tile = [&](int64_t tile) {
      return tile >= kSmallTile && tile <= kLargeTile && tile % 8 == 0;
    };
    if (std::ranges::none_of(*tiles, usual_tile)) tiles->push_back(kUsualTile);
  }
  // If the smallest case with three key tiles hardly fits into `work`, few cases would have three.
  constexpr int64_t kTimesThreeTiles = 6;
  if (config.domain) {
    const int64_t three = least_work(*config.domain, 2 * std::ranges::max(config.tiles_k) + 1);
    if (2 * three > config.work)
      config.work = std::max(config.work, std::min(kTimesThreeTiles * three, kMostLeast));
  }
  config.covering = std::make_shared<Covering>(config);
  // A property that runs only by name may also run its case on a CPU (cpu_gpu_bits), which cannot afford a long
  // row.
  const bool by_default = std::ranges::all_of(options.properties, [](const Property* property) {
    return std::ranges::find(properties(), property) != properties().end();
  });
  config.in_batches = options.batch > 0 && config.on_gpu && by_default && options.device_work > 0;
  if (config.in_batches && kernel_has(operations::forward, config.features))
    config.device_work = options.device_work;
  return config;
}

}  // namespace attnfuzz
