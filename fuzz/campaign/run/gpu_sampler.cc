#include "fuzz/campaign/run/gpu_sampler.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <type_traits>

namespace attnfuzz {

// The NVML functions that the sampler needs. NVML is loaded at run time, because a machine without
// a GPU does not have it.
struct GpuSampler::Driver {
  struct Utilization {
    unsigned gpu, memory;  // percent
  };
  void* library = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*by_index)(unsigned index, void** device) = nullptr;
  int (*by_uuid)(const char* uuid, void** device) = nullptr;
  int (*utilization)(void* device, Utilization* to) = nullptr;

  explicit Driver(const char* name) : library(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (library == nullptr) return;
    const auto find = [&](auto& to, const char* symbol) {
      to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(dlsym(library, symbol));
    };
    find(init, "nvmlInit_v2");
    find(shutdown, "nvmlShutdown");
    find(by_index, "nvmlDeviceGetHandleByIndex_v2");
    find(by_uuid, "nvmlDeviceGetHandleByUUID");
    find(utilization, "nvmlDeviceGetUtilizationRates");
    begun = init && shutdown && by_index && by_uuid && utilization && init() == 0;
  }
  ~Driver() {
    if (begun) shutdown();
    if (library != nullptr) dlclose(library);
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  bool begun = false;
};

GpuSampler::GpuSampler(const std::vector<std::string>& gpus, int count, const char* library) {
  const size_t wanted = std::min(gpus.size(), static_cast<size_t>(std::max(count, 0)));
  if (wanted == 0) return;
  driver_ = std::make_unique<Driver>(library);
  for (size_t n = 0; n < wanted && driver_->begun; ++n) {
    void* device = nullptr;
    const bool number = std::ranges::all_of(gpus[n], [](char c) { return c >= '0' && c <= '9'; });
    const int failed = number ? driver_->by_index(static_cast<unsigned>(std::atoi(gpus[n].c_str())), &device)
                              : driver_->by_uuid(gpus[n].c_str(), &device);
    if (failed != 0) break;
    devices_.push_back(device);
  }
  if (devices_.size() < wanted) devices_.clear();
  sums_.assign(devices_.size(), 0);
}

GpuSampler::~GpuSampler() = default;

void GpuSampler::look() {
  std::vector<double> shares;
  for (void* device : devices_) {
    Driver::Utilization now = {};
    if (driver_->utilization(device, &now) != 0) return;  // skips this sample
    shares.push_back(std::min(now.gpu, 100u) / 100.0);
  }
  for (size_t n = 0; n < shares.size(); ++n) sums_[n] += shares[n];
  ++looks_;
}

std::vector<double> GpuSampler::busy() const {
  std::vector<double> means;
  for (const double sum : sums_) {
    if (looks_ > 0) means.push_back(sum / static_cast<double>(looks_));
  }
  return means;
}

}  // namespace attnfuzz
