// On a GPU, the case's bytes are copied from the arena to its mirror in device memory (mirror_cuda.h) before
// each run. After the run all of them are copied back, redzones included, so that the parent sees every write
// of the kernel.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "fuzz/worker/memory/memory.h"
#include "fuzz/worker/memory/mirror_cuda.h"
#include "fuzz/worker/memory/page_ends_cuda.h"

namespace attnfuzz::worker {
namespace {

constexpr int kStreams = 2;
// Pinned staging memory for copies. A small case fits as a whole, and then needs one wait for each
// direction.
constexpr size_t kStagingBytes = size_t{32} << 20;

// "580.65.06", as the kernel module says; empty if it does not.
std::string driver_release() {
  std::ifstream in("/proc/driver/nvidia/version");
  for (std::string word; in >> word;) {
    if (word.find('.') != word.npos && word.find_first_not_of("0123456789.") == word.npos) return word;
  }
  return "";
}

std::string version(int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); }

// If ctest assigned a GPU to a test ("id:2,slots:1"), the test sees only this GPU.
void obey_ctest() {
  const char* given = std::getenv("CTEST_RESOURCE_GROUP_0_GPUS");
  if (!given || std::strncmp(given, "id:", 3) != 0) return;
  const std::string id(given + 3, std::strcspn(given + 3, ","));
  setenv("CUDA_VISIBLE_DEVICES", id.c_str(), 0);
}

class CudaMemory final : public Memory {
 public:
  explicit CudaMemory(Arena& arena) : arena_(arena) {}

  Failure open() {
    obey_ctest();
    int count = 0;
    if (auto why = cuda_failure("no CUDA device", cudaGetDeviceCount(&count))) return why;
    if (count == 0) return "no CUDA device: none is visible (CUDA_VISIBLE_DEVICES?)";
    if (auto why = cuda_failure("CUDA device 0", cudaSetDevice(0))) return why;
    cudaDeviceProp properties;
    if (auto why = cuda_failure("CUDA device 0", cudaGetDeviceProperties(&properties, 0))) return why;
    compute_capability_ = 10 * properties.major + properties.minor;
    shared_memory_limit_ = static_cast<int64_t>(properties.sharedMemPerBlockOptin);
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    device_ = std::string(properties.name) + ", sm_" + std::to_string(compute_capability_) + ", driver " +
              driver_release() + " (CUDA " + version(driver) + "), runtime " + version(runtime);
    for (cudaStream_t& s : streams_) {
      if (auto why = cuda_failure("a stream", cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking))) return why;
    }
    void* staging = nullptr;
    if (auto why = cuda_failure("pinned memory", cudaMallocHost(&staging, kStagingBytes))) return why;
    staging_ = static_cast<std::byte*>(staging);
    return mirror_.open(0);
  }

  attn_backend backend() const override { return ATTN_CUDA; }
  std::string device() const override { return device_; }

  // A case may come from another GPU. Its number of multiprocessors matters only for planning, and
  // the path of an older architecture also runs here. But instructions of sm_90a run on no other
  // architecture, so a case for 90 or above gets this device's architecture. No case gets more
  // shared memory than the device has.
  void limit(attn_env& env) const override {
    if (env.compute_capability >= 90 || env.compute_capability > compute_capability_) {
      env.compute_capability = compute_capability_;
    }
    env.shared_memory_limit = std::min(env.shared_memory_limit, shared_memory_limit_);
  }

  void* address(uint64_t offset) override { return reinterpret_cast<void*>(mirror_.address(offset)); }
  void* stream(int index) override { return streams_[index == 1]; }
  Failure fits(std::span<const MemoryRange> ranges) override { return mirror_.fits(ranges); }

  Failure to_kernel(std::span<const MemoryRange> ranges, int index) override {
    const cudaStream_t stream = streams_[index == 1];
    if (auto why = mirror_.prepare(ranges, stream)) return why;
    size_t staged = 0;
    for (const MemoryRange& r : ranges) {
      for (uint64_t at = r.begin; at < r.end;) {
        if (staged == kStagingBytes) {
          if (auto why = cuda_failure("copying to the device", cudaStreamSynchronize(stream))) return why;
          staged = 0;
        }
        const size_t bytes = std::min<uint64_t>(r.end - at, kStagingBytes - staged);
        std::memcpy(staging_ + staged, arena_.at(at), bytes);
        if (auto why = cuda_failure(
                "copying to the device",
                cudaMemcpyAsync(address(at), staging_ + staged, bytes, cudaMemcpyHostToDevice, stream))) {
          return why;
        }
        staged += bytes;
        at += bytes;
      }
    }
    // Waits, so that the time of the run does not include the copies.
    return cuda_failure("copying to the device", cudaStreamSynchronize(stream));
  }

  Failure finish(int index) override {
    if (auto why = cuda_failure("the kernel", cudaStreamSynchronize(streams_[index == 1]))) return why;
    cudaGetLastError();  // clears refused launches, which the kernel must report in its status
    return std::nullopt;
  }

  Failure from_kernel(std::span<const MemoryRange> ranges, int index) override {
    const cudaStream_t stream = streams_[index == 1];
    struct Piece {
      uint64_t at;
      size_t bytes;
    };
    std::vector<Piece> pieces;
    size_t staged = 0;
    // Waits for the copies, so that the arena gets only complete data.
    const auto deliver = [&]() -> Failure {
      if (auto why = cuda_failure("copying from the device", cudaStreamSynchronize(stream))) return why;
      size_t from = 0;
      for (const Piece& p : pieces) {
        std::memcpy(arena_.at(p.at), staging_ + from, p.bytes);
        from += p.bytes;
      }
      pieces.clear();
      staged = 0;
      return std::nullopt;
    };
    for (const MemoryRange& r : ranges) {
      for (uint64_t at = r.begin; at < r.end;) {
        if (staged == kStagingBytes) {
          if (auto why = deliver()) return why;
        }
        const size_t bytes = std::min<uint64_t>(r.end - at, kStagingBytes - staged);
        if (auto why = cuda_failure(
                "copying from the device",
                cudaMemcpyAsync(staging_ + staged, address(at), bytes, cudaMemcpyDeviceToHost, stream))) {
          return why;
        }
        pieces.push_back({at, bytes});
        staged += bytes;
        at += bytes;
      }
    }
    if (auto why = deliver()) return why;
    // Work that a kernel launched on another stream must not reach into the next case.
    return cuda_failure("another stream than the kernel's", cudaDeviceSynchronize());
  }

  // Uses managed memory, with the counter behind the values.
  Failure open_probe(uint64_t capacity, attn_probe& probe) override {
    if (capacity > probe_capacity_) {
      void* room = nullptr;
      const size_t bytes = capacity * sizeof(float) + sizeof(unsigned long long);
      if (auto why = cuda_failure("memory for a probe", cudaMallocManaged(&room, bytes))) return why;
      if (probed_) cudaFree(probed_);
      probed_ = static_cast<float*>(room);
      probe_capacity_ = capacity;
    }
    probe.values = probed_;
    probe.capacity = capacity;
    probe.used = reinterpret_cast<unsigned long long*>(probed_ + probe_capacity_);
    *probe.used = 0;
    return std::nullopt;
  }

  Failure read_probe(const attn_probe& probe, float* values, uint64_t* used) override {
    *used = *probe.used;
    std::memcpy(values, probe.values, std::min<uint64_t>(*used, probe.capacity) * sizeof(float));
    return std::nullopt;
  }

  batch::Device* batch_device(std::span<std::byte> readback, std::string* why) override {
    if (batch_device_) return batch_device_.get();
    // Pins the readback memory, so that copies go there directly. Without it, copies are slower.
    if (cudaHostRegister(readback.data(), readback.size(), cudaHostRegisterDefault) != cudaSuccess)
      cudaGetLastError();
    std::unique_ptr<batch::PageEnds> page_ends = open_page_ends(0, why);
    if (page_ends) batch_device_ = batch::open_device(std::move(page_ends), why);
    return batch_device_.get();
  }

 private:
  Arena& arena_;
  Mirror mirror_;
  std::unique_ptr<batch::Device> batch_device_;
  cudaStream_t streams_[kStreams] = {};
  std::byte* staging_ = nullptr;
  int compute_capability_ = 0;
  int64_t shared_memory_limit_ = 0;
  std::string device_;
  float* probed_ = nullptr;
  uint64_t probe_capacity_ = 0;  // even, so that the counter is aligned
};

}  // namespace

std::unique_ptr<Memory> open_memory(Arena& arena, std::string* error) {
  auto memory = std::make_unique<CudaMemory>(arena);
  if (auto why = memory->open()) {
    *error = *why;
    return nullptr;
  }
  return memory;
}

}  // namespace attnfuzz::worker
