// Drawn cases (properties/draw/generator.h) as plain C, for attnfuzz/cases.py.
//
//   attnfuzz_cases* cases = attnfuzz_cases_open("dim=64,128 no_bias", 64, 64, 3000000, text, sizeof text);
//   attnfuzz_drawn drawn;
//   if (attnfuzz_cases_draw(cases, 1, 0, "", &drawn, text, sizeof text) == 0) ...  // case 0 of seed 1
//   attnfuzz_cases_close(cases);
#pragma once

#include "kernels/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct attnfuzz_cases attnfuzz_cases;

// A case. All that it points to is valid until the next draw, or until the cases are closed.
typedef struct attnfuzz_drawn {
  attn_problem problem;
  attn_tensors tensors;  // inputs hold the case's values; outputs and workspace hold nothing of use
  int32_t sm_count, reserved;
  const char* json;   // as a file that `attnfuzz replay` takes
  const char* words;  // in one line
} attnfuzz_drawn;

// Cases inside `domain`, in the words of --domain ("": all that there are), aimed at the borders of tiles of
// `tile_q` queries and `tile_k` keys. `work`: multiply-adds that one case costs, about. NULL, with a sentence
// in text[size] that says what is wrong.
ATTN_EXPORT attnfuzz_cases* attnfuzz_cases_open(const char* domain, int64_t tile_q, int64_t tile_k,
                                                int64_t work, char* text, uint64_t size);

// Case `index` of `seed`; it depends on nothing else. `within` narrows the domain for this one case: the case
// is drawn as without it and then moved inside. 0; or -1, with a sentence in text[size].
ATTN_EXPORT int32_t attnfuzz_cases_draw(attnfuzz_cases* cases, uint64_t seed, uint64_t index,
                                        const char* within, attnfuzz_drawn* drawn, char* text, uint64_t size);

ATTN_EXPORT void attnfuzz_cases_close(attnfuzz_cases* cases);

#ifdef __cplusplus
}
#endif
