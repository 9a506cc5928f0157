// The oracle (reference/oracle.h) as plain C, for attnfuzz/oracle.py.
#pragma once

#include "kernels/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

// One output: dense, rows (batch, heads_q, seq_q) by columns. If `got` is NULL, so is `ratio`.
typedef struct attnfuzz_expected {
  double *value, *bound;  // value +- bound; NaN: NaN is expected; infinite bound: anything passes
  const float* got;
  double* ratio;  // Expected::ratio(): at most 1 passes
  // If not NULL: the number of rows of the call, and of those that are uninformative and unconstrained
  // (RowState).
  int64_t* rows;
} attnfuzz_expected;

// Computes O and LSE of a forward call on host tensors. `plan` says how the kernel rounds.
// `calibration` is the table of errors: "documented", "executor" or "h200". Returns 0, with the
// parts that the plan leaves open in text[size]; or -1, with a sentence about the error.
ATTN_EXPORT int32_t attnfuzz_oracle(const attn_problem* problem, const attn_tensors* host,
                                    const attn_plan* plan, const char* calibration, const attnfuzz_expected* o,
                                    const attnfuzz_expected* lse, char* text, uint64_t size);

// Computes dQ, dK and dV of a backward call, from the O and LSE in `host`, and dbias and dsink if the call asks
// for them; otherwise these are NULL. dbias has rows (batch, heads_q, seq_q) by keys, equal where it is a sum.
// If `plan` has saved = "recomputed", exact O and LSE are used instead. Otherwise like attnfuzz_oracle().
ATTN_EXPORT int32_t attnfuzz_gradients(const attn_problem* problem, const attn_tensors* host,
                                       const attn_plan* plan, const char* calibration,
                                       const attnfuzz_expected* dq, const attnfuzz_expected* dk,
                                       const attnfuzz_expected* dv, const attnfuzz_expected* dbias,
                                       const attnfuzz_expected* dsink, char* text, uint64_t size);

#ifdef __cplusplus
}
#endif
