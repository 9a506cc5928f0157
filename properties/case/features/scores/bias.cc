// An additive bias, in a format of its own. A value of -inf hides its key.
#include "properties/case/features/visibility/pattern.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kBiasFields = [](auto& c) { return std::tie(c.problem.bias); };

void draw_bias(const DrawContext& context, Case& c) {
  Rng& rng = context.rng;
  if (!rng.percent(22)) return;
  Bias bias;
  bias.dtype = rng.pick<int32_t>({ATTN_F32, ATTN_F32, ATTN_F16, ATTN_BF16});
  // A merge weighs splits by their LSEs. An LSE as large as this bias does not say how many keys a split has,
  // so few such rows can be judged in a kernel with splits.
  const int64_t far_below = context.config.splits ? 14 : 28;
  bias.kind = rng.weighted<BiasKind>({{20, BiasKind::kZero},
                                      {15, BiasKind::kRowConstant},
                                      {35, BiasKind::kGaussian},
                                      {20, BiasKind::kAlibi},
                                      {8, BiasKind::kVeryNegative},
                                      {far_below, BiasKind::kFarBelow},
                                      {15, BiasKind::kWide},
                                      {35, BiasKind::kMasking}});
  if (bias.kind == BiasKind::kMasking || rng.percent(55)) bias.finite = draw_pattern(context, c.problem);
  // The lowest finite number acts unlike -inf only if it fills a whole tile of a row that has a visible key.
  if (bias.kind == BiasKind::kMasking && rng.coin()) {
    bias.finite.kind = rng.coin() ? PatternKind::kLastKey : PatternKind::kDeadTiles;
    bias.finite.parameter = context.tile_k;
  }
  bias.broadcast = draw_broadcast(rng);
  // Models have one bias for each head, in fp32, shared by the batch.
  if (rng.percent(25)) bias.dtype = ATTN_F32, bias.broadcast = {.batch = true};
  bias.seed = rng.bits() % 65536;
  c.problem.bias = bias;
}

void say_bias(const Case& c, Sentence& words) {
  if (!c.problem.bias) return;
  const Bias& b = *c.problem.bias;
  std::string text = cat("bias ", to_string(b.kind), " ", dtype_name(b.dtype));
  if (b.finite.kind != PatternKind::kAll)
    text += (b.kind == BiasKind::kMasking ? ", lowest but for " : ", finite for ") + to_string(b.finite);
  text += broadcast_words(b.broadcast);
  if (b.seed != 0) text += cat(" (seed ", b.seed, ")");
  words.push_back(text);
}

bool mutate_bias(const DrawContext& context, Case& c) {
  auto& bias = c.problem.bias;
  if (!bias) return false;
  if (context.rng.percent(30)) bias->kind = static_cast<BiasKind>(context.rng.range(0, kBiasKinds - 1));
  mutate_pattern(context, c.problem, bias->finite, bias->broadcast);
  return true;
}

}  // namespace

extern constinit const Feature bias = checked({
    .without = {kNumbers},
    .shrink_toggles = {7,
                       {{"bias", is_set<kBiasFields>, unset<kBiasFields>,
                         [](Case& to, const Case& from, int choice) {
                           to.problem.bias = from.problem.bias;
                           if (choice == 0) {
                             to.problem.bias->seed = 0;
                             to.problem.bias->broadcast = {};
                           }
                           return form_of(to.problem.bias->finite, choice);
                         },
                         Trait::kHidesKeys}}},
    .shrink_integers = {{"the bias's parameter", IntegerKind::kParameter, 1,
                         [](const Case& c) { return c.problem.bias->finite.parameter; },
                         [](Case& c, int64_t n) { c.problem.bias->finite.parameter = n; },
                         is_set<kBiasFields>}},
    .alternatives = {{"bias", is_usual<kBiasFields>, {[](Case& c) { c.problem.bias.emplace(); }}}},
    .cost =
        [](const Case& c, Cost& cost) {
          const auto& bias = c.problem.bias;
          cost.count(bias.has_value());
          cost.at(Rank::kBias).add(bias.has_value());
          if (!bias) return;
          cost.at(Rank::kBiasForm).add(static_cast<int>(bias->kind));
          cost.add(bias->dtype == ATTN_F32 ? 0 : 1 + bias->dtype);
          cost.add(bias->finite);
          cost.add(bias->broadcast);
          cost.bits(bias->seed);
        },
    .canonical_seeds =
        [](int64_t, auto& seeds) {
          for (const PatternKind kind :
               {PatternKind::kNothing, PatternKind::kFirstKey, PatternKind::kLastKey}) {
            seeds.push_back([=](Case& c) { c.problem.bias.emplace().finite.kind = kind; });
          }
          seeds.push_back([](Case& c) {
            c.problem.bias.emplace().kind = BiasKind::kVeryNegative;
            c.problem.bias->dtype = ATTN_F16;
          });
          seeds.push_back([](Case& c) { c.problem.bias.emplace().broadcast.query = true; });
        },
    .draw = {Phase::kVisibility, draw_bias},
    .crossover_groups = {{"bias", 4, take<kBiasFields>}},
    .mutations = {mutate_bias},
    .refusals = {{"bias",
                  [](Problem& p) { p.bias.emplace().dtype = p.dtype; },
                  [](Case& c) {
                    Problem& p = c.problem;
                    // A mask can hide the same keys.
                    if (p.bias && !p.mask && p.bias->finite.kind != PatternKind::kAll)
                      p.mask = Mask{p.bias->finite, p.bias->broadcast};
                    p.bias.reset();
                  },
                  {"bias_shift", "mask_as_bias"},
                  nullptr,
                  Limit::kNoBias}},
    .tags = {{"bias", [](const Tiled& x) { return x.p.bias.has_value(); }, TagUse::kBoth},
             {"bias with -inf",
              [](const Tiled& x) { return x.p.bias && x.p.bias->finite.kind != PatternKind::kAll; }}},
    .words = {{Section::kMask, 4, say_bias}},
    .tidy =
        [](Case& c) {
          auto& bias = c.problem.bias;
          if (!bias) return;
          tidy(bias->finite);
          const bool random = bias->kind != BiasKind::kZero && bias->kind != BiasKind::kAlibi &&
                              bias->kind != BiasKind::kMasking;
          if (!random) bias->seed = 0;
        },
    .illegal = [](const Case& c) -> Complaint {
      const auto& bias = c.problem.bias;
      if (!bias) return std::nullopt;
      if (bias->dtype != ATTN_F16 && bias->dtype != ATTN_BF16 && bias->dtype != ATTN_F32)
        return say("bias.dtype", bias->dtype, "f16 (0), bf16 (1) or f32 (2)");
      return bad_pattern("bias.finite", bias->finite);
    },
});

}  // namespace attnfuzz::feature
