// For MemorySanitizer's builds. Functions of libm are not instrumented, so MemorySanitizer would take their
// results for defined even if the arguments are not. This header redefines them for the kernel's module: the
// executor computes (libm.cc), and the result is as defined as the arguments.
#pragma once

#include <math.h>

#include "kernels/executor/executor.h"

// The names of functions of one number, and of two.
#define SIMT_LIBM_1(X)                                                                                  \
  X(exp)                                                                                                \
  X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sin) X(cos) X(tan) X(sinh) X(cosh) X(tanh) X(erf) \
      X(erfc) X(cbrt)
#define SIMT_LIBM_2(X) X(pow) X(fmod) X(hypot) X(atan2)

namespace simt {
#define SIMT_DECLARE(name)                   \
  SIMT_EXPORT float libm_##name##f(float x); \
  SIMT_EXPORT double libm_##name(double x);
SIMT_LIBM_1(SIMT_DECLARE)
#undef SIMT_DECLARE
#define SIMT_DECLARE(name)                            \
  SIMT_EXPORT float libm_##name##f(float x, float y); \
  SIMT_EXPORT double libm_##name(double x, double y);
SIMT_LIBM_2(SIMT_DECLARE)
#undef SIMT_DECLARE
}  // namespace simt

#if SIMT_MSAN
#include <sanitizer/msan_interface.h>

namespace simt {
template <class T>
inline T as_defined_as(T result, T x) {
  if (__msan_test_shadow(&x, sizeof x) >= 0) __msan_poison(&result, sizeof result);
  return result;
}
// Marks x as defined for MemorySanitizer, so that passing on an undefined value is not reported.
template <class T>
inline T defined(T x) {
  __msan_unpoison(&x, sizeof x);
  return x;
}
}  // namespace simt

#define SIMT_DEFINE(type, name)                                                       \
  extern "C" __attribute__((weak, visibility("hidden"))) type name(type x) noexcept { \
    return simt::as_defined_as<type>(simt::libm_##name(simt::defined(x)), x);         \
  }
#define SIMT_DEFINE_BOTH(name) SIMT_DEFINE(double, name) SIMT_DEFINE(float, name##f)
SIMT_LIBM_1(SIMT_DEFINE_BOTH)
#undef SIMT_DEFINE
#define SIMT_DEFINE(type, name)                                                                  \
  extern "C" __attribute__((weak, visibility("hidden"))) type name(type x, type y) noexcept {    \
    return simt::as_defined_as<type>(                                                            \
        simt::as_defined_as<type>(simt::libm_##name(simt::defined(x), simt::defined(y)), x), y); \
  }
SIMT_LIBM_2(SIMT_DEFINE_BOTH)
#undef SIMT_DEFINE
#undef SIMT_DEFINE_BOTH
#endif
