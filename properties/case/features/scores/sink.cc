// Sinks: one more score of each head in the softmax of its queries, without a key or a value.
#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kSinkFields = [](auto& c) { return std::tie(c.problem.sink); };

// The share of cases with sinks, for a kernel that knows sinks.
constexpr int64_t kSinkPercent = 12;

void draw_sink(const DrawContext& context, Case& c) {
  Rng& rng = context.rng;
  if ((context.config.features & ATTN_FEATURE_SINK) == 0 || !rng.percent(kSinkPercent)) return;
  Sink& sink = c.problem.sink.emplace();
  sink.dtype = rng.pick<int32_t>({ATTN_F32, ATTN_F32, ATTN_F16, ATTN_BF16});
  sink.kind = rng.weighted<SinkKind>({{5, SinkKind::kZero},
                                      {30, SinkKind::kGaussian},
                                      {20, SinkKind::kAbove},
                                      {7, SinkKind::kBelow},
                                      {3, SinkKind::kFarBelow},
                                      {10, SinkKind::kMinusInf},
                                      {25, SinkKind::kMixed}});
  sink.seed = rng.bits() % 65536;
  // If the kernel does not limit layouts, sinks may be every second, third, ... element of an array.
  const auto& domain = context.config.domain;
  const bool free = !domain || (domain->layout == ATTN_LAYOUT_ANY && domain->align_bytes == 0);
  if (free && rng.percent(50)) layout_of(c, TensorId::kSink).row_gap = rng.range(1, 4);
}

bool mutate_sink(const DrawContext& context, Case& c) {
  if (!c.problem.sink) return false;
  c.problem.sink->kind = static_cast<SinkKind>(context.rng.range(0, kSinkKinds - 1));
  return true;
}

// Values other than those of the simplest kinds.
bool has_own_sink_values(const Case& c) {
  return c.problem.sink && (c.problem.sink->kind > SinkKind::kAbove || c.problem.sink->seed != 0);
}
void take_plain_sink(Case& c) {
  c.problem.sink->kind = SinkKind::kAbove;
  c.problem.sink->seed = 0;
}
bool has_own_format(const Case& c) { return c.problem.sink && c.problem.sink->dtype != ATTN_F32; }

void say_sink(const Case& c, Sentence& words) {
  if (!c.problem.sink) return;
  constexpr const char* kKinds[] = {"of 0", "above the scores", "gaussian", "below the scores", "of -inf",
                                    "mixed", "far below the scores"};
  const Sink& sink = *c.problem.sink;
  std::string text = cat("sinks ", kKinds[static_cast<int>(sink.kind)], " ", dtype_name(sink.dtype));
  if (sink.seed != 0) text += cat(" (seed ", sink.seed, ")");
  words.push_back(text);
}

}  // namespace

extern constinit const Feature sink = checked({
    // kRefusals: a kernel that does not know sinks never gets them
    .without = {kShrinkIntegers, kCrossoverGroups, kNumbers, kRefusals},
    .shrink_toggles = {12,
                       {{"sinks", is_set<kSinkFields>, unset<kSinkFields>,
                         [](Case& to, const Case& from, int choice) {
                           to.problem.sink = from.problem.sink;
                           if (choice == 0) to.problem.sink = Sink{};
                           if (choice == 1) to.problem.sink = Sink{.kind = SinkKind::kAbove};
                           if (choice == 2)
                             to.problem.sink =
                                 Sink{.dtype = from.problem.sink->dtype, .kind = SinkKind::kAbove};
                           if (choice == 3) to.problem.sink->dtype = ATTN_F32, to.problem.sink->seed = 0;
                           return choice < 5;
                         }},
                        {"the sinks' values", has_own_sink_values, take_plain_sink,
                         [](Case& to, const Case& from, int choice) {
                           if (!to.problem.sink) to.problem.sink.emplace();
                           to.problem.sink->kind = from.problem.sink->kind;
                           to.problem.sink->seed = from.problem.sink->seed;
                           return choice == 0;
                         }},
                        {"the sinks' format", has_own_format, [](Case& c) { c.problem.sink->dtype = ATTN_F32; },
                         [](Case& to, const Case& from, int choice) {
                           if (!to.problem.sink) to.problem.sink.emplace();
                           to.problem.sink->dtype = from.problem.sink->dtype;
                           return choice == 0;
                         }}}},
    .alternatives = {{"sinks", is_usual<kSinkFields>, {[](Case& c) { c.problem.sink.emplace(); }}}},
    .cost =
        [](const Case& c, Cost& cost) {
          const auto& sink = c.problem.sink;
          cost.count(sink.has_value());
          if (!sink) return;
          cost.at(Rank::kOther).add(1 + static_cast<int>(sink->kind));
          cost.add(sink->dtype == ATTN_F32 ? 0 : 1 + sink->dtype);
          cost.bits(sink->seed);
        },
    .canonical_seeds =
        [](int64_t, auto& seeds) {
          for (const SinkKind kind : {SinkKind::kZero, SinkKind::kAbove, SinkKind::kGaussian}) {
            for (const int32_t dtype : {ATTN_F32, ATTN_BF16})
              seeds.push_back([=](Case& c) { c.problem.sink = Sink{.dtype = dtype, .kind = kind}; });
          }
        },
    .draw = {Phase::kLater, draw_sink},
    .mutations = {mutate_sink},
    .tags = {{"sinks", [](const Tiled& x) { return x.p.sink.has_value(); }},
             {"sinks of -inf",
              [](const Tiled& x) { return x.p.sink && x.p.sink->kind == SinkKind::kMinusInf; }}},
    .words = {{Section::kNumber, 2, say_sink}},
    .tidy =
        [](Case& c) {
          auto& sink = c.problem.sink;
          if ((c.problem.features & kOperations & ~ATTN_FEATURE_BACKWARD) != 0) sink.reset();
          // The error of a sink of -1e30 would leave all of dsink open.
          const bool gradients = (c.problem.features & ATTN_FEATURE_BACKWARD) != 0;
          if (sink && gradients && sink->kind == SinkKind::kFarBelow) sink->seed &= ~uint64_t{1};
          if (sink && (sink->kind == SinkKind::kZero || sink->kind == SinkKind::kMinusInf)) sink->seed = 0;
        },
    .illegal = [](const Case& c) -> Complaint {
      const auto& sink = c.problem.sink;
      if (!sink || (sink->dtype >= ATTN_F16 && sink->dtype <= ATTN_F32)) return std::nullopt;
      return say("sink.dtype", sink->dtype, "f16 (0), bf16 (1) or f32 (2)");
    },
});

}  // namespace attnfuzz::feature
