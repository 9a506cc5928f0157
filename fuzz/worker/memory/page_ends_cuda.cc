#include "fuzz/worker/memory/page_ends_cuda.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "fuzz/worker/memory/mirror_cuda.h"

namespace attnfuzz::worker {
namespace {

constexpr uint64_t kMostBytes = uint64_t{256} << 20;  // of a stretch

class CudaPageEnds final : public batch::PageEnds {
 public:
  // Mappings end with the process.
  Failure open(int device) {
    if (auto why = driver_.find()) return why;
    kind_ = memory_of(device);
    return driver_.failure("virtual memory management",
                           driver_.granularity(&granule_, &kind_, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  }

  Failure room(int stretch, uint64_t bytes) override {
    Stretch& s = stretches_[stretch];
    if (bytes <= s.mapped) return std::nullopt;
    if (bytes > kMostBytes) return "a tensor of more than 256 MiB at the end of its page";
    if (s.begin == 0) {
      // The last granule is never mapped, so an access beyond the end faults.
      if (auto why = driver_.failure("address space for a tensor",
                                     driver_.reserve(&s.begin, kMostBytes + granule_, granule_, 0, 0)))
        return why;
    }
    const uint64_t more = (bytes - s.mapped + granule_ - 1) / granule_ * granule_;
    const CUdeviceptr at = s.begin + kMostBytes - s.mapped - more;
    CUmemGenericAllocationHandle memory = 0;
    if (auto why = create(&memory, more)) return why;
    if (auto why = driver_.failure("mapping a tensor", driver_.map(at, more, 0, memory, 0))) {
      driver_.release(memory);
      return why;
    }
    s.mapped += more;
    CUmemAccessDesc access = {};
    access.location = kind_.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return driver_.failure("access to a tensor", driver_.set_access(at, more, &access, 1));
  }

  std::optional<std::string> reserve(int stretch) override {
    CUdeviceptr& begin = far_[stretch];
    if (begin != 0) return std::nullopt;
    // The last granule is never mapped, so an access beyond the end faults.
    return driver_.failure("address space for a tensor", driver_.reserve(&begin, kFarBytes + granule_, granule_, 0, 0));
  }

  // Up to kKept granules keep their memory for later cases, because spread tensors use few different strides. After
  // that their memory is mapped elsewhere, because new memory takes the driver far longer.
  std::optional<std::string> reach(std::span<const Far> wanted) override {
    constexpr size_t kKept = 4096;  // granules
    std::vector<CUdeviceptr> granules;
    for (const Far& one : wanted) {
      if (auto why = reserve(one.stretch)) return why;
      const CUdeviceptr begin = far_[one.stretch];
      for (CUdeviceptr at = (begin + one.begin) / granule_ * granule_; at < begin + one.end; at += granule_)
        granules.push_back(at);
    }
    std::ranges::sort(granules);
    granules.erase(std::ranges::unique(granules).begin(), granules.end());
    const auto missing = [&](CUdeviceptr at) { return !reached_.contains(at); };
    const auto more = static_cast<size_t>(std::ranges::count_if(granules, missing));
    if (more > 0 && reached_.size() + more > kKept) {
      if (auto why = leave_all()) return why;
    }
    auto why = map_missing(granules);
    if (!why || !batch::is_no_memory(*why)) return why;
    // The memory that is kept for later cases may suffice.
    if (auto other = give_back()) return other;
    return map_missing(granules);
  }

  std::byte* far(int stretch) override { return reinterpret_cast<std::byte*>(far_[stretch]); }

  std::byte* end(int stretch) override {
    return reinterpret_cast<std::byte*>(stretches_[stretch].begin + kMostBytes);
  }

 private:
  // Takes memory, if need be that which is kept for later cases.
  Failure create(CUmemGenericAllocationHandle* memory, size_t bytes) {
    auto why = driver_.failure("memory for a tensor", driver_.create(memory, bytes, &kind_, 0));
    if (!why || !batch::is_no_memory(*why) || (reached_.empty() && spare_.empty())) return why;
    if (auto other = give_back()) return other;
    return driver_.failure("memory for a tensor", driver_.create(memory, bytes, &kind_, 0));
  }

  // Maps the granules that have no memory. Neighbours get access together, because each such call takes long.
  Failure map_missing(std::span<const CUdeviceptr> granules) {
    CUdeviceptr begin = 0, end = 0;  // mapped, and without access yet
    for (const CUdeviceptr at : granules) {
      if (reached_.contains(at)) continue;
      if (at != end) {
        if (auto why = allow(begin, end)) return why;
        begin = at;
      }
      if (auto why = map_granule(at)) {
        allow(begin, end);
        return why;
      }
      end = at + granule_;
    }
    return allow(begin, end);
  }

  Failure allow(CUdeviceptr begin, CUdeviceptr end) {
    if (begin == end) return std::nullopt;
    CUmemAccessDesc access = {};
    access.location = kind_.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return driver_.failure("access to a tensor", driver_.set_access(begin, end - begin, &access, 1));
  }

  Failure map_granule(CUdeviceptr at) {
    CUmemGenericAllocationHandle memory = 0;
    if (!spare_.empty()) {
      memory = spare_.back();
      spare_.pop_back();
    } else if (auto why = driver_.failure("memory for a tensor", driver_.create(&memory, granule_, &kind_, 0))) {
      return why;
    }
    if (auto why = driver_.failure("mapping a tensor", driver_.map(at, granule_, 0, memory, 0))) {
      spare_.push_back(memory);
      return why;
    }
    reached_[at] = memory;
    return std::nullopt;
  }

  // Unmaps all granules, and keeps their memory for others.
  Failure leave_all() {
    if (auto why = cuda_failure("before unmapping", cudaDeviceSynchronize())) return why;
    for (const auto& [at, memory] : reached_) {
      if (auto why = driver_.failure("unmapping a tensor", driver_.unmap(at, granule_))) return why;
      spare_.push_back(memory);
    }
    reached_.clear();
    return std::nullopt;
  }

  // Frees all memory of granules.
  Failure give_back() {
    if (auto why = leave_all()) return why;
    for (const CUmemGenericAllocationHandle memory : spare_)
      if (auto why = driver_.failure("freeing a tensor", driver_.release(memory))) return why;
    spare_.clear();
    return std::nullopt;
  }

  struct Stretch {
    CUdeviceptr begin = 0;
    uint64_t mapped = 0;  // bytes with memory, counted back from the end
  };
  DriverCalls driver_ = {};
  CUmemAllocationProp kind_ = {};
  size_t granule_ = 0;
  Stretch stretches_[kStretches];
  CUdeviceptr far_[kStretches] = {};
  std::unordered_map<CUdeviceptr, CUmemGenericAllocationHandle>
      reached_;  // memory of the granules in far_, by address
  std::vector<CUmemGenericAllocationHandle> spare_;  // memory of a granule each, mapped nowhere
};

}  // namespace

std::unique_ptr<batch::PageEnds> open_page_ends(int device, std::string* why) {
  auto ends = std::make_unique<CudaPageEnds>();
  if (auto failed = ends->open(device)) {
    *why = *failed;
    return nullptr;
  }
  return ends;
}

}  // namespace attnfuzz::worker
