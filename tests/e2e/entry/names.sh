#!/usr/bin/env bash
# Checks that names of a source do not clash with ours, and calls with launches, tensors, windows, sinks and slopes.
set -u
. "$(dirname "$0")/tools.sh"

# --entry may be a launch. For the name of a __global__ function the refusal shows how to write the launch.
of=names.cu
expect 0 "40 cases in" --finite --entry 'launch::attn(q, k, v, o, Call{B * H, S}, D)' --takes 'seq = at_most(64)'
expect 0 "40 cases in" --finite --entry 'attend<<<dim3(1, B * H), 64>>>(q, k, v, o, S, D)' --takes 'seq = at_most(32)'
expect 2 "attend is a __global__ function: .*--entry 'attend<<<dim3((S + 127) / 128, B \* H), 128>>>(q, k, v, o, S, D)'" \
  --entry 'attend(q, k, v, o, S, D)'
# A vector of tensors; a fixed scale of the kernel, a window, and pages.
of=tensors.cu
takes='format = Formats::kF32; equal_lengths = true; seq = at_most(32)'
expect 0 "40 cases in" --finite --entry 'o = one(q, k, v)' --takes "$takes; scale = 1.0"
expect 0 " window [1-9]" --finite --entry 'o, lse = two(q, k, v, scale, window_left, window_right)' \
  --takes "$takes; scale = Scale::kPositive"
rows='rows<<<dim3((S + 63) / 64, B), 64>>>(q, k, v, o, nullptr, pages, lengths, {S, D, -1, -1, page, pages_each, scale})'
expect 0 "40 cases in" --finite --entry "$rows" --takes 'heads = one_of(1); page = 16; scale = Scale::kPositive; seq = at_most(32)'
expect 2 "say how many keys a page has" --entry "$rows"
expect 2 "name it in the call" --entry 'o = one(q, k, v)' --takes 'page = 16'
expect 2 "window_left, window_right" --entry 'o = one(q, k, v)' --takes 'window = 128'
# Half of what a kernel must know.
expect 2 "name Sq, the number of queries" --entry 'f(q, k, v, o, B, H, S, Sk, D)'
expect 2 "name window_right as well" --entry 'o = two(q, k, v, scale, causal, window_left)' --takes "$takes"
expect 2 "name window_left as well" --entry 'o = two(q, k, v, scale, causal, window_right)' --takes "$takes"
expect 0 " window [1-9]" --finite --entry 'o, lse = two(q, k, v, scale, window_left, 0)' \
  --takes "$takes; scale = Scale::kPositive; causal = Causal::kOnly"
# A statement that would be ignored is refused, with what to add.
of=tensors.cu
expect 2 "dim_v = .*name Dv in the call" --entry 'f(q, k, v, o, Sq, Sk, D)' --takes 'dim = one_of(64); dim_v = one_of(32)'
expect 2 "seq_k = .*name Sq and Sk in the call instead of S" --entry 'f(q, k, v, o, S, D)' --takes 'seq_k = one_of(99)'
expect 2 "seq_k = .*equal_lengths = false" --entry 'f(q, k, v, o, Sq, Sk, D)' --takes 'equal_lengths = true; seq_k = 99'
expect 2 "align = .*name causal" --entry 'f(q, k, v, o, Sq, Sk, D)' --takes 'align = ATTN_BOTTOM_RIGHT'
of=mine.cu
expect 2 "tile is the size of a tile: at least 1" --entry 'attention_forward(q, k, v, o, B, H, S, D)' --takes 'tile = 0'
expect 2 "align_bytes is a power of two" --entry 'attention_forward(q, k, v, o, B, H, S, D)' --takes 'align_bytes = 24'
expect 0 "left out: .*head dimensions other than 8" --finite --entry 'attention_forward(q, k, v, o, B, H, S, D)' --takes 'dim = 8; batch = 1'
# The parameters are of void*, and the call does not show which format the function reads.
printf '#include "mine.cu"\nvoid any(const void* q, const void* k, const void* v, void* o, int B, int H, int S, int D) {
  attention_forward((float*)q, (float*)k, (float*)v, (float*)o, B, H, S, D);\n}\n' >any.cu
of=any.cu
expect 1 "its types do not say which format it reads, .*say --takes 'format = Formats::kF16'" --finite --reduce-seconds 1 --entry 'any(q, k, v, o, B, H, S, D)'
expect 0 "40 cases in" --finite --entry 'any(q, k, v, o, B, H, S, D)' --takes 'format = Formats::kF32'
# Sinks, and slopes of each batch entry; without them a call has neither.
of=sinks.cu
expect 0 " sinks [1-9]" --finite --entry 'launch(q, k, v, o, sink, slopes, slopes_each, B, H, S, D, scale)' \
  --takes 'seq = at_most(32); dim = at_most(32)'
grep -q " slopes [1-9]" log || { echo "no slopes were drawn"; cat log; wrong=1; }
expect 0 "40 cases in" --finite --entry 'launch(q, k, v, o, nullptr, nullptr, 0, B, H, S, D, scale)' \
  --takes 'seq = at_most(32); dim = at_most(32)'
grep -q " sinks [1-9]" log && { echo "sinks were drawn for a call without them"; cat log; wrong=1; }
exit $wrong
