// Stands in if the GPU oracle was left out of the build.
#include "reference/cuda/cuda_oracle.h"

namespace attnfuzz {

std::unique_ptr<FastOracle> open_cuda_oracle(std::string* why, double, int64_t) {
  *why =
      "no oracle on a GPU: this attnfuzz was built without nvcc; build it where nvcc is, or judge by the CPU's "
      "(--oracle cpu)";
  return nullptr;
}

}  // namespace attnfuzz
