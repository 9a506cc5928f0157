// Predicts P as the kernel rounds it, if its plan says what is rounded.
//
// The weights that multiply V are rounded to 16 bits. This is by far the largest error of a right kernel,
// but a known number if the plan says which maximum was subtracted. With m_t the maximum of the key's tile
// (tile_walk.h),
//
//   p_j = e^(x_j - m_t), off by at most h_j relatively:
//   h_j = err_j + err(m_t) + (5u + s_e)(m_t - x_j + err_j + err(m_t)) + eps_e
//
// Both ends of p_j (1 +- h_j) nearly always round to the same P_j. If they do not, P_j is their middle, and
// half their distance is charged. So
//
//   O  =  sum_j A_t P_j v_j / L,   A_t = e^(m_t - m) off by phi_t:
//   phi_t = e^y - 1, y = 0 if nothing can be rescaled after t and there are no splits, else
//   y = err(m_t) + err(m_split) + T_t (eps_e + 2u) + (5u + s_e)(m_split - m_t + both errors)
//       + the merge's own allowance (scores.h) at m - m_split                  with splits
//
// All of this is relative to the kernel's own last maximum. L, a sum of e^(x_j - m), is then off by the
// error of that maximum, too (`common`; with splits, phi includes it).
#pragma once

#include "reference/model/error_model.h"
#include "reference/rows/scores.h"

namespace attnfuzz {

struct RoundedP {
  double* centre = nullptr;  // A_t P_j / l, in the caller's memory
  Buffer charge;             // how far the kernel's value may lie from it
  Buffer anew;               // weights relative to a tile's maximum
  double total_charge = 0;   // sum of charge
  double common = 0;
};

// False if P cannot be predicted, or too little is known. The rounding of P is then charged as a whole.
bool round_p(const ErrorModel& model, const RowScores& scores, int64_t n, RoundedP* out);

}  // namespace attnfuzz
