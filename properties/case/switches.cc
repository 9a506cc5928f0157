#include "properties/case/switches.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

namespace attnfuzz {
namespace {

// A pattern in its simplest form, and as it is.
bool form_of(Pattern& p, int choice) {
  if (choice > 1) return false;
  if (choice == 0) {
    p.parameter = 1;
    p.seed = 0;
  }
  return true;
}

int64_t own_length(const Case& from) {
  const auto& lengths = *from.problem.key_lengths;
  return lengths.empty() ? 0 : *std::ranges::min_element(lengths);
}

bool odd_layout(const Case& c, TensorId t) { return c.layout[static_cast<size_t>(t)] != TensorLayout{}; }

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

float usual_scale(const Problem& p) {
  return 1.0f / std::sqrt(static_cast<float>(std::max<int64_t>(p.dim_qk, 1)));
}

template <TensorId T>
constexpr Switch layout_switch(const char* name) {
  return {name, [](const Case& c) { return odd_layout(c, T); },
          [](Case& c) { c.layout[static_cast<size_t>(T)] = TensorLayout{}; },
          [](Case& to, const Case& from, int choice) {
            to.layout[static_cast<size_t>(T)] = from.layout[static_cast<size_t>(T)];
            return choice == 0;
          }};
}

const Switch kSwitches[] = {
    {"a remap", [](const Case& c) { return c.remap != Remap{}; }, [](Case& c) { c.remap = Remap{}; },
     [](Case& to, const Case& from, int choice) {
       to.remap = from.remap;
       return choice == 0;
     }},
    {"the variant", [](const Case& c) { return c.env.variant != 1; }, [](Case& c) { c.env.variant = 1; },
     [](Case& to, const Case& from, int choice) {
       to.env.variant = from.env.variant;
       return choice == 0;
     }},
    {"a dirty workspace", [](const Case& c) { return std::ranges::any_of(c.calls, &Call::dirty_workspace); },
     [](Case& c) {
       for (Call& call : c.calls) call.dirty_workspace = false;
     },
     [](Case& to, const Case&, int choice) {
       to.calls.back().dirty_workspace = true;
       return choice == 0;
     }},
    {"a second stream",
     [](const Case& c) { return std::ranges::any_of(c.calls, [](const Call& x) { return x.stream != 0; }); },
     [](Case& c) {
       for (Call& call : c.calls) call.stream = 0;
     },
     [](Case& to, const Case&, int choice) {
       to.calls.back().stream = 1;
       return choice == 0;
     }},
    {"more calls", [](const Case& c) { return c.calls.size() > 1; }, [](Case& c) { c.calls.resize(1); },
     [](Case& to, const Case& from, int choice) {
       if (choice > 1) return false;
       const bool dirty = std::ranges::any_of(from.calls, &Call::dirty_workspace);
       if (choice == 0) to.calls = {Call{}, Call{.dirty_workspace = dirty}};
       if (choice == 1) to.calls = from.calls;
       return true;
     }},
    {"batch", [](const Case& c) { return c.problem.batch > 1; }, [](Case& c) { c.problem.batch = 1; },
     [](Case& to, const Case& from, int choice) {
       to.problem.batch = choice == 0 ? 2 : from.problem.batch;
       return choice < 2;
     }},
    {"more KV heads", [](const Case& c) { return c.problem.heads_kv > 1; },
     [](Case& c) {
       c.problem.heads_q /= std::max<int64_t>(c.problem.heads_kv, 1);
       c.problem.heads_kv = 1;
     },
     [](Case& to, const Case& from, int choice) {
       const int64_t heads = choice == 0 ? 2 : from.problem.heads_kv;
       to.problem.heads_q *= heads;
       to.problem.heads_kv *= heads;
       return choice < 2;
     }},
    {"grouped heads", [](const Case& c) { return c.problem.heads_q != c.problem.heads_kv; },
     [](Case& c) { c.problem.heads_q = c.problem.heads_kv; },
     [](Case& to, const Case& from, int choice) {
       to.problem.heads_q *=
           choice == 0 ? 2 : from.problem.heads_q / std::max<int64_t>(from.problem.heads_kv, 1);
       return choice < 2;
     }},
    {"planted values", [](const Case& c) { return !c.planted.empty(); }, [](Case& c) { c.planted.clear(); },
     [](Case& to, const Case& from, int choice) {
       if (choice > 1) return false;
       to.planted = from.planted;
       if (choice == 0) {
         to.planted.resize(1);
         to.planted[0].b = to.planted[0].h = to.planted[0].s = to.planted[0].d = 0;
       }
       return true;
     }},
    {"NaN beyond the key lengths", [](const Case& c) { return c.nan_beyond_lengths; },
     [](Case& c) { c.nan_beyond_lengths = false; },
     [](Case& to, const Case&, int choice) {
       if (!to.problem.key_lengths) {
         to.problem.key_lengths.emplace(static_cast<size_t>(to.problem.batch),
                                        std::max<int64_t>(to.problem.seq_k - 1, 0));
       }
       to.nan_beyond_lengths = true;
       return choice == 0;
     }},
    {"bias", [](const Case& c) { return c.problem.bias.has_value(); }, [](Case& c) { c.problem.bias.reset(); },
     [](Case& to, const Case& from, int choice) {
       to.problem.bias = from.problem.bias;
       if (choice == 0) {
         to.problem.bias->seed = 0;
         to.problem.bias->broadcast = {};
       }
       return form_of(to.problem.bias->finite, choice);
     }},
    {"mask", [](const Case& c) { return c.problem.mask.has_value(); }, [](Case& c) { c.problem.mask.reset(); },
     [](Case& to, const Case& from, int choice) {
       to.problem.mask = from.problem.mask;
       if (choice == 0) to.problem.mask->broadcast = {};
       return form_of(to.problem.mask->visible, choice);
     }},
    {"a window to the left", [](const Case& c) { return c.problem.window_left >= 0; },
     [](Case& c) { c.problem.window_left = -1; },
     [](Case& to, const Case& from, int choice) {
       to.problem.window_left = choice == 0 ? 0 : from.problem.window_left;
       to.problem.align = from.problem.align;
       return choice < 2;
     }},
    {"a window to the right", [](const Case& c) { return c.problem.window_right >= 0; },
     [](Case& c) { c.problem.window_right = -1; },
     [](Case& to, const Case& from, int choice) {
       to.problem.window_right = choice == 0 ? 0 : from.problem.window_right;
       to.problem.align = from.problem.align;
       return choice < 2;
     }},
    {"causal", [](const Case& c) { return c.problem.causal; }, [](Case& c) { c.problem.causal = false; },
     [](Case& to, const Case& from, int choice) {
       to.problem.causal = true;
       to.problem.align = from.problem.align;
       return choice == 0;
     }},
    {"key lengths", [](const Case& c) { return c.problem.key_lengths.has_value(); },
     [](Case& c) { c.problem.key_lengths.reset(); },
     [](Case& to, const Case& from, int choice) {
       const int64_t lengths[] = {0, 1, std::max<int64_t>(to.problem.seq_k - 1, 0), own_length(from)};
       if (choice > 3) return false;
       to.problem.key_lengths.emplace(static_cast<size_t>(to.problem.batch), lengths[choice]);
       return true;
     }},
    {"softcap", [](const Case& c) { return c.problem.softcap != 0; }, [](Case& c) { c.problem.softcap = 0; },
     [](Case& to, const Case& from, int choice) {
       to.problem.softcap = choice == 0 ? 1.0f : from.problem.softcap;
       return choice < 2;
     }},
    {"num_splits", [](const Case& c) { return c.problem.num_splits != 0; },
     [](Case& c) { c.problem.num_splits = 0; },
     [](Case& to, const Case& from, int choice) {
       to.problem.num_splits =
           choice == 0 ? std::min<int64_t>(2, from.problem.num_splits) : from.problem.num_splits;
       return choice < 2;
     }},
    {"the scale", [](const Case& c) { return c.problem.scale != 1; }, [](Case& c) { c.problem.scale = 1; },
     [](Case& to, const Case& from, int choice) {
       to.problem.scale = choice == 0 ? usual_scale(to.problem) : from.problem.scale;
       return choice < 2;
     }},
    {"bf16", [](const Case& c) { return c.problem.dtype != ATTN_F16; }, [](Case& c) { set_dtype(c, ATTN_F16); },
     [](Case& to, const Case& from, int choice) {
       to.problem.dtype = from.problem.dtype;
       return choice == 0;
     }},
    layout_switch<TensorId::kQ>("the layout of q"),
    layout_switch<TensorId::kK>("the layout of k"),
    layout_switch<TensorId::kV>("the layout of v"),
    layout_switch<TensorId::kO>("the layout of o"),
    layout_switch<TensorId::kLse>("the layout of lse"),
    layout_switch<TensorId::kBias>("the layout of bias"),
    layout_switch<TensorId::kMask>("the layout of mask"),
    layout_switch<TensorId::kKeyLengths>("the layout of key_lengths"),
    layout_switch<TensorId::kWorkspace>("the layout of workspace"),
    {"the schedule", [](const Case& c) { return c.env.schedule_seed != 0; },
     [](Case& c) { c.env.schedule_seed = 0; },
     [](Case& to, const Case& from, int choice) {
       to.env.schedule_seed = choice == 0 ? 1 : from.env.schedule_seed;
       return choice < 2;
     }},
    {"sm_count", [](const Case& c) { return c.env.sm_count != Environment{}.sm_count; },
     [](Case& c) { c.env.sm_count = Environment{}.sm_count; },
     [](Case& to, const Case& from, int choice) {
       to.env.sm_count = from.env.sm_count;
       return choice == 0;
     }},
    {"compute capability",
     [](const Case& c) { return c.env.compute_capability != Environment{}.compute_capability; },
     [](Case& c) { c.env.compute_capability = Environment{}.compute_capability; },
     [](Case& to, const Case& from, int choice) {
       to.env.compute_capability = from.env.compute_capability;
       return choice == 0;
     }},
    {"shared memory limit",
     [](const Case& c) { return c.env.shared_memory_limit != Environment{}.shared_memory_limit; },
     [](Case& c) { c.env.shared_memory_limit = Environment{}.shared_memory_limit; },
     [](Case& to, const Case& from, int choice) {
       to.env.shared_memory_limit = from.env.shared_memory_limit;
       return choice == 0;
     }},
    {"the prefill", [](const Case& c) { return c.prefill != Prefill::kNan; },
     [](Case& c) { c.prefill = Prefill::kNan; },
     [](Case& to, const Case& from, int choice) {
       to.prefill = from.prefill;
       return choice == 0;
     }},
    {"no LSE", [](const Case& c) { return !c.want_lse; }, [](Case& c) { c.want_lse = true; },
     [](Case& to, const Case&, int choice) {
       to.want_lse = false;
       return choice == 0;
     }},
    // Two head dims of 1 are as small as it gets; a kernel may well refuse them.
    {"head dims", [](const Case& c) { return c.problem.dim_qk > 1 || c.problem.dim_v > 1; },
     [](Case& c) { c.problem.dim_qk = c.problem.dim_v = 1; },
     [](Case& to, const Case& from, int choice) {
       const Problem& own = from.problem;
       std::vector<std::pair<int64_t, int64_t>> dims;
       for (const int64_t d : {2, 8, 16, 32, 64, 128}) {
         if (d < std::max(own.dim_qk, own.dim_v))
           dims.emplace_back(std::min(d, own.dim_qk), std::min(d, own.dim_v));
       }
       dims.emplace_back(own.dim_qk, own.dim_v);
       if (choice >= static_cast<int>(dims.size())) return false;
       std::tie(to.problem.dim_qk, to.problem.dim_v) = dims[static_cast<size_t>(choice)];
       return true;
     }},
};

}  // namespace

std::span<const Switch> switches() { return kSwitches; }

}  // namespace attnfuzz
