// K and V in 8 bits, with scales (attn_problem.kv_dtype).
#include <algorithm>

#include "properties/case/features/feature.h"
#include "properties/case/places/geometry.h"
#include "properties/case/places/planted_rank.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kKv8Fields = [](auto& c) { return std::tie(c.problem.kv8); };

// The percentages of cases that get 8 bits, for a kernel that knows them: 16 % of cases without pages and 45 %
// of those in pages, because caches of 8 bits mostly lie in pages, and most properties make pages dense. A
// check in batches judges 8 bits one by one, outside of them, and draws them in 6 % of 16 % of the cases.
constexpr int64_t kKv8Percent = 16, kKv8PercentInPages = 45, kKv8PercentIfSlow = 6;
// A case with more keys stays as it is.
constexpr int64_t kMostKv8Keys = 8192;
// The share of cases with 8 bits and pages in which the scales of K, or of V, are by page.
constexpr int64_t kByPagePercent = 35;

KvScales draw_scales(Rng& rng) {
  KvScales scales;
  scales.kind = rng.weighted<ScaleKind>({{6, ScaleKind::kOne},
                                         {22, ScaleKind::kPowers},
                                         {30, ScaleKind::kUneven},
                                         {18, ScaleKind::kHeadOff},
                                         {24, ScaleKind::kApart}});
  const int64_t form = rng.range(0, 99);  // one scale for a tensor, a head, a token, or any mixture
  scales.heads = form >= 20;
  scales.entries = form >= 45;
  scales.keys = form >= 55 && form < 95;
  if (form >= 90) scales.heads = rng.coin();
  scales.seed = rng.bits() % 65536;
  return scales;
}

// In 35 % of the cases with pages, gives each page a scale of its own.
void draw_by_page(Rng& rng, const Problem& p, KvScales& scales) {
  if (!p.paging || p.paging->size > kMostKv8Keys || !rng.percent(kByPagePercent)) return;
  if (scales.kind == ScaleKind::kOne) scales.kind = ScaleKind::kPowers;
  scales.page = static_cast<int>(p.paging->size);
}

// Fills that reach codes which others miss: distinct codes, subnormals, huge numbers.
void draw_codes(Rng& rng, Case& c) {
  const auto some = [&](Fill& fill, int low) {
    const auto kind =
        rng.weighted<FillKind>({{50, FillKind::kPosition}, {35, FillKind::kSubnormal}, {15, FillKind::kHuge}});
    fill = {.kind = kind,
            .exponent = kind == FillKind::kSubnormal ? 0 : static_cast<int>(rng.range(low, 0)),
            .seed = kind == FillKind::kPosition ? 0 : rng.bits() % 65536};
  };
  if (rng.percent(20)) some(c.k, -6);
  if (rng.percent(30)) some(c.v, -2);
}

// Draws the order (entry, head, key) or (entry, key, head), and gaps. The tensor often ends with its page.
void draw_layout(Rng& rng, Case& c, TensorId t) {
  TensorLayout& layout = layout_of(c, t);
  layout = {};
  if (rng.percent(40)) layout.order = {0, 2, 1};
  if (rng.percent(35)) layout.row_gap = rng.range(1, 4);
  if (rng.percent(40)) layout.placement = Placement::kPageEnd;
  layout.junk_unit_strides = rng.percent(20);
}

void draw_kv8(const DrawContext& context, Case& c) {
  Rng& rng = context.rng;
  const Problem& p = c.problem;
  const bool slow = (context.config.slow & ATTN_FEATURE_KV8) != 0;
  if ((context.config.features & ATTN_FEATURE_KV8) == 0 ||
      !rng.percent(p.paging && !slow ? kKv8PercentInPages : kKv8Percent))
    return;
  if (slow && !rng.percent(kKv8PercentIfSlow)) return;
  if ((p.features & kOperations) != 0 || p.latent || p.dtype == ATTN_F32 || has_many_heads(p)) return;
  if (p.seq_k > kMostKv8Keys || std::max(p.dim_qk, p.dim_v) > contract::kUsualDims) return;
  Kv8 kv8;
  kv8.format = rng.percent(60) ? KvFormat::kE4m3 : KvFormat::kE5m2;
  kv8.k = draw_scales(rng);
  kv8.v = draw_scales(rng);
  for (KvScales* scales : {&kv8.k, &kv8.v}) draw_by_page(rng, p, *scales);
  draw_codes(rng, c);
  set_kv8(c, kv8);
  const auto& domain = context.config.domain;
  if (domain && (domain->layout != ATTN_LAYOUT_ANY || domain->align_bytes != 0)) return;
  for (const TensorId t : {TensorId::kKScale, TensorId::kVScale}) draw_layout(rng, c, t);
}

// Moves the kind, the form or the seed of the scales of K or V.
bool mutate_kv8(const DrawContext& context, Case& c) {
  if (!c.problem.kv8) return false;
  Rng& rng = context.rng;
  KvScales& scales = rng.coin() ? c.problem.kv8->k : c.problem.kv8->v;
  switch (rng.range(0, 5)) {
    case 0:
      scales.kind = static_cast<ScaleKind>(rng.range(0, kScaleKinds - 1));
      break;
    case 1:
      scales.entries = !scales.entries;
      break;
    case 2:
      scales.heads = !scales.heads;
      break;
    case 3:
      scales.keys = !scales.keys;
      break;
    case 4:
      scales.page = 0;
      draw_by_page(rng, c.problem, scales);
      break;
    default:
      scales.seed = rng.bits() % 65536;
  }
  return true;
}

bool is_e5m2(const Case& c) { return c.problem.kv8 && c.problem.kv8->format == KvFormat::kE5m2; }
void become_e4m3(Case& c) {
  Kv8 kv8 = *c.problem.kv8;
  kv8.format = KvFormat::kE4m3;
  set_kv8(c, kv8);
}

template <KvScales Kv8::* kOf>
bool has_scales(const Case& c) {
  return c.problem.kv8 && (*c.problem.kv8).*kOf != KvScales{};
}
template <KvScales Kv8::* kOf>
void give_up_scales(Case& c) {
  (*c.problem.kv8).*kOf = KvScales{};
}
// The scales of K or of V: powers of two, the same for all entries; then as found with seed 0; then as found.
template <KvScales Kv8::* kOf>
constexpr ShrinkToggle scales_toggle(const char* name) {
  return {name, has_scales<kOf>, give_up_scales<kOf>, [](Case& to, const Case& from, int choice) {
            if (!to.problem.kv8 || !from.problem.kv8) return false;
            KvScales& scales = (*to.problem.kv8).*kOf;
            scales = (*from.problem.kv8).*kOf;
            if (choice == 0)
              scales = {
                  .kind = ScaleKind::kPowers, .heads = scales.heads, .keys = scales.keys, .page = scales.page};
            if (choice == 1) scales.seed = 0;
            return choice < 3;
          }};
}
// Values other than powers of two.
template <KvScales Kv8::* kOf>
constexpr ShrinkToggle values_toggle(const char* name) {
  return {name,
          [](const Case& c) { return c.problem.kv8 && ((*c.problem.kv8).*kOf).kind > ScaleKind::kPowers; },
          [](Case& c) {
            KvScales& scales = (*c.problem.kv8).*kOf;
            scales.kind = ScaleKind::kPowers, scales.seed = 0;
          },
          [](Case& to, const Case& from, int choice) {
            if (!to.problem.kv8 || !from.problem.kv8) return false;
            KvScales &scales = (*to.problem.kv8).*kOf, found = (*from.problem.kv8).*kOf;
            scales.kind = found.kind;
            scales.seed = choice == 0 ? 0 : found.seed;
            return choice < 2;
          }};
}
template <KvScales Kv8::* kOf, bool KvScales::* kPart>
constexpr ShrinkToggle part_toggle(const char* name) {
  return {name, [](const Case& c) { return c.problem.kv8 && ((*c.problem.kv8).*kOf).*kPart; },
          [](Case& c) { ((*c.problem.kv8).*kOf).*kPart = false; },
          [](Case& to, const Case& from, int choice) {
            if (!to.problem.kv8 || !from.problem.kv8) return false;
            ((*to.problem.kv8).*kOf).*kPart = ((*from.problem.kv8).*kOf).*kPart;
            return choice == 0;
          }};
}

// Scales by page. tidy_kv8() gives them the pages' size.
template <KvScales Kv8::* kOf>
constexpr ShrinkToggle page_toggle(const char* name) {
  return {name, [](const Case& c) { return c.problem.kv8 && ((*c.problem.kv8).*kOf).page > 0; },
          [](Case& c) { ((*c.problem.kv8).*kOf).page = 0; },
          [](Case& to, const Case& from, int choice) {
            if (!to.problem.kv8 || !from.problem.kv8) return false;
            ((*to.problem.kv8).*kOf).page = ((*from.problem.kv8).*kOf).page;
            return choice == 0;
          }};
}

std::string words_of(const KvScales& scales, const std::optional<Paging>& paging) {
  constexpr const char* kKinds[] = {"1", "powers of two", "uneven", "one head 64 times", "far apart"};
  std::string text = kKinds[static_cast<size_t>(scales.kind)];
  if (scales.kind == ScaleKind::kOne) return text;
  if (!scales.entries && !scales.heads && !scales.keys && scales.page == 0) text += " by tensor";
  if (scales.entries) text += " by entry";
  if (scales.heads) text += " by head";
  if (scales.keys) text += " by key";
  if (scales.page > 0)
    text += paging && paging->size == scales.page ? std::string(" by page") : cat(" by ", scales.page, " keys");
  if (scales.seed != 0) text += cat(" (seed ", scales.seed, ")");
  return text;
}

void say_kv8(const Case& c, Sentence& words) {
  if (!c.problem.kv8) return;
  const Kv8& kv8 = *c.problem.kv8;
  words.push_back(cat("K, V in ", kv8.format == KvFormat::kE4m3 ? "e4m3" : "e5m2", ", scales of K ",
                      words_of(kv8.k, c.problem.paging), ", of V ", words_of(kv8.v, c.problem.paging)));
}

void kv8_cost(const Case& c, Cost& cost) {
  const auto& kv8 = c.problem.kv8;
  cost.count(kv8.has_value());
  if (!kv8) return;
  cost.at(Rank::kOther).add(1 + static_cast<int>(kv8->format));
  for (const KvScales& scales : {kv8->k, kv8->v}) {
    cost.add(static_cast<int>(scales.kind));
    cost.add(scales.page != 0);
    cost.bits(static_cast<uint64_t>(scales.page));
    cost.add(scales.keys), cost.add(scales.heads), cost.add(scales.entries);
    cost.bits(scales.seed);
  }
}

void tidy_kv8(Case& c) {
  const Problem& p = c.problem;
  if (!p.kv8) return;
  if ((p.features & kOperations) != 0 || p.latent) return set_kv8(c, std::nullopt);
  for (KvScales* scales : {&c.problem.kv8->k, &c.problem.kv8->v}) {
    if (scales->kind == ScaleKind::kOne) *scales = {};
    if (scales->page == 0) continue;
    scales->entries = scales->keys = false;  // the page alone decides
    if (p.paging) scales->page = static_cast<int>(std::min<int64_t>(p.paging->size, kMostKv8Keys));
    if (scales->kind == ScaleKind::kPowers) scales->seed = 0;
  }
}

Complaint illegal_kv8(const Case& c) {
  const Problem& p = c.problem;
  if (!p.kv8) return std::nullopt;
  if ((p.features & kOperations) != 0) return "kv8 is set, but only the forward pass has K and V of 8 bits";
  if (p.latent) return "kv8 is set, but a latent V has no scales of its own";
  if (std::min(p.kv8->k.page, p.kv8->v.page) < 0) return "page of the scales is negative";
  return std::nullopt;
}

}  // namespace

extern constinit const Feature kv8 = checked({
    // kRefusals: a kernel that does not know 8 bits never gets them
    .without = {kShrinkIntegers, kCrossoverGroups, kNumbers, kRefusals},
    .shrink_toggles = {12,
                       {{"K and V in 8 bits", is_set<kKv8Fields>, [](Case& c) { set_kv8(c, std::nullopt); },
                         [](Case& to, const Case& from, int choice) {
                           Kv8 kv8 = *from.problem.kv8;
                           if (choice == 0) kv8.k = kv8.v = {};
                           set_kv8(to, kv8);
                           return choice < 2;
                         }},
                        {"e5m2", is_e5m2, become_e4m3,
                         [](Case& to, const Case& from, int choice) {
                           if (!to.problem.kv8 || !from.problem.kv8) return false;
                           Kv8 kv8 = *to.problem.kv8;
                           kv8.format = from.problem.kv8->format;
                           set_kv8(to, kv8);
                           return choice == 0;
                         },
                         Trait::kValue},
                        scales_toggle<&Kv8::k>("scales of K"),
                        scales_toggle<&Kv8::v>("scales of V"),
                        values_toggle<&Kv8::k>("values of the scales of K"),
                        values_toggle<&Kv8::v>("values of the scales of V"),
                        part_toggle<&Kv8::k, &KvScales::entries>("scales of K by entry"),
                        part_toggle<&Kv8::k, &KvScales::heads>("scales of K by head"),
                        part_toggle<&Kv8::k, &KvScales::keys>("scales of K by key"),
                        part_toggle<&Kv8::v, &KvScales::entries>("scales of V by entry"),
                        part_toggle<&Kv8::v, &KvScales::heads>("scales of V by head"),
                        part_toggle<&Kv8::v, &KvScales::keys>("scales of V by key"),
                        page_toggle<&Kv8::k>("scales of K by page"),
                        page_toggle<&Kv8::v>("scales of V by page")}},
    .alternatives = {{"K and V in 8 bits", is_usual<kKv8Fields>, {[](Case& c) { set_kv8(c, Kv8{}); }}}},
    .cost = kv8_cost,
    .canonical_seeds =
        [](int64_t, auto& seeds) {
          const auto form = [&](int64_t batch, int64_t heads, const Kv8& kv8) {
            seeds.push_back([=](Case& c) {
              c.problem.batch = batch;
              c.problem.heads_q = c.problem.heads_kv = heads;
              c.problem.kv8 = kv8;
            });
          };
          Kv8 narrow;
          form(1, 1, narrow);
          narrow.format = KvFormat::kE5m2;
          form(1, 1, narrow);
          for (KvScales Kv8::* const side : {&Kv8::k, &Kv8::v}) {
            const auto with = [&](const KvScales& scales) {
              Kv8 kv8;
              kv8.*side = scales;
              return kv8;
            };
            form(1, 1, with({.kind = ScaleKind::kPowers}));
            form(1, 1, with({.kind = ScaleKind::kPowers, .keys = true}));
            form(1, 2, with({.kind = ScaleKind::kPowers, .heads = true}));
            form(2, 1, with({.kind = ScaleKind::kPowers, .entries = true}));
          }
        },
    .draw = {Phase::kLater, draw_kv8},
    .mutations = {mutate_kv8},
    .tags = {{"K and V in 8 bits", [](const Tiled& x) { return x.p.kv8.has_value(); }},
             {"scales by key", [](const Tiled& x) { return x.p.kv8 && (x.p.kv8->k.keys || x.p.kv8->v.keys); }},
             {"scales by page",
              [](const Tiled& x) { return x.p.kv8 && x.p.kv8->k.page + x.p.kv8->v.page > 0; }}},
    .words = {{Section::kNumber, 4, say_kv8}},
    .tidy = tidy_kv8,
    .illegal = illegal_kv8,
});

}  // namespace attnfuzz::feature
