// Drawn cases (properties/draw/generator.h) as plain C, for attnfuzz/cases.py.
//
//   attnfuzz_cases* cases = attnfuzz_cases_open("dim=64,128 no_bias", 64, 64, 3000000, 0, text, sizeof text);
//   attnfuzz_drawn drawn;
//   if (attnfuzz_cases_draw(cases, 1, 0, "", &drawn, text, sizeof text) == 0) ...  // case 0 of seed 1
//   attnfuzz_cases_close(cases);
#pragma once

#include "kernels/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct attnfuzz_cases attnfuzz_cases;

// A case. Its pointers are valid until the next draw, or until the cases are closed.
typedef struct attnfuzz_drawn {
  attn_problem problem;
  attn_tensors tensors;  // inputs hold the case's values; outputs and workspace are unspecified. The saved O and LSE of a
                         // backward pass are the exact ones, rounded; the LSE in the form that the domain says.
  int32_t sm_count, reserved;
  const char* json;   // as a file that `attnfuzz replay` takes
  const char* words;  // in one line
} attnfuzz_drawn;

// Cases inside `domain`, in the words of --domain ("": everything), aimed at the borders of tiles of
// `tile_q` queries and `tile_k` keys. `work`: the approximate multiply-adds of a case. `features`: bits of
// attn_kernel.features, which say the operation and what is drawn beyond a dense call. NULL if something is wrong;
// text[size] then has a sentence about it.
ATTN_EXPORT attnfuzz_cases* attnfuzz_cases_open(const char* domain, int64_t tile_q, int64_t tile_k, int64_t work,
                                                uint64_t features, char* text, uint64_t size);

// Case `index` of `seed`; it depends on nothing else. `within` narrows the domain for this case: the case
// is drawn without it and then moved inside. Returns 0; or -1, with a sentence in text[size].
ATTN_EXPORT int32_t attnfuzz_cases_draw(attnfuzz_cases* cases, uint64_t seed, uint64_t index,
                                        const char* within, attnfuzz_drawn* drawn, char* text, uint64_t size);

ATTN_EXPORT void attnfuzz_cases_close(attnfuzz_cases* cases);

#ifdef __cplusplus
}
#endif
