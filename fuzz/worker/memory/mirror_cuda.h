// The arena's mirror in device memory: the same slots, the same offsets in them.
//
// Each slot is a range of device addresses as large as the arena's. Only the parts that a case touches have
// memory (CUDA's virtual memory management, in granules of 2 MiB). So strides beyond 2^31 cost nothing, every
// address has the alignment that it has in the arena, and a slot's end is the end of mapped memory: an access
// beyond a tensor that is placed there faults.
//
// Memory that no case has touched since it was mapped reads as 0xFF: NaN.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "fuzz/worker/memory/memory.h"

namespace attnfuzz::worker {

// "what: CUDA error 700 (cudaErrorIllegalAddress), an illegal memory access was encountered".
Failure cuda_failure(const char* what, cudaError_t error);

// The driver functions that the mirror needs. They are looked up through the runtime, so that a
// worker on a machine without a driver still starts and can report that.
struct DriverCalls {
  CUresult (*reserve)(CUdeviceptr*, size_t, size_t, CUdeviceptr, unsigned long long);
  CUresult (*create)(CUmemGenericAllocationHandle*, size_t, const CUmemAllocationProp*, unsigned long long);
  CUresult (*map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
  CUresult (*set_access)(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t);
  CUresult (*unmap)(CUdeviceptr, size_t);
  CUresult (*release)(CUmemGenericAllocationHandle);
  CUresult (*granularity)(size_t*, const CUmemAllocationProp*, CUmemAllocationGranularity_flags);
  CUresult (*error_name)(CUresult, const char**);

  // Looks the functions up. Returns nothing, or why they cannot be found.
  Failure find();
  Failure failure(const char* what, CUresult result) const;
};

// The properties with which a device's own memory is allocated.
CUmemAllocationProp memory_of(int device);

class Mirror {
 public:
  // Reserves the addresses.
  Failure open(int device);
  // The device's address for this offset in the arena.
  CUdeviceptr address(uint64_t offset) const;
  // Checks that the device has memory for these ranges.
  Failure fits(std::span<const MemoryRange> ranges);
  // Maps the parts of the ranges that are not mapped. Fills the ranges of the previous call with
  // 0xFF again.
  Failure prepare(std::span<const MemoryRange> ranges, cudaStream_t stream);

 private:
  struct Span {
    CUdeviceptr begin, end;  // on borders of granules
  };
  std::vector<Span> granules(std::span<const MemoryRange> ranges) const;
  // Parts of `wanted` that are not mapped.
  std::vector<Span> missing(const std::vector<Span>& wanted) const;
  Failure map(const Span& span, cudaStream_t stream);
  Failure map_all(std::span<const Span> spans, cudaStream_t stream);
  Failure unmap_all();
  Failure failure(const char* what, CUresult result) const { return driver_.failure(what, result); }

  DriverCalls driver_ = {};
  CUmemAllocationProp kind_ = {};
  CUdeviceptr slots_[kTensorCount] = {};
  size_t granule_ = 0;
  uint64_t keep_bytes_ = 0;
  struct Mapping {
    CUdeviceptr end;
    CUmemGenericAllocationHandle memory;
  };
  std::map<CUdeviceptr, Mapping> mapped_;  // by where it begins
  uint64_t mapped_bytes_ = 0;
  std::vector<MemoryRange> used_;  // of the run before
};

}  // namespace attnfuzz::worker
