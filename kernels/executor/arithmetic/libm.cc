// libm for kernels in MemorySanitizer's builds (libm.h).
#include "kernels/executor/arithmetic/libm.h"

// glibc 2.35 has newer versions of these functions, which an older C library lacks.
#if defined(__GLIBC__) && defined(__x86_64__)
__asm__(".symver hypot, hypot@GLIBC_2.2.5\n.symver hypotf, hypotf@GLIBC_2.2.5");
#endif

namespace simt {

#define SIMT_COMPUTE(name)                               \
  float libm_##name##f(float x) { return ::name##f(x); } \
  double libm_##name(double x) { return ::name(x); }
SIMT_LIBM_1(SIMT_COMPUTE)
#undef SIMT_COMPUTE
#define SIMT_COMPUTE(name)                                           \
  float libm_##name##f(float x, float y) { return ::name##f(x, y); } \
  double libm_##name(double x, double y) { return ::name(x, y); }
SIMT_LIBM_2(SIMT_COMPUTE)

}  // namespace simt
