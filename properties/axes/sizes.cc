// Axes of sizes: format, variant, lengths, head dimensions, batch, heads and splits.
#include <algorithm>

#include "properties/axes/axis.h"

namespace attnfuzz {
namespace {

constexpr int64_t kGrid = 65536, kBeyondShort = int64_t{1} << 15;
constexpr auto kSizes = Phase::kSizes;

int64_t group(const Case& c) { return c.problem.heads_q / std::max<int64_t>(c.problem.heads_kv, 1); }

// Requests ask for fewer batch entries and heads than this; more come from draw_wide() (ordinary.h) and chance.
constexpr int64_t kWide = 9;
// Keeps numbers of the widest class small, unless they are to exceed a grid.
int64_t not_too_many(int64_t n) {
  constexpr int64_t kMany = 130, kLeast = 33;
  return n > kMany && n < kGrid ? kLeast + n % (kMany - kLeast + 1) : n;
}

void set_heads(Case& c, int64_t group, int64_t heads_kv) {
  c.problem.heads_kv = heads_kv;
  c.problem.heads_q = heads_kv * group;
}

// Short lengths are taken at all borders. From 1,024 on, where kernels switch paths, powers of two suffice.
std::vector<int64_t> lengths() {
  std::vector<int64_t> starts = beside({0, 1, 2}, {8, 16, 32, 64, 128, 256});
  starts.insert(starts.end(), {1024, 2048, 4096, 8192, 16384, kBeyondShort, kGrid});
  return starts;
}
constexpr int64_t kDearLength = 2048;  // no request asks for longer ones; ordinary.h and draw_long() draw them

std::vector<int64_t> dims() {
  std::vector<int64_t> starts = beside({1, 2}, {8, 16, 32, 64, 128});
  starts.insert(starts.end(), {255, 256});
  return starts;
}

std::vector<int64_t> by_eights() {
  std::vector<int64_t> starts;
  for (int64_t n = 1; n <= 256; n += 8) starts.push_back(n);
  return starts;
}

// The number of tiles of a length that is not 0. The last tile may be partial.
CaseAxis tile_count(const char* name, int64_t DrawContext::* tile, int64_t Tiled::* tile_of, Get get, Set set) {
  static constexpr int64_t kStarts[] = {1, 2, 3, 4, 5, 6, 9, 17, INT64_MAX};
  CaseAxis axis{.name = name,
                .phase = kSizes,
                .classes = {"1", "2", "3", "4", "5", "6..8", "9..16", "17 or more"},
                .of = {},
                .make = {},
                .dear = 5};
  axis.of = [=](const Tiled& x) {
    const int64_t tiles = (get(x.c) + x.*tile_of - 1) / x.*tile_of;
    return tiles < 1 ? kNoClass : static_cast<int>(std::ranges::upper_bound(kStarts, tiles) - kStarts) - 1;
  };
  axis.make = [=](const DrawContext& context, int at, Case& c) {
    const int64_t least = kStarts[at], most = at == 7 ? 2 * least : kStarts[at + 1] - 1;
    const int64_t tiles = context.rng.range(least, most);
    set(c, (tiles - 1) * context.*tile + context.rng.range(1, context.*tile));
  };
  return axis;
}

int64_t key_tiles(const DrawContext& context, const Case& c) {
  return (c.problem.seq_k + context.tile_k - 1) / context.tile_k;
}

std::vector<CaseAxis> axes_of_kernel() {
  static constexpr const char* kFormats[] = {"f16", "bf16"};
  return {
      kinds(
          "dtype", kSizes, kFormats,
          [](const Case& c) { return c.problem.dtype == ATTN_F32 ? kNoClass : c.problem.dtype; },
          [](const DrawContext&, int at, Case& c) { c.problem.dtype = at == 0 ? ATTN_F16 : ATTN_BF16; }),
      // The kernel's instantiations. A number that the kernel lacks becomes its last one.
      {.name = "variant",
       .phase = kSizes,
       .classes = {"of the kernel's choice", "1", "2", "3", "4 or more"},
       .of = [](const Tiled& x) { return std::clamp(x.c.env.variant, 0, 4); },
       .make = [](const DrawContext& context, int at,
                  Case& c) { c.env.variant = std::min<int32_t>(at, context.config.variants); }},
  };
}

std::vector<CaseAxis> axes_of_lengths() {
  return {
      number(
          "seq_q", kSizes, lengths(), kGrid + 70, [](const Case& c) { return c.problem.seq_q; },
          [](Case& c, int64_t n) { c.problem.seq_q = n; }, kDearLength),
      number(
          "seq_k", kSizes, lengths(), kGrid + 70, [](const Case& c) { return c.problem.seq_k; },
          [](Case& c, int64_t n) { c.problem.seq_k = n; }, kDearLength),
      tile_count(
          "query tiles:", &DrawContext::tile_q, &Tiled::tile_q, [](const Case& c) { return c.problem.seq_q; },
          [](Case& c, int64_t n) { c.problem.seq_q = n; }),
      tile_count(
          "key tiles:", &DrawContext::tile_k, &Tiled::tile_k, [](const Case& c) { return c.problem.seq_k; },
          [](Case& c, int64_t n) { c.problem.seq_k = n; }),
      steering(100, in_tiles(
                        "queries in tiles:", kSizes, &DrawContext::tile_q, &Tiled::tile_q,
                        [](const Case& c) { return c.problem.seq_q; },
                        [](Case& c, int64_t n) { c.problem.seq_q = n; })),
      steering(100, in_tiles(
                        "keys in tiles:", kSizes, &DrawContext::tile_k, &Tiled::tile_k,
                        [](const Case& c) { return c.problem.seq_k; },
                        [](Case& c, int64_t n) { c.problem.seq_k = n; })),
      choice("seq_q", kSizes,
             {{"< seq_k", [](const Case& c) { return c.problem.seq_q < c.problem.seq_k; },
               [](const DrawContext& context, Case& c) {
                 c.problem.seq_k = c.problem.seq_q + context.rng.range(1, 80);
               }},
              {"= seq_k", [](const Case& c) { return c.problem.seq_q == c.problem.seq_k; },
               [](const DrawContext&, Case& c) { c.problem.seq_q = c.problem.seq_k; }},
              {"> seq_k", [](const Case& c) { return c.problem.seq_q > c.problem.seq_k; },
               [](const DrawContext& context, Case& c) {
                 c.problem.seq_q = c.problem.seq_k + context.rng.range(1, 80);
               }}}),
  };
}

std::vector<CaseAxis> axes_of_dims() {
  return {
      number(
          "dim_qk by eights:", kSizes, by_eights(), 256, [](const Case& c) { return c.problem.dim_qk; },
          [](Case& c, int64_t n) { c.problem.dim_qk = n; }),
      number(
          "dim_v by eights:", kSizes, by_eights(), 256, [](const Case& c) { return c.problem.dim_v; },
          [](Case& c, int64_t n) { c.problem.dim_v = n; }),
      collected(number(
          "dim_qk", kSizes, dims(), 256, [](const Case& c) { return c.problem.dim_qk; },
          [](Case& c, int64_t n) { c.problem.dim_qk = n; })),
      collected(number(
          "dim_v", kSizes, dims(), 256, [](const Case& c) { return c.problem.dim_v; },
          [](Case& c, int64_t n) { c.problem.dim_v = n; })),
      choice("dim_v", kSizes,
             {{"= dim_qk", [](const Case& c) { return c.problem.dim_v == c.problem.dim_qk; },
               [](const DrawContext&, Case& c) { c.problem.dim_v = c.problem.dim_qk; }},
              {"< dim_qk", [](const Case& c) { return c.problem.dim_v < c.problem.dim_qk; },
               [](const DrawContext& context, Case& c) {
                 c.problem.dim_v = context.rng.range(1, std::max<int64_t>(c.problem.dim_qk - 1, 1));
               }},
              {"> dim_qk", [](const Case& c) { return c.problem.dim_v > c.problem.dim_qk; },
               [](const DrawContext& context, Case& c) {
                 c.problem.dim_v = context.rng.range(std::min<int64_t>(c.problem.dim_qk + 1, 256), 256);
               }}}),
  };
}

std::vector<CaseAxis> axes_of_heads() {
  return {
      steering(100, number(
                        "batch", kSizes, {0, 1, 2, 3, 4, 5, 9, 17, kGrid}, kGrid + 1,
                        [](const Case& c) { return c.problem.batch; },
                        [](Case& c, int64_t n) { c.problem.batch = not_too_many(n); }, kWide)),
      steering(100, number(
                        "KV heads", kSizes, {1, 2, 3, 4, 5, 9, 17, kGrid}, kGrid + 1,
                        [](const Case& c) { return c.problem.heads_kv; },
                        [](Case& c, int64_t n) { set_heads(c, group(c), not_too_many(n)); }, kWide)),
      steering(50, number(
                       "query heads a KV head:", kSizes, {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 33, kGrid},
                       kGrid + 1, group,
                       [](Case& c, int64_t n) { set_heads(c, not_too_many(n), c.problem.heads_kv); }, 33)),
  };
}

// A case gets splits only if the kernel has them.
std::vector<CaseAxis> axes_of_splits() {
  return {
      {.name = "splits:",
       .phase = kSizes,
       .classes = {"as the kernel chooses", "1", "2", "3 or more", "as many as tiles", "more than tiles"},
       .of =
           [](const Tiled& x) {
             const int64_t tiles = (x.p.seq_k + x.tile_k - 1) / x.tile_k, n = x.p.num_splits;
             return n == 0 ? 0 : n == 1 ? 1 : n > tiles ? 5 : n == tiles ? 4 : n == 2 ? 2 : 3;
           },
       .make =
           [](const DrawContext& context, int at, Case& c) {
             if (!context.config.splits) return;
             // There must be more tiles than splits.
             if (at == 2 || at == 3)
               c.problem.seq_k = std::max(c.problem.seq_k, (2 * at - 2) * context.tile_k + 1);
             const int64_t tiles = key_tiles(context, c);
             const int64_t some[] = {0,     1,
                                     2,     context.rng.range(3, std::max<int64_t>(tiles - 1, 3)),
                                     tiles, tiles + context.rng.range(1, 40)};
             c.problem.num_splits = some[at];
           },
       .steers = 50,
       .collected = true},
      {.name = "splits that hold keys:",
       .phase = kSizes,
       .classes = {"as the kernel chooses", "1", "2", "3", "4", "5..8", "9..64", "65 or more"},
       .of =
           [](const Tiled& x) {
             const int64_t n = std::min(x.p.num_splits, (x.p.seq_k + x.tile_k - 1) / x.tile_k);
             return x.p.num_splits == 0 ? 0
                                        : static_cast<int>(n < 5    ? std::max<int64_t>(n, 1)
                                                           : n < 9  ? 5
                                                           : n < 65 ? 6
                                                                    : 7);
           },
       .make =
           [](const DrawContext& context, int at, Case& c) {
             if (!context.config.splits) return;
             const int64_t some[] = {
                 0, 1, 2, 3, 4, context.rng.range(5, 8), context.rng.range(9, 64), context.rng.range(65, 130)};
             c.problem.num_splits = some[at];
             c.problem.seq_k = std::max(c.problem.seq_k, (some[at] - 1) * context.tile_k + 1);
           },
       .dear = 6,
       .collected = true},
  };
}

}  // namespace

std::vector<CaseAxis> axes_of_sizes() {
  return joined({axes_of_kernel(), axes_of_lengths(), axes_of_dims(), axes_of_heads(), axes_of_splits()});
}

}  // namespace attnfuzz
