// Twenty bugs that need three things at once, as conditions on a case: a kernel with the bug
// is wrong if the condition holds. They were written before the table of axes drove the draw.
#pragma once

#include <algorithm>

#include "properties/case/case.h"

namespace attnfuzz {

struct BugOfThree {
  const char* name;
  bool (*shows)(const Case& c, const Problem& p);
};

inline int64_t group_of(const Problem& p) { return p.heads_q / p.heads_kv; }

inline constexpr BugOfThree kBugsOfThree[] = {
    {"dim_qk > 128, seq_k > 128, causal",
     [](const Case&, const Problem& p) { return p.dim_qk > 128 && p.seq_k > 128 && p.causal; }},
    {"group of 5, seq_q > 64, causal bottom-right",
     [](const Case&, const Problem& p) {
       return group_of(p) == 5 && p.seq_q > 64 && p.causal && p.align == ATTN_BOTTOM_RIGHT;
     }},
    {"batch >= 3, seq_q > 64, key lengths",
     [](const Case&, const Problem& p) { return p.batch >= 3 && p.seq_q > 64 && p.key_lengths; }},
    {"dim_qk 97..111, window to the left, bf16",
     [](const Case&, const Problem& p) {
       return p.dim_qk >= 97 && p.dim_qk <= 111 && p.window_left >= 0 && p.dtype == ATTN_BF16;
     }},
    {"3 KV heads, group of 4, softcap",
     [](const Case&, const Problem& p) { return p.heads_kv == 3 && group_of(p) == 4 && p.softcap > 0; }},
    {"40..100 SMs, seq_k > 256, dim_v != dim_qk",
     [](const Case& c, const Problem& p) {
       return c.env.sm_count >= 40 && c.env.sm_count <= 100 && p.seq_k > 256 && p.dim_v != p.dim_qk;
     }},
    {"seq_k = 257, grouped heads, not causal",
     [](const Case&, const Problem& p) { return p.seq_k == 257 && group_of(p) > 1 && !p.causal; }},
    {"seq_q = 129, seq_k = 128, bf16",
     [](const Case&, const Problem& p) { return p.seq_q == 129 && p.seq_k == 128 && p.dtype == ATTN_BF16; }},
    {"dim_v > dim_qk, dim_v > 128, mask",
     [](const Case&, const Problem& p) { return p.dim_v > p.dim_qk && p.dim_v > 128 && p.mask; }},
    {"seq_k > 512, seq_q > 8, window to the right",
     [](const Case&, const Problem& p) { return p.seq_k > 512 && p.seq_q > 8 && p.window_right >= 0; }},
    {"group of 16, one query, last key of a tile missing",
     [](const Case&, const Problem& p) { return group_of(p) == 16 && p.seq_q == 1 && p.seq_k % 64 == 63; }},
    {"odd dim_qk > 64, key lengths, seq_k > 64",
     [](const Case&, const Problem& p) {
       return p.dim_qk % 2 == 1 && p.dim_qk > 64 && p.key_lengths && p.seq_k > 64;
     }},
    {"V off by 2 bytes, K in order bsh, seq_k > 64",
     [](const Case& c, const Problem& p) {
       const TensorLayout &k = c.layout[1], &v = c.layout[2];
       return v.offset % 2 == 1 && v.placement == Placement::kGuarded && k.order[1] == 2 && p.seq_k > 64;
     }},
    {"seq_q = 33, a window of 1..15 to the left, causal top-left",
     [](const Case&, const Problem& p) {
       return p.seq_q == 33 && p.window_left >= 1 && p.window_left <= 15 && p.causal &&
              p.align == ATTN_TOP_LEFT;
     }},
    {"negative scale, softcap, seq_k > 128",
     [](const Case&, const Problem& p) { return p.scale < 0 && p.softcap > 0 && p.seq_k > 128; }},
    {"both dims 256, seq_k > 64, two heads",
     [](const Case&, const Problem& p) {
       return p.dim_qk == 256 && p.dim_v == 256 && p.seq_k > 64 && p.heads_q == 2;
     }},
    {"bias, mask, group of 3 or more",
     [](const Case&, const Problem& p) { return p.bias && p.mask && group_of(p) >= 3; }},
    {"seq_k >= 1000, dim_qk >= 32, bf16",
     [](const Case&, const Problem& p) { return p.seq_k >= 1000 && p.dim_qk >= 32 && p.dtype == ATTN_BF16; }},
    {"at most 8 SMs, 8 heads or more in all, causal",
     [](const Case& c, const Problem& p) {
       return c.env.sm_count <= 8 && p.batch * p.heads_q >= 8 && p.causal && p.seq_k > 0;
     }},
    {"a window of the diagonal alone, seq_q > seq_k, seq_k > 16",
     [](const Case&, const Problem& p) {
       return p.window_left == 0 && p.window_right == 0 && p.seq_q > p.seq_k && p.seq_k > 16;
     }},
    // The bugs of tests/fuzz/conjunction, which need four things.
    {"3 heads, seq_k = 65, causal, seq_q > 130",
     [](const Case&, const Problem& p) {
       return p.heads_q == 3 && p.seq_k == 65 && p.causal && p.seq_q > 130;
     }},
    {"batch of 2, softcap, window_left = 64, seq_k > 192",
     [](const Case&, const Problem& p) {
       return p.batch == 2 && p.softcap != 0 && p.window_left == 64 && p.seq_k > 192;
     }},
};

}  // namespace attnfuzz
