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
# Sinks, and slopes of each batch entry; without them a call has neither.
of=sinks.cu
expect 0 " sinks [1-9]" --finite --entry 'launch(q, k, v, o, sink, slopes, slopes_each, B, H, S, D, scale)' \
  --takes 'seq = at_most(32); dim = at_most(32)'
grep -q " slopes [1-9]" log || { echo "no slopes were drawn"; cat log; wrong=1; }
expect 0 "40 cases in" --finite --entry 'launch(q, k, v, o, nullptr, nullptr, 0, B, H, S, D, scale)' \
  --takes 'seq = at_most(32); dim = at_most(32)'
grep -q " sinks [1-9]" log && { echo "sinks were drawn for a call without them"; cat log; wrong=1; }
exit $wrong
