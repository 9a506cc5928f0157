// Measures how busy the GPUs of a campaign are: the share of time in which some kernel ran, as the driver
// counts it (NVML). A job cannot measure this, because kernels of other jobs run while it waits for its own.
//
//   GpuSampler sampler(visible_gpus(), 2);
//   sampler.look();                        // about twice a second
//   session.gpu_busy = sampler.busy();     // 0..1 for each GPU; empty: the driver says nothing
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace attnfuzz {

class GpuSampler {
 public:
  // `gpus`: as CUDA_VISIBLE_DEVICES names them; the first `count` of them are sampled.
  GpuSampler(const std::vector<std::string>& gpus, int count, const char* library = "libnvidia-ml.so.1");
  ~GpuSampler();
  GpuSampler(const GpuSampler&) = delete;
  GpuSampler& operator=(const GpuSampler&) = delete;

  void look();
  // The means over all looks.
  std::vector<double> busy() const;

 private:
  struct Driver;
  std::unique_ptr<Driver> driver_;
  std::vector<void*> devices_;
  std::vector<double> sums_;  // sums of shares, one per GPU
  uint64_t looks_ = 0;
};

}  // namespace attnfuzz
