/* The sources that this library was built from. A descriptor refers to it:
 *
 *   #include "kernels/identity.h"
 *   static const attn_kernel kernel = { ..., .build = &attn_build_identity, ... };
 *
 * The value is generated at build time for each library that attnfuzz_add_kernel
 * (cmake/AttnfuzzKernel.cmake) makes; base/identity/ has the tool. The symbol is
 * hidden, so that each library sees its own. */
#pragma once

#include "kernels/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const attn_build attn_build_identity __attribute__((visibility("hidden")));

#ifdef __cplusplus
} /* extern "C" */
#endif
