// A backward pass (ATTN_FEATURE_BACKWARD, ATTN_FEATURE_SELECTED_BACKWARD) is given dO, the gradient of O. Dimensions of
// dO may be stored once.
#include "properties/case/features/feature.h"
#include "properties/case/places/geometry.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kDoutFields = [](auto& c) { return std::tie(c.dout_repeated); };

bool is_backward(const Problem& p) { return gives_gradients(p.features); }

constexpr bool Repeated::* kDimensions[] = {&Repeated::batch, &Repeated::head, &Repeated::query,
                                            &Repeated::column};

bool mutate_dout(const DrawContext& context, Case& c) {
  if (!is_backward(c.problem)) return false;
  bool& dimension = c.dout_repeated.*context.rng.pick<bool Repeated::*>(kDimensions);
  dimension = !dimension;
  return true;
}

int dout_parts(const Repeated& of) { return int{of.batch} + int{of.head} + int{of.query} + int{of.column}; }

void say_repeated(const Case& c, Sentence& words) {
  constexpr const char* kNames[] = {"batch entries", "heads", "queries", "columns"};
  std::string text;
  for (size_t n = 0; n < std::size(kDimensions); ++n) {
    if (c.dout_repeated.*kDimensions[n]) text += cat(text.empty() ? "" : ", ", kNames[n]);
  }
  if (!text.empty()) words.push_back("dout stored once for all " + text);
}

}  // namespace

extern constinit const Feature dout = checked({
    // kDraw: operations/backward/operation.cc turns a drawn case into a backward pass
    .without = {kShrinkIntegers, kAlternatives, kCanonicalSeeds, kDraw, kCrossoverGroups, kNumbers, kRefusals},
    .shrink_toggles = {23, {whole_toggle<kDoutFields>("dout repeated", Trait::kInputLayout)}},
    .cost =
        [](const Case& c, Cost& cost) {
          if (c.dout_repeated == Repeated{}) return;
          cost.count(dout_parts(c.dout_repeated));
          cost.at(Rank::kOther).add(dout_parts(c.dout_repeated));
          for (const auto dimension : kDimensions) cost.add(c.dout_repeated.*dimension);
        },
    .mutations = {mutate_dout},
    .tags = {{"backward: dO repeated", [](const Tiled& x) { return is_set<kDoutFields>(x.c); }}},
    .words = {{Section::kSurroundings, 2, say_repeated}},
    // A dimension of size 1 is stored once anyway.
    .tidy =
        [](Case& c) {
          Repeated& of = c.dout_repeated;
          if (!is_backward(c.problem)) of = {};
          const std::array<int64_t, 4> size = logical_size(c.problem, TensorId::kDout);
          for (size_t n = 0; n < std::size(kDimensions); ++n) {
            if (size[n] < 2) of.*kDimensions[n] = false;
          }
          if (c.problem.packed_q) of.batch = of.query = false;  // its rows are those of all entries
        },
    .illegal = [](const Case& c) -> Complaint {
      if (!is_backward(c.problem)) {
        if (c.dout_repeated != Repeated{}) return "dout is repeated, but the problem asks for no backward pass";
        return std::nullopt;
      }
      if (c.problem.packed_q && (c.dout_repeated.batch || c.dout_repeated.query))
        return "dout is repeated over packed entries or their queries";
      if (c.problem.num_splits != 0) return "a backward pass has no splits";
      if (c.problem.features & ATTN_FEATURE_MERGE) return "the problem asks for two operations";
      return std::nullopt;
    },
});

}  // namespace attnfuzz::feature
