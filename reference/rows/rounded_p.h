// P as the kernel rounds it, where its plan says of what.
//
// The weights that multiply V are rounded to 16 bits: by far the largest error of a
// right kernel, and no error at all but a known number wherever the plan tells the
// maximum that was subtracted. With m_t that of the key's tile (tile_walk.h),
//
//   p_j = e^(x_j - m_t), off by at most h_j relatively:
//   h_j = err_j + err(m_t) + (5u + s_e)(m_t - x_j + err_j + err(m_t)) + eps_e
//
// both ends of p_j (1 +- h_j) nearly always round to the same P_j. Where they do not,
// P_j is taken in the middle, and half their distance is charged. So
//
//   O  =  sum_j A_t P_j v_j / L,   A_t = e^(m_t - m) off by phi_t:
//   phi_t = e^y - 1, y = 0 if nothing can be rescaled after t and there are no splits, else
//   y = err(m_t) + err(m_split) + T_t (eps_e + 2u) + (5u + s_e)(m_split - m_t + both errors)
//       + the merge's own allowance (scores.h) at m - m_split                  with splits
//
// Relative to the kernel's own last maximum: L, being a sum of e^(x_j - m), is then off
// by the error of that maximum too (`common`; with splits it is in phi).
#pragma once

#include "reference/model/error_model.h"
#include "reference/rows/scores.h"

namespace attnfuzz {

struct RoundedP {
  double* centre = nullptr;  // A_t P_j / l; the caller's room for it
  Buffer charge;             // how far the kernel's may lie from it
  Buffer anew;               // weights relative to a tile's maximum
  double total_charge = 0;   // sum of charge
  double common = 0;
};

// False if there is nothing to predict, or too little is known: then P's rounding has to be charged as
// a whole.
bool round_p(const ErrorModel& model, const RowScores& scores, int64_t n, RoundedP* out);

}  // namespace attnfuzz
