// Twelve changes of behaviour that begin at a size: at a length together with columns, heads, splits or a
// feature. A kernel behaves like this if it takes another path from that size on and has a bug on that path.
#pragma once

#include <stdint.h>

#include "kernels/attention.h"

namespace attnfuzz::thresholds {

struct Threshold {
  const char* name;
  const char* kernel;  // the kernel that the threshold is planted in
  const char* says;
  bool (*there)(const attn_problem& p);
  void (*wrong)(attn_problem& p);  // the problem that is computed instead
};

// The scores of most problems depend so much on the scale that this change shows.
inline void other_scale(attn_problem& p) { p.scale *= 1.25f; }
inline void fewer_keys(attn_problem& p) { p.seq_k = p.seq_k / 4 * 3; }

inline constexpr Threshold kThresholds[] = {
    {"cap-1024-d256", "fa1", "no soft cap from 1,024 keys and 256 columns on",
     [](const attn_problem& p) { return p.seq_k >= 1024 && p.dim_qk >= 256 && p.softcap > 0; },
     [](attn_problem& p) { p.softcap = 0; }},
    {"scale-1024-64-heads", "fa1", "another scale from 1,024 keys and 64 heads of all entries on",
     [](const attn_problem& p) { return p.seq_k >= 1024 && p.batch * p.heads_q >= 64; }, other_scale},
    {"causal-2048-8-heads", "fa1", "no causal mask from 2,048 keys and 8 heads on",
     [](const attn_problem& p) { return p.seq_k >= 2048 && p.heads_q >= 8 && p.causal != 0; },
     [](attn_problem& p) { p.causal = 0; }},
    {"window-2048-d128", "fa1", "no window from 2,048 keys and 128 columns on",
     [](const attn_problem& p) {
       return p.seq_k >= 2048 && p.dim_v >= 128 && (p.window_left >= 0 || p.window_right >= 0);
     },
     [](attn_problem& p) { p.window_left = p.window_right = -1; }},
    {"bias-8192-d128", "fa1", "no bias from 8,192 keys and 128 columns on",
     [](const attn_problem& p) { return p.seq_k >= 8192 && p.dim_qk >= 128 && p.bias_dtype != ATTN_NONE; },
     [](attn_problem& p) { p.bias_dtype = ATTN_NONE; }},
    {"mask-16384", "fa1", "no mask from 16,384 keys on",
     [](const attn_problem& p) { return p.seq_k >= 16384 && p.has_mask != 0; },
     [](attn_problem& p) { p.has_mask = 0; }},
    {"lengths-8192-2-entries", "fa1", "no key lengths from 8,192 keys and 2 batch entries on",
     [](const attn_problem& p) { return p.seq_k >= 8192 && p.batch >= 2 && p.has_key_lengths != 0; },
     [](attn_problem& p) { p.has_key_lengths = 0; }},
    {"keys-16384-4-kv-heads", "fa1", "a quarter of the keys lost from 16,384 keys and 4 KV heads on",
     [](const attn_problem& p) { return p.seq_k >= 16384 && p.heads_kv >= 4; }, fewer_keys},
    {"splits-16-2048-d64", "splitk", "another scale from 16 splits and 2,048 keys on, with 64 columns",
     [](const attn_problem& p) { return p.num_splits >= 16 && p.seq_k >= 2048 && p.dim_qk == 64; },
     other_scale},
    {"splits-64-8192", "splitk", "another scale from 64 splits and 8,192 keys on",
     [](const attn_problem& p) { return p.num_splits >= 64 && p.seq_k >= 8192; }, other_scale},
    {"group-4-16384-d128", "splitk",
     "another scale from 4 query heads a KV head, 16,384 keys and 128 columns on",
     [](const attn_problem& p) {
       return p.heads_kv > 0 && p.heads_q / p.heads_kv >= 4 && p.seq_k >= 16384 && p.dim_v >= 128;
     },
     other_scale},
    {"bf16-4-queries-8192-d256", "splitk",
     "another scale in bf16 from 4 queries, 8,192 keys and 256 columns on",
     [](const attn_problem& p) {
       return p.dtype == ATTN_BF16 && p.seq_q >= 4 && p.seq_k >= 8192 && p.dim_qk >= 256;
     },
     other_scale},
};
inline constexpr uint32_t kCount = sizeof kThresholds / sizeof kThresholds[0];

}  // namespace attnfuzz::thresholds
