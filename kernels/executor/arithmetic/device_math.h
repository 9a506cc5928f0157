// The CPU body of an approximate function begins with this line. It returns the device's result if the launch
// has a device's arithmetic:
//
//   if (simt::arithmetic) return simt::as_device<simt::device_ex2>(x);
#pragma once

#include "kernels/executor/arithmetic/libm.h"

namespace simt {

// Call these only if `arithmetic` is not null. A subnormal x counts as 0, as with .ftz.
SIMT_EXPORT float device_ex2(float x);
SIMT_EXPORT float device_lg2(float x);
SIMT_EXPORT float device_rcp(float x);
SIMT_EXPORT float device_rsqrt(float x);

template <float (*kFunction)(float)>
inline float as_device(float x) {
#if SIMT_MSAN
  return as_defined_as(kFunction(defined(x)), x);
#else
  return kFunction(x);
#endif
}

}  // namespace simt
