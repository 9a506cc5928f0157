#include <algorithm>

#include "properties/draw/draw.h"

namespace attnfuzz {

void strip_refused(const Refused& refused, Case& c) {
  Problem& p = c.problem;
  if (refused.f16 != refused.bf16) p.dtype = refused.f16 ? ATTN_BF16 : ATTN_F16;
  p.dim_qk = std::min(p.dim_qk, refused.max_dim);
  p.dim_v = std::min(p.dim_v, refused.max_dim);
  if (refused.dims_differ) p.dim_v = p.dim_qk;
  if (refused.grouped) p.heads_kv = p.heads_q;
  if (refused.causal) p.causal = false;
  if (refused.window) p.window_left = p.window_right = -1;
  if (refused.key_lengths) p.key_lengths.reset();
  if (refused.bias && p.bias) {
    // What it hides can be hidden by a mask.
    if (!refused.mask && !p.mask && p.bias->finite.kind != PatternKind::kAll) {
      p.mask = Mask{p.bias->finite, p.bias->broadcast};
    }
    p.bias.reset();
  }
  if (refused.mask) p.mask.reset();
  if (refused.softcap) p.softcap = 0;
}

}  // namespace attnfuzz
