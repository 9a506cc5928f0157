// The format of Q, K, V and O.
#include "properties/case/features/feature.h"
#include "properties/case/places/planted_rank.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kDtypeFields = [](auto& c) { return std::tie(c.problem.dtype); };

constexpr uint32_t kBothDtype = 1u << ATTN_F16 | 1u << ATTN_BF16;

// The formats that the kernel declares, as in attn_domain.dtypes. Without a domain, its features say whether it
// takes fp32.
uint32_t formats_taken(const GeneratorConfig& config) {
  if (config.domain) return config.domain->dtypes;
  return (config.features & ATTN_FEATURE_F32) != 0 ? kBothDtype | 1u << ATTN_F32 : 0;
}

// fp32 is drawn only if the kernel declares it, and always if it takes nothing else.
void draw_dtype(const DrawContext& context, Case& c) {
  c.problem.dtype = context.rng.coin() ? ATTN_F16 : ATTN_BF16;
  const uint32_t taken = formats_taken(context.config);
  if ((taken >> ATTN_F32 & 1) != 0 && ((taken & kBothDtype) == 0 || context.rng.percent(40)))
    c.problem.dtype = ATTN_F32;
}

bool is_bf16(const Case& c) { return c.problem.dtype == ATTN_BF16; }
bool is_fp32(const Case& c) { return c.problem.dtype == ATTN_F32; }

bool add(Case& to, const Case& from, int choice) {
  if (choice == 0) set_dtype(to, from.problem.dtype);
  return choice == 0;
}

}  // namespace

extern constinit const Feature dtype = checked({
    .without = {kShrinkIntegers, kCanonicalSeeds, kNumbers, kMutations, kWords, kTidy},
    .shrink_toggles = {15,
                       {{"bf16", is_bf16, [](Case& c) { set_dtype(c, ATTN_F16); }, add, Trait::kValue},
                        {"fp32", is_fp32, [](Case& c) { set_dtype(c, ATTN_F16); }, add, Trait::kValue}}},
    .alternatives = {{"dtype", is_usual<kDtypeFields>, {[](Case& c) { c.problem.dtype = ATTN_BF16; }}, "f16"}},
    .cost =
        [](const Case& c, Cost& cost) {
          cost.count(is_set<kDtypeFields>(c));
          cost.at(Rank::kDtype).add(c.problem.dtype);
        },
    .draw = {Phase::kSizes, draw_dtype},
    .crossover_groups = {{"dtype", 3, take<kDtypeFields>}},
    .refusals = {{"f16",
                  [](Problem& p) { p.dtype = ATTN_F16; },
                  [](Case& c) {
                    if (c.problem.dtype == ATTN_F16) c.problem.dtype = ATTN_BF16;
                  },
                  {},
                  nullptr,
                  Limit::kNoF16},
                 {"bf16",
                  [](Problem& p) { p.dtype = ATTN_BF16; },
                  [](Case& c) {
                    if (c.problem.dtype == ATTN_BF16) c.problem.dtype = ATTN_F16;
                  },
                  {},
                  nullptr,
                  Limit::kNoBf16}},
    .tags = {{"bf16", [](const Tiled& x) { return is_bf16(x.c); }},
             {"fp32", [](const Tiled& x) { return is_fp32(x.c); }}},
    .illegal = [](const Case& c) -> Complaint {
      if (c.problem.dtype >= ATTN_F16 && c.problem.dtype <= ATTN_F32) return std::nullopt;
      return say("dtype", c.problem.dtype, "f16 (0), bf16 (1) or f32 (2)");
    },
});

}  // namespace attnfuzz::feature
