#include "fuzz/worker/memory/mirror_cuda.h"

#include <algorithm>

namespace attnfuzz::worker {
namespace {

// Mapped memory that is kept from case to case; mapping a granule takes longer than a small case. Some ten
// workers share a device.
constexpr uint64_t kKeepBytes = uint64_t{2} << 30, kKeepPart = 32;
// Memory that stays free for the driver and for launches.
constexpr uint64_t kReserveBytes = uint64_t{256} << 20;

template <class Function>
bool find(const char* name, Function* function) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found;
  // Version 11.0 has all of these functions, and none has changed since.
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &address, 11000, cudaEnableDefault, &found);
  *function = reinterpret_cast<Function>(address);
  return error == cudaSuccess && found == cudaDriverEntryPointSuccess && address;
}

bool covered(const MemoryRange& r, std::span<const MemoryRange> by) {
  return std::ranges::any_of(
      by, [&](const MemoryRange& o) { return o.tensor == r.tensor && o.begin <= r.begin && o.end >= r.end; });
}

}  // namespace

Failure cuda_failure(const char* what, cudaError_t error) {
  if (error == cudaSuccess) return std::nullopt;
  return std::string(error == cudaErrorMemoryAllocation ? batch::kNoMemory : "") + what + ": CUDA error " +
         std::to_string(static_cast<int>(error)) + " (" + cudaGetErrorName(error) + "), " +
         cudaGetErrorString(error);
}

Failure DriverCalls::failure(const char* what, CUresult result) const {
  if (result == CUDA_SUCCESS) return std::nullopt;
  const char* name = nullptr;
  if (error_name(result, &name) != CUDA_SUCCESS || !name) name = "unknown";
  return std::string(result == CUDA_ERROR_OUT_OF_MEMORY ? batch::kNoMemory : "") + what +
         ": CUDA driver error " + std::to_string(static_cast<int>(result)) + " (" + name + ")";
}

Failure DriverCalls::find() {
  if (worker::find("cuMemAddressReserve", &reserve) && worker::find("cuMemCreate", &create) &&
      worker::find("cuMemMap", &map) && worker::find("cuMemSetAccess", &set_access) &&
      worker::find("cuMemUnmap", &unmap) && worker::find("cuMemRelease", &release) &&
      worker::find("cuMemGetAllocationGranularity", &granularity) &&
      worker::find("cuGetErrorName", &error_name)) {
    return std::nullopt;
  }
  return "this driver has no virtual memory management: CUDA 11 or later is needed";
}

CUmemAllocationProp memory_of(int device) {
  CUmemAllocationProp kind = {};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  kind.location.id = device;
  return kind;
}

Failure Mirror::open(int device) {
  if (auto why = driver_.find()) return why;
  kind_ = memory_of(device);
  if (auto why = failure("virtual memory management",
                         driver_.granularity(&granule_, &kind_, CU_MEM_ALLOC_GRANULARITY_MINIMUM))) {
    return why;
  }
  size_t free = 0, total = 0;
  if (auto why = cuda_failure("free memory", cudaMemGetInfo(&free, &total))) return why;
  keep_bytes_ = std::max<uint64_t>(kKeepBytes, total / kKeepPart);
  for (CUdeviceptr& slot : slots_) {
    // One granule more, never mapped, keeps the end of a slot from touching the next.
    if (auto why = failure("address space for the mirror",
                           driver_.reserve(&slot, Arena::kSlotBytes + granule_, granule_, 0, 0))) {
      return why;
    }
  }
  return std::nullopt;
}

CUdeviceptr Mirror::address(uint64_t offset) const {
  if (offset == Arena::kNowhere) return 0;
  // The address one past a slot's end belongs to that slot.
  const uint64_t slot =
      std::min<uint64_t>((offset - Arena::kPage) / (Arena::kSlotBytes + Arena::kPage), kTensorCount - 1);
  return slots_[slot] + (offset - Arena::slot_offset(static_cast<TensorId>(slot)));
}

std::vector<Mirror::Span> Mirror::granules(std::span<const MemoryRange> ranges) const {
  std::vector<Span> spans;
  for (const MemoryRange& r : ranges) {
    if (r.begin >= r.end) continue;
    const CUdeviceptr begin = address(r.begin), end = begin + (r.end - r.begin);
    spans.push_back({begin / granule_ * granule_, (end + granule_ - 1) / granule_ * granule_});
  }
  std::ranges::sort(spans, {}, &Span::begin);
  std::vector<Span> merged;
  for (const Span& s : spans) {
    if (!merged.empty() && s.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, s.end);
    } else {
      merged.push_back(s);
    }
  }
  return merged;
}

std::vector<Mirror::Span> Mirror::missing(const std::vector<Span>& wanted) const {
  std::vector<Span> gaps;
  for (const Span& w : wanted) {
    CUdeviceptr at = w.begin;
    auto mapping = mapped_.upper_bound(at);
    if (mapping != mapped_.begin() && std::prev(mapping)->second.end > at) --mapping;
    for (; at < w.end && mapping != mapped_.end() && mapping->first < w.end; ++mapping) {
      if (mapping->first > at) gaps.push_back({at, mapping->first});
      at = mapping->second.end;
    }
    if (at < w.end) gaps.push_back({at, w.end});
  }
  return gaps;
}

Failure Mirror::fits(std::span<const MemoryRange> ranges) {
  uint64_t need = 0;
  for (const Span& s : granules(ranges)) need += s.end - s.begin;
  if (need <= mapped_bytes_) return std::nullopt;  // at worst, everything is mapped anew
  size_t free = 0, total = 0;
  if (auto why = cuda_failure("free memory", cudaMemGetInfo(&free, &total))) return why;
  if (need + kReserveBytes <= free + mapped_bytes_) return std::nullopt;
  return std::string(batch::kNoMemory) + "the case needs " + std::to_string(need >> 20) +
         " MiB of device memory; " + std::to_string((free + mapped_bytes_) >> 20) + " MiB are free, of which " +
         std::to_string(kReserveBytes >> 20) + " stay reserved";
}

Failure Mirror::map(const Span& span, cudaStream_t stream) {
  const size_t bytes = span.end - span.begin;
  CUmemGenericAllocationHandle memory = 0;
  if (auto why = failure("device memory for the mirror", driver_.create(&memory, bytes, &kind_, 0))) return why;
  if (auto why = failure("mapping the mirror", driver_.map(span.begin, bytes, 0, memory, 0))) {
    driver_.release(memory);
    return why;
  }
  mapped_[span.begin] = {span.end, memory};
  mapped_bytes_ += bytes;
  CUmemAccessDesc access = {};
  access.location = kind_.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (auto why = failure("access to the mirror", driver_.set_access(span.begin, bytes, &access, 1))) return why;
  return cuda_failure("filling the mirror",
                      cudaMemsetAsync(reinterpret_cast<void*>(span.begin), 0xff, bytes, stream));
}

Failure Mirror::map_all(std::span<const Span> spans, cudaStream_t stream) {
  for (const Span& s : spans)
    if (auto why = map(s, stream)) return why;
  return std::nullopt;
}

Failure Mirror::unmap_all() {
  if (auto why = cuda_failure("before unmapping", cudaDeviceSynchronize())) return why;
  for (const auto& [begin, mapping] : mapped_) {
    if (auto why = failure("unmapping the mirror", driver_.unmap(begin, mapping.end - begin))) return why;
    if (auto why = failure("freeing the mirror", driver_.release(mapping.memory))) return why;
  }
  mapped_.clear();
  mapped_bytes_ = 0;
  used_.clear();
  return std::nullopt;
}

Failure Mirror::prepare(std::span<const MemoryRange> ranges, cudaStream_t stream) {
  const std::vector<Span> wanted = granules(ranges);
  std::vector<Span> gaps = missing(wanted);
  uint64_t more = 0;
  for (const Span& s : gaps) more += s.end - s.begin;
  if (!gaps.empty() && mapped_bytes_ + more > keep_bytes_ && !mapped_.empty()) {
    if (auto why = unmap_all()) return why;
    gaps = wanted;
  }
  auto why = map_all(gaps, stream);
  // Other processes may have taken memory since fits() looked. Then no memory is kept for later cases.
  if (why && batch::is_no_memory(*why)) {
    why = unmap_all();
    if (!why) why = map_all(wanted, stream);
  }
  if (why) return why;
  for (const MemoryRange& r : used_) {
    if (covered(r, ranges)) continue;
    void* at = reinterpret_cast<void*>(address(r.begin));
    if (auto why = cuda_failure("clearing the mirror", cudaMemsetAsync(at, 0xff, r.end - r.begin, stream))) {
      return why;
    }
  }
  used_.assign(ranges.begin(), ranges.end());
  return std::nullopt;
}

}  // namespace attnfuzz::worker
