// K and V of 8 bits (ATTN_FEATURE_KV8): their scales, and what applying them may cost.
//
// A key is k = s code, exactly in double. The plan says how a kernel applies s (attn_kv_rule):
//
//   folded         the products q.code are exact in any format of 16 bits. A score is multiplied by s,
//                  which is one more product, or s and the scale are multiplied first: 2u|a_j| more. O is
//                  multiplied by a scale of V, or P is before it is rounded: u_V = 2u. P times s is rounded, so
//                  eta_P is divided by the least s, and P is not predicted unless every s is 1.
//   dequantised    k and v are rounded to the problem's dtype, through fp32: (1 + u)(1 + u_D) - 1 and eta_D of each,
//                  0 if all scales are powers of two and no product leaves the format. Scores err by
//                  |tau| (u sum |q_t k_jt| + eta sum |q_t|); V is charged as u_V and eta_V.
//   not known      both
//
// u_D and eta_D are those of the dtype, twice as large if the plan does not round to nearest. A k
// or v that overflows the dtype may be anything. A loss by flushing or alignment in units of codes
// is s times as large in units of values.
//
// A scale outside of 2^-40 to 2^40 is not the kernel's fault: results that use its key are not
// constrained.
#pragma once

#include <cstdint>

#include "kernels/attention.h"
#include "reference/model/error_model.h"

namespace attnfuzz {

// The scale of key j, in double; an infinity where the contract allows no such scale. tensor: k_scale or v_scale.
double kv_scale_of(const attn_tensor& scales, int64_t b, int64_t g, int64_t j);

// Sets what `model` charges for the scales of keys first..last-1 of batch b, KV head g. `general`: the model that
// make_error_model() made. Does nothing to a problem without KV8.
void charge_kv_scales(const attn_problem& problem, const attn_tensors& tensors, int64_t b, int64_t g, int64_t first,
                      int64_t last, const ErrorModel& general, ErrorModel* model);

}  // namespace attnfuzz
