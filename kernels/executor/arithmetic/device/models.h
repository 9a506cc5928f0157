// The functions and products of each modelled device.
//
//   const Model* model = model_of(ATTN_ARITHMETIC_H200);
//   uint32_t half = ex2(model->functions, 0xBF800000);
#pragma once

#include "kernels/attention.h"
#include "kernels/executor/arithmetic/device/functions.h"
#include "kernels/executor/arithmetic/device/products.h"

namespace simt::device {

struct Model {
  const Functions& functions;
  Products products;
};

// The model of an attn_arithmetic. Null for ATTN_ARITHMETIC_ANY and for unknown numbers.
inline const Model* model_of(int32_t arithmetic) {
  static const Model hopper{h200_functions(), kHopperProducts};
  static const Model ampere{h200_functions(), kAmpereProducts};
  switch (arithmetic) {
    case ATTN_ARITHMETIC_H200:
      return &hopper;
    case ATTN_ARITHMETIC_A100:
    case ATTN_ARITHMETIC_L40S:
      return &ampere;
    default:
      return nullptr;
  }
}

}  // namespace simt::device
