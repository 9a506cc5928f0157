// Chooses the results of approximate instructions and tensor-core products by env->arithmetic.
//
// With ATTN_ARITHMETIC_ANY the results are the executor's own, within the bounds of kernels/primitives/math.h
// and matrix.h, and products round as the schedule seed says. With a device's arithmetic, the CPU bodies of
// ex2, lg2, rcp, rsqrt and of products give the bits of that device (device/functions.h, device/products.h).
// All other results follow IEEE 754 in both cases.
#pragma once

#include "kernels/executor/arithmetic/device/models.h"
#include "kernels/executor/executor.h"
