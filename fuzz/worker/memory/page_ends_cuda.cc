#include "fuzz/worker/memory/page_ends_cuda.h"

#include "fuzz/worker/memory/mirror_cuda.h"

namespace attnfuzz::worker {
namespace {

constexpr uint64_t kMostBytes = uint64_t{256} << 20;  // of a stretch

class CudaPageEnds final : public screen::PageEnds {
 public:
  // What was mapped goes with the process.
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
      // The last granule stays as it is.
      if (auto why = driver_.failure("address space for a tensor",
                                     driver_.reserve(&s.begin, kMostBytes + granule_, granule_, 0, 0)))
        return why;
    }
    const uint64_t more = (bytes - s.mapped + granule_ - 1) / granule_ * granule_;
    const CUdeviceptr at = s.begin + kMostBytes - s.mapped - more;
    CUmemGenericAllocationHandle memory = 0;
    if (auto why = driver_.failure("memory for a tensor", driver_.create(&memory, more, &kind_, 0))) return why;
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

  std::byte* end(int stretch) override {
    return reinterpret_cast<std::byte*>(stretches_[stretch].begin + kMostBytes);
  }

 private:
  struct Stretch {
    CUdeviceptr begin = 0;
    uint64_t mapped = 0;  // of the bytes before the end
  };
  DriverCalls driver_ = {};
  CUmemAllocationProp kind_ = {};
  size_t granule_ = 0;
  Stretch stretches_[kStretches];
};

}  // namespace

std::unique_ptr<screen::PageEnds> open_page_ends(int device, std::string* why) {
  auto ends = std::make_unique<CudaPageEnds>();
  if (auto failed = ends->open(device)) {
    *why = *failed;
    return nullptr;
  }
  return ends;
}

}  // namespace attnfuzz::worker
