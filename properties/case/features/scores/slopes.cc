// Slopes: a score falls with the distance of its key from the query's diagonal (ALiBi).
#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kSlopesFields = [](auto& c) { return std::tie(c.problem.slopes); };

// The share of cases with slopes, for a kernel that knows them.
constexpr int64_t kSlopesPercent = 12;

void draw_slopes(const DrawContext& context, Case& c) {
  Rng& rng = context.rng;
  if ((context.config.features & ATTN_FEATURE_ALIBI) == 0 || !rng.percent(kSlopesPercent)) return;
  Slopes& slopes = c.problem.slopes.emplace();
  slopes.kind = rng.weighted<SlopeKind>({{5, SlopeKind::kZero},
                                         {20, SlopeKind::kPowers},
                                         {30, SlopeKind::kUneven},
                                         {10, SlopeKind::kNegative},
                                         {10, SlopeKind::kSteep},
                                         {25, SlopeKind::kMixed}});
  slopes.entries = rng.percent(40);
  slopes.seed = rng.bits() % 65536;
  // Slopes have a diagonal even if nothing else has one.
  const auto& domain = context.config.domain;
  if (!hides_by_diagonal(c.problem)) {
    c.problem.align = rng.coin() ? ATTN_TOP_LEFT : ATTN_BOTTOM_RIGHT;
    if (domain && domain->align != 0) c.problem.align = domain->align - 1;
  }
  // If the kernel does not limit layouts, slopes may be every second, third, ... element of an array.
  const bool free = !domain || (domain->layout == ATTN_LAYOUT_ANY && domain->align_bytes == 0);
  if (free && rng.percent(50)) layout_of(c, TensorId::kSlopes).row_gap = rng.range(1, 4);
}

bool mutate_slopes(const DrawContext& context, Case& c) {
  if (!c.problem.slopes) return false;
  Slopes& slopes = *c.problem.slopes;
  if (context.rng.coin()) {
    slopes.kind = static_cast<SlopeKind>(context.rng.range(0, kSlopeKinds - 1));
  } else {
    slopes.entries = !slopes.entries;
  }
  return true;
}

// Values other than those of the simplest kinds.
bool has_own_slopes_values(const Case& c) {
  return c.problem.slopes && (c.problem.slopes->kind > SlopeKind::kPowers || c.problem.slopes->seed != 0);
}
void take_plain_slopes(Case& c) {
  c.problem.slopes->kind = SlopeKind::kPowers;
  c.problem.slopes->seed = 0;
}
bool has_own_entries(const Case& c) { return c.problem.slopes && c.problem.slopes->entries; }

void say_slopes(const Case& c, Sentence& words) {
  if (!c.problem.slopes) return;
  constexpr const char* kKinds[] = {"of 0", "powers of two", "uneven", "below 0", "steep", "mixed"};
  const Slopes& slopes = *c.problem.slopes;
  std::string text = cat("slopes ", kKinds[static_cast<int>(slopes.kind)]);
  if (slopes.entries) text += ", own of each entry";
  if (!hides_by_diagonal(c.problem) && c.problem.align == ATTN_BOTTOM_RIGHT) text += ", bottom-right";
  if (slopes.seed != 0) text += cat(" (seed ", slopes.seed, ")");
  words.push_back(text);
}

}  // namespace

extern constinit const Feature slopes = checked({
    // kRefusals: a kernel that does not know slopes never gets them
    .without = {kShrinkIntegers, kCrossoverGroups, kNumbers, kRefusals},
    .shrink_toggles = {12,
                       {{"slopes", is_set<kSlopesFields>, unset<kSlopesFields>,
                         [](Case& to, const Case& from, int choice) {
                           to.problem.slopes = from.problem.slopes;
                           if (choice == 0) to.problem.slopes = Slopes{};
                           if (choice == 1) to.problem.slopes = Slopes{.kind = SlopeKind::kPowers};
                           if (choice == 2) to.problem.slopes->entries = false, to.problem.slopes->seed = 0;
                           return choice < 4;
                         }},
                        {"the slopes' values", has_own_slopes_values, take_plain_slopes,
                         [](Case& to, const Case& from, int choice) {
                           if (!to.problem.slopes) to.problem.slopes.emplace();
                           to.problem.slopes->kind = from.problem.slopes->kind;
                           to.problem.slopes->seed = from.problem.slopes->seed;
                           return choice == 0;
                         }},
                        {"the entries' own slopes", has_own_entries,
                         [](Case& c) { c.problem.slopes->entries = false; },
                         [](Case& to, const Case& from, int choice) {
                           if (!to.problem.slopes) to.problem.slopes.emplace();
                           to.problem.slopes->entries = from.problem.slopes->entries;
                           return choice == 0;
                         }}}},
    .alternatives = {{"slopes", is_usual<kSlopesFields>, {[](Case& c) { c.problem.slopes.emplace(); }}}},
    .cost =
        [](const Case& c, Cost& cost) {
          const auto& slopes = c.problem.slopes;
          cost.count(slopes.has_value());
          if (!slopes) return;
          cost.at(Rank::kOther).add(1 + static_cast<int>(slopes->kind));
          cost.add(slopes->entries);
          cost.bits(slopes->seed);
        },
    .canonical_seeds =
        [](int64_t, auto& seeds) {
          for (const int32_t align : {ATTN_TOP_LEFT, ATTN_BOTTOM_RIGHT}) {
            seeds.push_back([=](Case& c) {
              c.problem.slopes = Slopes{.kind = SlopeKind::kPowers};
              c.problem.align = align;
            });
          }
        },
    .draw = {Phase::kLater, draw_slopes},
    .mutations = {mutate_slopes},
    .tags = {{"slopes", [](const Tiled& x) { return x.p.slopes.has_value(); }},
             {"slopes of each batch entry",
              [](const Tiled& x) { return x.p.slopes && x.p.slopes->entries && x.p.batch > 1; }}},
    .words = {{Section::kNumber, 3, say_slopes}},
    .tidy =
        [](Case& c) {
          auto& slopes = c.problem.slopes;
          if ((c.problem.features & kOperations) != 0) slopes.reset();
          if (!slopes) return;
          if (slopes->kind == SlopeKind::kZero) slopes->entries = false;
          if (slopes->kind == SlopeKind::kZero || slopes->kind == SlopeKind::kPowers) slopes->seed = 0;
        },
    .illegal = [](const Case& c) -> Complaint {
      if (c.problem.slopes && (c.problem.features & kOperations) != 0)
        return "slopes is set, but the problem's operation has no slopes";
      return std::nullopt;
    },
});

}  // namespace attnfuzz::feature
