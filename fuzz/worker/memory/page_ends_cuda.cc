#include "fuzz/worker/memory/page_ends_cuda.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "fuzz/worker/memory/mirror_cuda.h"

namespace attnfuzz::worker {
namespace {

// The bytes of a stretch. It must hold the largest tensor, the redzone before it, and what two alignments to a
// page take.
constexpr uint64_t kMostBytes = batch::kMostTensorBytes + (uint64_t{2} << 20);
static_assert(kRedzoneBefore + 2 * 4096 <= kMostBytes - batch::kMostTensorBytes);

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
    if (bytes > kMostBytes) return "a tensor of more than 258 MiB at the end of its page";
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
    if (auto why = allow(at, at + more)) {
      if (auto other = driver_.failure("unmapping a tensor", driver_.unmap(at, more))) return other;
      driver_.release(memory);
      return why;
    }
    s.mapped += more;
    return std::nullopt;
  }

  std::optional<std::string> reserve(int stretch) override {
    CUdeviceptr& begin = far_[stretch];
    if (begin != 0) return std::nullopt;
    // The last granule is never mapped, so an access beyond the end faults.
    return driver_.failure("address space for a tensor",
                           driver_.reserve(&begin, kFarBytes + granule_, granule_, 0, 0));
  }

  // Up to kKept granules keep their memory for later cases, because spread tensors use few different strides.
  // When they become more, all are unmapped, and kKept of them wait to be mapped elsewhere, because new memory
  // takes the driver far longer.
  std::optional<std::string> reach(std::span<const Far> wanted) override {
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
      if (auto why = free_spare(kKept)) return why;
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

  // Frees all memory of granules.
  Failure give_back() override {
    if (auto why = leave_all()) return why;
    return free_spare(0);
  }

 private:
  static constexpr size_t kKept = 4096;  // granules
  using Reached = std::unordered_map<CUdeviceptr, CUmemGenericAllocationHandle>;

  // Takes memory, if need be that which is kept for later cases.
  Failure create(CUmemGenericAllocationHandle* memory, size_t bytes) {
    auto why = driver_.failure("memory for a tensor", driver_.create(memory, bytes, &kind_, 0));
    if (!why || !batch::is_no_memory(*why) || (reached_.empty() && spare_.empty())) return why;
    if (auto other = give_back()) return other;
    return driver_.failure("memory for a tensor", driver_.create(memory, bytes, &kind_, 0));
  }

  // Maps the granules that have no memory. Neighbours get access together, because each such call takes long.
  // After a failure no granule is left mapped without access.
  Failure map_missing(std::span<const CUdeviceptr> granules) {
    CUdeviceptr begin = 0, end = 0;  // mapped, and without access yet
    Failure failed;
    for (const CUdeviceptr at : granules) {
      if (reached_.contains(at)) continue;
      if (at != end) {
        if ((failed = allow(begin, end))) break;
        begin = end = at;
      }
      if ((failed = map_granule(at))) break;
      end = at + granule_;
    }
    if (!failed) failed = allow(begin, end);
    if (!failed) return std::nullopt;
    for (CUdeviceptr at = begin; at < end; at += granule_)
      if (auto why = unmap_granule(reached_.find(at))) return why;
    return failed;
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
    } else if (auto why =
                   driver_.failure("memory for a tensor", driver_.create(&memory, granule_, &kind_, 0))) {
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
    while (!reached_.empty())
      if (auto why = unmap_granule(reached_.begin())) return why;
    return std::nullopt;
  }

  Failure unmap_granule(Reached::iterator granule) {
    if (auto why = driver_.failure("unmapping a tensor", driver_.unmap(granule->first, granule_))) return why;
    spare_.push_back(granule->second);
    reached_.erase(granule);
    return std::nullopt;
  }

  // Frees memory that is mapped nowhere, but `kept` granules.
  Failure free_spare(size_t kept) {
    for (; spare_.size() > kept; spare_.pop_back())
      if (auto why = driver_.failure("freeing a tensor", driver_.release(spare_.back()))) return why;
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
  Reached reached_;                                  // memory of the granules in far_, by address
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
