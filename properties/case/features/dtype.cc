// The format of Q, K, V and O.
#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kFields = [](auto& c) { return std::tie(c.problem.dtype); };

// NaN and infinities keep their meaning when the format of Q, K and V changes.
void set_dtype(Case& c, int32_t dtype) {
  if (c.problem.dtype == dtype) return;
  const uint32_t old_inf = c.problem.dtype == ATTN_F16 ? 0x7c00 : 0x7f80;
  const uint32_t new_inf = dtype == ATTN_F16 ? 0x7c00 : 0x7f80;
  for (Planted& x : c.planted) {
    if (x.tensor == TensorId::kBias) continue;
    const uint32_t magnitude = x.bits & 0x7fff;
    if (magnitude == old_inf) x.bits = (x.bits & 0x8000) | new_inf;
    if (magnitude > old_inf) x.bits = new_inf | (new_inf == 0x7c00 ? 0x200 : 0x40);
  }
  c.problem.dtype = dtype;
}

}  // namespace

extern constinit const Feature dtype = {
    .switches = {15,
                 {{"bf16", is_set<kFields>, [](Case& c) { set_dtype(c, ATTN_F16); },
                   whole_switch<kFields>("").add, Trait::kValue}}},
    .dials = none,
    .others = {{"dtype", is_usual<kFields>, {[](Case& c) { c.problem.dtype = ATTN_BF16; }}, "f16"}},
    .cost =
        [](const Case& c, Cost& cost) {
          cost.count(is_set<kFields>(c));
          cost.at(Rank::kDtype).add(c.problem.dtype);
        },
    .forms = none,
    .draw = {Phase::kSizes,
             [](const Toss& toss, Case& c) { c.problem.dtype = toss.dice.coin() ? ATTN_F16 : ATTN_BF16; }},
    .parts = {{"dtype", 3, take<kFields>}},
    .numbers = none,
    .steps = none,
    .refusals = {{"f16", [](Problem& p) { p.dtype = ATTN_F16; }, [](Case& c) { c.problem.dtype = ATTN_BF16; }},
                 {"bf16", [](Problem& p) { p.dtype = ATTN_BF16; },
                  [](Case& c) { c.problem.dtype = ATTN_F16; }}},
    .marks = {{"bf16", [](const Tiled& x) { return x.p.dtype == ATTN_BF16; }}},
    .words = none,
    .tidy = none,
    .illegal = [](const Case& c) -> Complaint {
      if (c.problem.dtype == ATTN_F16 || c.problem.dtype == ATTN_BF16) return std::nullopt;
      return say("dtype", c.problem.dtype, "f16 (0) or bf16 (1)");
    },
};

}  // namespace attnfuzz::feature
