#include "properties/draw/case_parts.h"

#include "properties/draw/draw.h"

namespace attnfuzz {
namespace {

// Rare features are drawn in 3 % of all cases.
constexpr int kDraws = 60;

using P = PartOf;
constexpr Part kParts[] = {
    {"dtype", P::kSizes, 3, [](Case& to, const Case& from) { to.problem.dtype = from.problem.dtype; }},
    {"lengths", P::kSizes, 6,
     [](Case& to, const Case& from) {
       to.problem.seq_q = from.problem.seq_q;
       to.problem.seq_k = from.problem.seq_k;
     }},
    {"seq_q", P::kSizes, 4, [](Case& to, const Case& from) { to.problem.seq_q = from.problem.seq_q; }},
    {"seq_k", P::kSizes, 4, [](Case& to, const Case& from) { to.problem.seq_k = from.problem.seq_k; }},
    {"heads", P::kSizes, 5,
     [](Case& to, const Case& from) {
       to.problem.heads_q = from.problem.heads_q;
       to.problem.heads_kv = from.problem.heads_kv;
     }},
    {"batch", P::kSizes, 3, [](Case& to, const Case& from) { to.problem.batch = from.problem.batch; }},
    {"dims", P::kSizes, 4,
     [](Case& to, const Case& from) {
       to.problem.dim_qk = from.problem.dim_qk;
       to.problem.dim_v = from.problem.dim_v;
     }},
    {"dim_v", P::kSizes, 2, [](Case& to, const Case& from) { to.problem.dim_v = from.problem.dim_v; }},
    {"splits", P::kSizes, 5,
     [](Case& to, const Case& from) { to.problem.num_splits = from.problem.num_splits; }},
    {"causal", P::kVisibility, 5,
     [](Case& to, const Case& from) {
       to.problem.causal = from.problem.causal;
       to.problem.align = from.problem.align;
     }},
    {"window", P::kVisibility, 4,
     [](Case& to, const Case& from) {
       to.problem.window_left = from.problem.window_left;
       to.problem.window_right = from.problem.window_right;
     }},
    {"key lengths", P::kVisibility, 4,
     [](Case& to, const Case& from) {
       to.problem.key_lengths = from.problem.key_lengths;
       to.nan_beyond_lengths = from.nan_beyond_lengths;
     }},
    {"bias", P::kVisibility, 4, [](Case& to, const Case& from) { to.problem.bias = from.problem.bias; }},
    {"mask", P::kVisibility, 4, [](Case& to, const Case& from) { to.problem.mask = from.problem.mask; }},
    {"logits", P::kValues, 5,
     [](Case& to, const Case& from) {
       to.q = from.q;
       to.k = from.k;
     }},
    {"q", P::kValues, 1, [](Case& to, const Case& from) { to.q = from.q; }},
    {"k", P::kValues, 1, [](Case& to, const Case& from) { to.k = from.k; }},
    {"v", P::kValues, 4, [](Case& to, const Case& from) { to.v = from.v; }},
    {"scale", P::kValues, 3, [](Case& to, const Case& from) { to.problem.scale = from.problem.scale; }},
    {"softcap", P::kValues, 3, [](Case& to, const Case& from) { to.problem.softcap = from.problem.softcap; }},
    {"planted", P::kValues, 2, [](Case& to, const Case& from) { to.planted = from.planted; }},
    {"layout", P::kMemory, 5, [](Case& to, const Case& from) { to.layout = from.layout; }},
    {"prefill", P::kMemory, 1, [](Case& to, const Case& from) { to.prefill = from.prefill; }},
    {"want_lse", P::kMemory, 1, [](Case& to, const Case& from) { to.want_lse = from.want_lse; }},
    {"device", P::kMemory, 2,
     [](Case& to, const Case& from) {
       to.env.sm_count = from.env.sm_count;
       to.env.compute_capability = from.env.compute_capability;
       to.env.shared_memory_limit = from.env.shared_memory_limit;
     }},
    {"schedule", P::kMemory, 2,
     [](Case& to, const Case& from) { to.env.schedule_seed = from.env.schedule_seed; }},
    {"variant", P::kMemory, 2, [](Case& to, const Case& from) { to.env.variant = from.env.variant; }},
    {"calls", P::kMemory, 3, [](Case& to, const Case& from) { to.calls = from.calls; }},
};

// The draws only turn features on: they begin from a case that has none of theirs.
void strip(PartOf of, Case& c) {
  const Case simplest;
  switch (of) {
    case PartOf::kSizes:
      c.problem.num_splits = 0;
      break;
    case PartOf::kVisibility:
      c.problem.window_left = c.problem.window_right = -1;
      c.problem.key_lengths.reset();
      c.problem.bias.reset();
      c.problem.mask.reset();
      break;
    case PartOf::kValues:
      c.problem.softcap = 0;
      c.planted.clear();
      break;
    case PartOf::kMemory:
      c.layout = simplest.layout;
      c.calls = simplest.calls;
      break;
  }
}

}  // namespace

std::span<const Part> parts() { return kParts; }

Case redraw(const Part& part, const Case& c, const Aim& aim, Dice& dice) {
  Case stripped = c;
  strip(part.of, stripped);
  for (int i = 0; i < kDraws; ++i) {
    Case fresh = stripped, next = c;
    switch (part.of) {
      case PartOf::kSizes:
        draw_sizes(aim, dice, fresh);
        break;
      case PartOf::kVisibility:
        draw_visibility(aim, dice, fresh);
        break;
      case PartOf::kValues:
        draw_values(dice, fresh);
        break;
      case PartOf::kMemory:
        draw_memory(aim, dice, fresh);
        break;
    }
    part.take(next, fresh);
    if (next != c) return next;
  }
  return c;
}

}  // namespace attnfuzz
