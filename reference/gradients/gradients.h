// The oracle of the operations backward (ATTN_FEATURE_BACKWARD) and selected_backward (ATTN_FEATURE_SELECTED_BACKWARD):
// dQ, dK and dV, and dbias and dsink where they are asked for, with a bound for each element.
//
//   Reference due = evaluate_gradients(problem, tensors, plan, h200());
//
// A backward pass is a function of Q, K, V, dO and of the O and LSE that a forward pass has stored. So P and D
// are computed from the stored O and LSE, in double, and these have no error. The kernel is charged only for
// what it does itself. For a query i and a key j that it sees, in the order in which a kernel computes, with
// u = 2^-24 and f = 2^-126:
//
//   a = tau q.k,  a' = c tanh(a / c) with a softcap c, else a,  x = a' + b,  lam = LSE (natural)
//   delta = |tau| (g_d sum|q k| + d f)                         the product; g_m: m products in any order
//   E     = delta + 3.01u (|a| + |x| + 2 delta + |lam|) + 3.01u |b|  scale, bias, log2 e, the subtraction
//         + c (eps_t |tanh| + 1.4u) + 3.01u |a'|               with softcap
//   P     = e^(x - lam),  P_hi = e^(x - lam + E) (1 + eps_e),  E^P = P_hi - P + 2f
//   z     = dO.v - D,  D = dO.o
//   G     = g_dv sum|dO v| + 2 d_v f + gamma(d_v + 1, u) sum|dO o| + f (sum|dO| + sum|o|)    the last part if factors
//                                                                     may be flushed, as in dO.v (scores.h)
//   E^S   = P_hi (1 + u)^2 (|z| + G) - P |z| + 2f (|z| + G + 1)           of dS = P z
//   E^A   = (|dS| + E^S)(1 - T^2 + e_f)(1 + u) - |dA| + f                 of dA = dS (1 - T^2), T = tanh(a / c)
//           e_T = eps_t |T| + 2u + (delta + u|a|) / c,  e_f = 2|T| e_T + e_T^2 + 3u (1 + e_T)
//   E^P  += u_P (P + E^P) + eta_P,  E^A += u_S (|dA| + E^A) + eta_S       as factors in fewer bits
//
//   B(dQ) = |tau| [sum_j E^A |k| + (g_n + A u) sum_j (|dA| + E^A) |k| + (n + A) f]
//   B(dK)   the same over queries and heads; B(dV) with P, E^P, dO and without tau
//   B(dK) += sum_i (|dA| + E^A) (u_Q |tau q| (1 + g_n + A u) + eta_Q)       if the scale is folded into Q: dK then has
//                                                              the rounded Q' = tau q as a factor
//   B    += 2u (|r| + B)                                       the scale
//   B    += u_O (|r| + B) + eta_O                              the result's format; once more for each head if
//                                                              heads are added up in the input's format
//
// With dLSE, D is dO.o - dLSE, and |dLSE| is added to sum|dO o|. With sinks, lam includes the sink. If the
// stored LSE' leaves it out, lam = ln(e^LSE' + e^sink) and B^lam = 2^-22 + 3u (|lam| + |LSE'|) in E. Then D has
// no dLSE. With w = e^(x - LSE') and E' from LSE' in place of lam:
//
//   dS  = P z + dLSE w
//   E^S += e_2 + u (|dS| + E^S + e_2),  e_2 = |dLSE| (w e^E' (1 + eps_e)(1 + u) - w) + 2f (|dLSE| + 1)
//
// A query's term of dsink is t = -p D, p = e^(sink - lam), with
//
//   E_s = B^lam + 3.01u (|sink| + |lam| + |sink - lam|)
//   E   = p e^E_s (1 + eps_e)(1 + u)(|D| + B^D) - p |D| + 2f (|D| + B^D + 1)
//   B^D = gamma(d_v + 1, u)(sum|dO o| + |dLSE|) + d_v f + f (sum|dO| + sum|o|)
//
// gradient_sums.h adds up dbias and dsink.
//
// Here n counts the pairs that see each other. A counts the additions that the plan declares (dq_adds,
// dkv_adds), but at most n: a partial sum without a pair is 0, and adding it is exact. g_m is compound(m u_p +
// blocks u_s) as in scores.h, over the blocks of the mma that hold a pair. Over listed blocks a kernel may
// gather keys and queries in any order, so each pair may be alone in its block. If Q and K are converted
// (TF32), all products are charged for it: (1 + u_T)^2 - 1 of the moduli. Rows with subnormals are charged as
// in scores.h.
//
// Exactly 0, with a bound of 0: dQ of a query that sees no key, dK and dV of a key that no query sees, and dQ
// and dK if the scale is 0. An element may be anything if an intermediate may overflow, or if an infinite input
// has a part in it. A score that overflows downwards, as under a bias of the lowest finite number, is no such
// intermediate if |lam| < 2^127 ln 2: its P is 0. NaN is due if a NaN has a part in it. For example, a NaN in
// q, LSE, o or dO of a query makes its dQ NaN, and dK of the keys that it sees. If a column of K, Q or dO holds
// a number that is not finite, that column of dQ, dK or dV may be anything in its batch entry and KV head,
// unless the plan isolates hidden NaN.
//
// A plan with saved = "recomputed" (Errors(saved=...), attn_plan.saved) describes a function that computes O
// and the LSE by itself and does not read the saved ones, such as automatic differentiation of a forward call.
// Its o and lam are the exact results of the forward pass. B^o and B^lam are their bounds under the same plan.
// For a query that sees n keys:
//
//   E   += B^lam + 3.01u ln n + eps_r + 4u      also for P = e^(x - m) / l, where m is at least lam - ln n
//   |D' - D| <= max(sum|dO| B^o (1 + gamma(d_v + 1, u)),                             if D' = dO.o', o' rounded
//                   sum_j [(P + E^P)(|dO v| + G)(1 + gamma(n + 1, u)) - P |dO v|])   if D' = sum_j P' (dO.v)'
//   G   += |D' - D|
//
// If a query has a number that is not finite or may overflow, dK and dV of all keys of its batch
// entry and KV head may be anything, unless the plan isolates hidden NaN. The reason is that a
// weight of 0 divided by a sum that is NaN is NaN.
//
// If dLSE is the gradient with respect to LSE' without the sink, LSE' and its bound are those of the forward
// pass without sinks. They cannot be computed from lam: the sink may exceed all keys.
//
// The second form of D' is that of the derivative of a softmax; its G has no term for D. eps_r is the error of
// the division. B^o includes the rounding of O to the input's format, though a function may keep O in fp32.
#pragma once

#include "reference/oracle.h"

namespace attnfuzz {

inline constexpr uint64_t kOfGradients = ATTN_FEATURE_BACKWARD | ATTN_FEATURE_SELECTED_BACKWARD | ATTN_FEATURE_DLSE |
                                         ATTN_FEATURE_DBIAS | ATTN_FEATURE_DSINK;
inline constexpr KnownFeatures kGradientsKnow = {
    "the oracle of gradients", (kOfGradients & ~ATTN_FEATURE_SELECTED_BACKWARD) | ATTN_FEATURE_F32 | ATTN_FEATURE_SINK |
                                   ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32 | ATTN_FEATURE_KEY_STEP};
inline constexpr KnownFeatures kSelectedGradientsKnow = {
    "the oracle of gradients over listed blocks",
    ATTN_FEATURE_SELECTED_BACKWARD | ATTN_FEATURE_DLSE | ATTN_FEATURE_F32 | ATTN_FEATURE_RAGGED |
        ATTN_FEATURE_INDEX32};

// The forward call whose gradients a problem asks for.
inline attn_problem forward_of(attn_problem problem) {
  const bool lists = (problem.features & ATTN_FEATURE_SELECTED_BACKWARD) != 0;
  problem.features &= ~kOfGradients;
  if (lists) problem.features |= ATTN_FEATURE_SELECTED;
  return problem;
}
// Evaluates that call by the oracle of its operation.
Reference evaluate_forward_of(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                              const Calibration& calibration);

// O and LSE (natural) of each row in double, used in place of the tensors' values. The gradients are then those
// of the exact function: tests compare them with derivatives.
struct ExactRows {
  const double* o;    // rows x dim_v
  const double* lse;  // rows; it includes the sink, whatever the plan says
  // B^o and B^lam of a kernel that recomputes O and LSE; nullptr: `o` and `lse` have no error.
  const double* o_error = nullptr;
  const double* lse_error = nullptr;
  // The LSE without the sink, and its B^lam. Both are needed if the plan leaves the sink out of the LSE.
  const double* lse_apart = nullptr;
  const double* lse_apart_error = nullptr;
};

// True for the plan of a kernel that computes O and the LSE by itself.
inline bool recomputes(const attn_plan& plan) { return plan.saved == ATTN_SAVED_RECOMPUTED; }

// Reads q, k, v, dout, o and lse of `host`, in host memory, and dlse, bias, mask, sink, key_lengths, cu_q, cu_k and
// indices if the problem has them. It reads the strides of dbias: they show the dimensions over which dbias is
// summed. Throws UnknownFeatures for a kind of problem that it does not know. A sample chooses
// queries, for dQ, and keys, for dK and dV; with dbias or dsink all are evaluated.
Reference evaluate_gradients(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                             const Calibration& calibration, RowSample sample = {},
                             const ExactRows* exact = nullptr);

}  // namespace attnfuzz
