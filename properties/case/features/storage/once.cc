// Q, K or V stored once for several batch entries or heads, by strides of 0.
#include "properties/case/features/feature.h"
#include "properties/case/places/geometry.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kOnceFields = [](auto& c) { return std::tie(c.once); };

void draw_once(const DrawContext& context, Case& c) {
  Rng& rng = context.rng;
  // Few cases have both dimensions to share.
  const bool both = c.problem.batch > 1 && c.problem.heads_kv > 1;
  if (!rng.percent(both ? 16 : 4)) return;
  // Callers mostly share one KV head; they seldom share Q.
  const auto some = [&](Once& once, int64_t percent) {
    once.head = rng.percent(percent);
    once.batch = rng.percent(percent / 2);
  };
  some(c.once.k, 70);
  c.once.v = c.once.k;
  if (rng.percent(40)) some(c.once.v, 60);
  some(c.once.q, 40);
}

template <Once StoredOnce::* kOf>
constexpr ShrinkToggle kOnceToggle(const char* name) {
  return whole_toggle<[](auto& c) { return std::tie(c.once.*kOf); }>(name, Trait::kInputLayout);
}

void say_once(const Case& c, Sentence& words) {
  for (const TensorId t : kStoredOnceTensors) {
    const Once once = c.once.*once_of(t);
    if (once == Once{}) continue;
    words.push_back(cat(name_of(t), " stored once for all ",
                        !once.head    ? "batch entries"
                        : !once.batch ? "heads"
                                      : "batch entries and heads"));
  }
}

int once_parts(const Once& once) { return int{once.batch} + int{once.head}; }

}  // namespace

extern constinit const Feature once = checked({
    .without = {kShrinkIntegers, kAlternatives, kCanonicalSeeds, kNumbers, kMutations, kRefusals, kIllegal},
    .shrink_toggles = {22,
                       {kOnceToggle<&StoredOnce::q>("q stored once"),
                        kOnceToggle<&StoredOnce::k>("k stored once"),
                        kOnceToggle<&StoredOnce::v>("v stored once")}},
    .cost =
        [](const Case& c, Cost& cost) {
          int all = 0;
          for (const TensorId t : kStoredOnceTensors) all += once_parts(c.once.*once_of(t));
          cost.count(all);
          cost.at(Rank::kOther).add(all);
          for (const TensorId t : kStoredOnceTensors) {
            const Once& of = c.once.*once_of(t);
            cost.add(of.batch), cost.add(of.head);
          }
        },
    .draw = {Phase::kMemory, draw_once},
    .crossover_groups = {{"once", 2, take<kOnceFields>}},
    .tags = {{"stored once", [](const Tiled& x) { return is_set<kOnceFields>(x.c); }, TagUse::kBoth}},
    .words = {{Section::kSurroundings, 1, say_once}},
    // A dimension of size 1 is stored once anyway.
    .tidy =
        [](Case& c) {
          const Problem& p = c.problem;
          for (const TensorId t : kStoredOnceTensors) {
            Once& of = c.once.*once_of(t);
            if (p.batch < 2) of.batch = false;
            if (logical_size(p, t)[1] < 2) of.head = false;
          }
        },
});

}  // namespace attnfuzz::feature
