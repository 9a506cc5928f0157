// Of sizes: formats, lengths, head dimensions, heads, splits.
#include "properties/draw/axes/axis.h"

namespace attnfuzz {
namespace {

constexpr int64_t kGrid = 65536, kBeyondShort = int64_t{1} << 15;
constexpr auto kSizes = Phase::kSizes;

int64_t group(const Case& c) { return c.problem.heads_q / std::max<int64_t>(c.problem.heads_kv, 1); }

void set_heads(Case& c, int64_t group, int64_t heads_kv) {
  c.problem.heads_kv = heads_kv;
  c.problem.heads_q = heads_kv * group;
}

// Short ones by all borders; beyond 16 bits, signed or not, in whole.
std::vector<int64_t> lengths() {
  std::vector<int64_t> starts = beside({0, 1, 2}, {8, 16, 32, 64, 128, 256});
  starts.insert(starts.end(), {1022, kBeyondShort, kGrid});
  return starts;
}

std::vector<int64_t> dims() {
  std::vector<int64_t> starts = beside({1, 2}, {8, 16, 32, 64, 128});
  starts.insert(starts.end(), {255, 256});
  return starts;
}

int64_t key_tiles(const Toss& toss, const Case& c) { return (c.problem.seq_k + toss.tile_k - 1) / toss.tile_k; }

}  // namespace

std::vector<CaseAxis> axes_of_sizes() {
  static constexpr const char* kFormats[] = {"f16", "bf16"};
  std::vector<CaseAxis> table = {
      kinds(
          "dtype", kSizes, kFormats,
          [](const Case& c) { return c.problem.dtype == ATTN_F32 ? kNoClass : c.problem.dtype; },
          [](const Toss&, int at, Case& c) { c.problem.dtype = at == 0 ? ATTN_F16 : ATTN_BF16; }),
      // Instantiations of the kernel, as many as it has.
      {.name = "variant",
       .phase = kSizes,
       .classes = {"of the kernel's choice", "1", "2", "3", "4 or more"},
       .of = [](const Tiled& x) { return std::clamp(x.c.env.variant, 0, 4); },
       .make = [](const Toss& toss, int at,
                  Case& c) { c.env.variant = std::min<int32_t>(at, toss.aim.variants); }},
      number(
          "seq_q", kSizes, lengths(), kGrid + 70, [](const Case& c) { return c.problem.seq_q; },
          [](Case& c, int64_t n) { c.problem.seq_q = n; }, kBeyondShort),
      number(
          "seq_k", kSizes, lengths(), kGrid + 70, [](const Case& c) { return c.problem.seq_k; },
          [](Case& c, int64_t n) { c.problem.seq_k = n; }, kBeyondShort),
      steering(100, in_tiles(
                        "queries in tiles:", kSizes, &Toss::tile_q, &Tiled::tile_q,
                        [](const Case& c) { return c.problem.seq_q; },
                        [](Case& c, int64_t n) { c.problem.seq_q = n; })),
      steering(100, in_tiles(
                        "keys in tiles:", kSizes, &Toss::tile_k, &Tiled::tile_k,
                        [](const Case& c) { return c.problem.seq_k; },
                        [](Case& c, int64_t n) { c.problem.seq_k = n; })),
      choice("seq_q", kSizes,
             {{"< seq_k", [](const Case& c) { return c.problem.seq_q < c.problem.seq_k; },
               [](const Toss& toss, Case& c) { c.problem.seq_k = c.problem.seq_q + toss.dice.range(1, 80); }},
              {"= seq_k", [](const Case& c) { return c.problem.seq_q == c.problem.seq_k; },
               [](const Toss&, Case& c) { c.problem.seq_q = c.problem.seq_k; }},
              {"> seq_k", [](const Case& c) { return c.problem.seq_q > c.problem.seq_k; },
               [](const Toss& toss, Case& c) { c.problem.seq_q = c.problem.seq_k + toss.dice.range(1, 80); }}}),
      number(
          "dim_qk", kSizes, dims(), 256, [](const Case& c) { return c.problem.dim_qk; },
          [](Case& c, int64_t n) { c.problem.dim_qk = n; }),
      number(
          "dim_v", kSizes, dims(), 256, [](const Case& c) { return c.problem.dim_v; },
          [](Case& c, int64_t n) { c.problem.dim_v = n; }),
      choice("dim_v", kSizes,
             {{"= dim_qk", [](const Case& c) { return c.problem.dim_v == c.problem.dim_qk; },
               [](const Toss&, Case& c) { c.problem.dim_v = c.problem.dim_qk; }},
              {"< dim_qk", [](const Case& c) { return c.problem.dim_v < c.problem.dim_qk; },
               [](const Toss& toss, Case& c) {
                 c.problem.dim_v = toss.dice.range(1, std::max<int64_t>(c.problem.dim_qk - 1, 1));
               }},
              {"> dim_qk", [](const Case& c) { return c.problem.dim_v > c.problem.dim_qk; },
               [](const Toss& toss, Case& c) {
                 c.problem.dim_v = toss.dice.range(std::min<int64_t>(c.problem.dim_qk + 1, 256), 256);
               }}}),
      steering(
          100,
          number(
              "batch", kSizes, {0, 1, 2, 3, 4, kGrid}, kGrid + 1, [](const Case& c) { return c.problem.batch; },
              [](Case& c, int64_t n) { c.problem.batch = n > 8 && n < kGrid ? 4 + n % 5 : n; }, kGrid)),
      steering(100, number(
                        "KV heads", kSizes, {1, 2, 3, 4, kGrid}, kGrid + 1,
                        [](const Case& c) { return c.problem.heads_kv; },
                        [](Case& c, int64_t n) { set_heads(c, group(c), n > 8 && n < kGrid ? 4 + n % 5 : n); },
                        kGrid)),
      steering(50, number(
                       "query heads a KV head:", kSizes, {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, kGrid},
                       kGrid + 1, group,
                       [](Case& c, int64_t n) {
                         set_heads(c, n > 32 && n < kGrid ? 17 + n % 16 : n, c.problem.heads_kv);
                       },
                       kGrid)),
  };
  // Splits are of a kernel that has any.
  table.push_back(
      {.name = "splits:",
       .phase = kSizes,
       .classes = {"as the kernel chooses", "1", "2", "3 or more", "as many as tiles", "more than tiles"},
       .of =
           [](const Tiled& x) {
             const int64_t tiles = (x.p.seq_k + x.tile_k - 1) / x.tile_k, n = x.p.num_splits;
             return n == 0 ? 0 : n == 1 ? 1 : n > tiles ? 5 : n == tiles ? 4 : n == 2 ? 2 : 3;
           },
       .make =
           [](const Toss& toss, int at, Case& c) {
             if (!toss.aim.splits) return;
             // Fewer than tiles, there must be tiles.
             if (at == 2 || at == 3)
               c.problem.seq_k = std::max(c.problem.seq_k, (2 * at - 2) * toss.tile_k + 1);
             const int64_t tiles = key_tiles(toss, c);
             const int64_t some[] = {0,     1,
                                     2,     toss.dice.range(3, std::max<int64_t>(tiles - 1, 3)),
                                     tiles, tiles + toss.dice.range(1, 40)};
             c.problem.num_splits = some[at];
           },
       .steers = 50});
  return table;
}

}  // namespace attnfuzz
