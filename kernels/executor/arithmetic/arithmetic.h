// Whose bits approximate instructions and tensor-core products have: env->arithmetic.
//
// ATTN_ARITHMETIC_ANY: the executor's own, which keep what kernels/primitives/math.h and
// matrix.h promise; products are rounded as the schedule's seed says. Of a device, the
// CPU bodies of ex2, lg2, rcp, rsqrt and of products give what that device gives, bit for
// bit (device/functions.h, device/products.h); everything else is IEEE 754 on both.
#pragma once

#include "kernels/executor/arithmetic/device/models.h"
#include "kernels/executor/executor.h"
