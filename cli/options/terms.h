// The caller's terms of a check: the error classes that a kernel may use, and the problems that it
// must take.
//
//   parse_errors("accumulator=tensor p=input merges=8")    // a cap of plans (reference/model/error_cap.h)
//
// The words are those of attnfuzz.Errors in Python (docs/python.md).
#pragma once

#include <string>

#include "fuzz/check/check.h"
#include "kernels/attention.h"

namespace attnfuzz {

// Fields that are not named keep the documented value. Throws UserError, with all names, for an unknown one.
//
//   accumulator  ffma, tensor              rcp    approx, exact
//   p            fp32, input, fp16, bf16, tf32, e4m3, e5m2
//   tanh         approx, tanhf             p_order  unnormalised, normalised
//   exp          ex2.approx, exp2f, expf, fast_expf, or its relative error: 2e-4
//   log          lg2.approx, logf, fast_logf
//   scale        fused, separate, separate_fma, folded_q
//   v            as for p                  sum    exp, rounded_p
//   partials     fp32, input               qk     tf32
//   merging      fp32, input: format of merge weights and merged sums (attention.h, merge_format)
//   merge        weight, lse, one_by_one   conversion  nearest, faithful
//   merges, rescales, mma_block                     whole numbers from 1 on
//   p_scale, v_scale                                numbers above 0
//   flush_to_zero, isolates_masked_nan              0, 1
//   lse_base  e, 2                          lse_dead   -inf, +inf, 0, any      (attn_plan: what an LSE is)
attn_plan parse_errors(const std::string& words);

// Reads what a kernel must take: "dim=64,128 seq=1..4096 no_bias no_mask". A word limits a size (batch,
// heads_q, group, seq_q, seq_k, dim_qk, dim_v; group is heads_q / heads_kv, and seq and dim stand for both sizes)
// by = and a list or a range, or by >=, <= or % and a number. Several words for one size must all hold. These words limit everything else:
//
//   no_f16 no_bf16 f16 bf16 f32 no_gqa no_bias no_mask no_window no_softcap no_key_lengths no_lse
//   no_causal only_causal top_left bottom_right equal_lengths equal_dims usual_scale positive_scale
//   own_bias no_bias_with_mask no_causal_with_mask finite
//   layout=dense layout=inner align_bytes=16                  attn_domain.layout, align_bytes
//   lse_base=2 lse_dead=+inf                                  as parse_errors() has them: Terms::errors
//
// Throws UserError, with all words, for an unknown one.
Terms parse_domain(const std::string& words);

// The kernel's declared domain, narrowed by the terms that were asked for. Throws UserError if
// nothing is left.
Terms narrowed(const Terms& asked, const KernelInfo& kernel);

}  // namespace attnfuzz
