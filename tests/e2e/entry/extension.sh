#!/usr/bin/env bash
# Checks an extension of PyTorch, its --takes and --domain.
set -u
. "$(dirname "$0")/tools.sh"

# PyTorch need not be installed. The extension runs in fp32 and fp16; the messages that its checks throw are printed.
of=extension/attention.cu
expect 2 "'check.h' file not found" --entry 'o = forward(q, k, v)' --takes 'dim = at_most(32); equal_lengths = true'
expect 0 "40 cases in" --entry 'o = forward(q, k, v)' --takes 'dim = at_most(32); equal_lengths = true; format = Formats::kAny' \
  --include extension/include
grep -q "fp32 [0-9]" log && grep -q "drawn: .*" log || { echo "fp32 is not drawn"; cat log; wrong=1; }
expect 0 "a scale that is not positive" --entry 'o, lse = forward_both(q, k, v, scale)' --include extension/include \
  --takes 'dim = at_most(32); seq = at_most(32); scale = Scale::kPositive; format = Formats::kF32'
# --domain narrows the declared limits, formats too: only fp32 is drawn, and a right kernel passes.
expect 0 "40 cases in" --entry 'o, lse = forward_both(q, k, v, scale)' --include extension/include \
  --takes 'dim = at_most(32); seq = at_most(32); scale = Scale::kPositive; format = Formats::kF32' --domain 'dim=8..16 seq>=4'
grep -q "refused 0.0 %" log || { echo "cases outside the declared limits are drawn"; cat log; wrong=1; }
expect 2 "leaves nothing of what attention declares: dim_qk: at most 32 and 64, 128" --entry 'o, lse = forward_both(q, k, v, scale)' \
  --include extension/include --domain 'dim=64,128' \
  --takes 'dim = at_most(32); seq = at_most(32); scale = Scale::kPositive; format = Formats::kF32'
expect 1 "scale = Scale::kPositive" --entry 'o, lse = forward_both(q, k, v, scale)' --include extension/include \
  --takes 'dim = at_most(32); seq = at_most(32); format = Formats::kF32' --reduce-seconds 2
expect 0 "1 not tried, for --domain leaves such cases out" --entry 'o, lse = forward_both(q, k, v, scale)' \
  --include extension/include --takes 'dim = at_most(32); seq = at_most(32); format = Formats::kF32' --domain \
  'f32 dim<=32 seq<=32 equal_dims positive_scale no_bias no_mask no_window no_softcap no_key_lengths no_causal no_gqa'
expect 1 "it threw: no more than 32 columns, not 33" --entry 'o = forward(q, k, v)' --include extension/include --reduce-seconds 1 \
  --takes 'dim = one_of(33); equal_lengths = true'
exit $wrong
