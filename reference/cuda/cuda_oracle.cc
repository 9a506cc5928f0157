#include "reference/cuda/cuda_oracle.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "reference/cuda/evaluate.h"
#include "reference/cuda/rows.h"

namespace attnfuzz {
namespace {

using namespace cuda;

class CudaOracle final : public FastOracle {
 public:
  CudaOracle(double least_work, int64_t most_shared) : session_{least_work, most_shared} {}

  bool open(std::string* why) {
    const auto failed = [&](const char* what, cudaError_t error) {
      if (error == cudaSuccess) return false;
      *why = in_words(what, error) + "; judge by the CPU's (--oracle cpu)";
      return true;
    };
    cudaDeviceProp properties;
    if (failed("CUDA device 0", cudaSetDevice(0)) ||
        failed("CUDA device 0", cudaGetDeviceProperties(&properties, 0)) ||
        failed("a stream", cudaStreamCreateWithFlags(&session_.stream, cudaStreamNonBlocking)))
      return false;
    device_ = properties.name;
    session_.blocks = kBlocksASm * properties.multiProcessorCount;
    session_.shared_limit =
        std::min(session_.shared_limit, static_cast<int64_t>(properties.sharedMemPerBlockOptin));
    return true;
  }

  std::string device() const override { return device_; }

  std::optional<Reference> evaluate(const attn_problem& problem, const attn_tensors& host,
                                    const attn_plan& plan, const Calibration& calibration, RowSample sample,
                                    std::string* why) override {
    constexpr uint64_t kGradients = ATTN_FEATURE_BACKWARD | ATTN_FEATURE_SELECTED_BACKWARD;
    const auto of_operation = (problem.features & ATTN_FEATURE_MERGE) != 0 ? merge_on_device
                              : (problem.features & kGradients) != 0       ? gradients_on_device
                                                                           : forward_on_device;
    try {
      return of_operation(session_, {problem, host, plan, calibration, sample}, why);
    } catch (NoMemory) {
      *why = "too little free memory on the device";
      return std::nullopt;
    }
  }

 private:
  Session session_;
  std::string device_;
};

}  // namespace

std::unique_ptr<FastOracle> open_cuda_oracle(std::string* why, double least_work, int64_t most_shared) {
  auto oracle = std::make_unique<CudaOracle>(least_work, most_shared);
  if (!oracle->open(why)) return nullptr;
  return oracle;
}

}  // namespace attnfuzz
