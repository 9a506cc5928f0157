// The host side of CUDA's runtime for code that runs on the executor: launches with
// <<<>>> (launch.h), memory, streams, events, attributes.
//
// Every call completes at once and in order, so streams have no effect. Memory of cudaMalloc is guarded: it
// starts as NaNs and ends at an inaccessible page, and arrays that are not freed when an adapter's call ends
// are reported. Host and device share one memory.
//
// Sources are translated first (kernels/cuda_source/translate). Each shared library has its own variable
// `host`. A caller of the library's code must first set the environment:
//
//   simt::HostCall call(env);           // launches report to env, and use its schedule
//   launch(q, k, v, o, ...);            // unchanged code
//   return call.end();                  // ATTN_OK, or the status of the first launch that failed
#pragma once

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <vector>

#include "kernels/attention.h"
#include "kernels/cuda_source/cuda/builtins.h"
#include "kernels/executor/cuda_words.h"

#if SIMT_ASAN
#include <sanitizer/asan_interface.h>
#elif SIMT_MSAN
#include <sanitizer/msan_interface.h>
#endif

enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInitializationError = 3,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidPitchValue = 12,
  cudaErrorInvalidSymbol = 13,
  cudaErrorInvalidDevicePointer = 17,
  cudaErrorInvalidMemcpyDirection = 21,
  cudaErrorInsufficientDriver = 35,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidKernelImage = 200,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorInvalidPtx = 218,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorSymbolNotFound = 500,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchOutOfResources = 701,
  cudaErrorLaunchTimeout = 702,
  cudaErrorAssert = 710,
  cudaErrorMisalignedAddress = 716,
  cudaErrorLaunchFailure = 719,
  cudaErrorNotPermitted = 800,
  cudaErrorNotSupported = 801,
  cudaErrorUnknown = 999
};
using cudaError = cudaError_t;

struct CUstream_st {
  int number;
};
struct CUevent_st {
  int number;
};
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
inline const cudaStream_t cudaStreamPerThread = nullptr;
inline const cudaStream_t cudaStreamLegacy = nullptr;

enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum cudaFuncCache {
  cudaFuncCachePreferNone,
  cudaFuncCachePreferShared,
  cudaFuncCachePreferL1,
  cudaFuncCachePreferEqual
};
enum cudaSharedMemConfig {
  cudaSharedMemBankSizeDefault,
  cudaSharedMemBankSizeFourByte,
  cudaSharedMemBankSizeEightByte
};
enum {
  cudaSharedmemCarveoutDefault = -1,
  cudaSharedmemCarveoutMaxShared = 100,
  cudaSharedmemCarveoutMaxL1 = 0
};

enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
  cudaDevAttrCooperativeLaunch = 95,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};

struct cudaDeviceProp {
  char name[256] = "the CPU executor";
  size_t totalGlobalMem = size_t{1} << 34, sharedMemPerBlock = 48 * 1024, totalConstMem = 64 * 1024;
  size_t sharedMemPerBlockOptin = 0, sharedMemPerMultiprocessor = 0;
  int regsPerBlock = 65536, warpSize = 32, maxThreadsPerBlock = 1024, clockRate = 1000000;
  int maxThreadsDim[3] = {1024, 1024, 64}, maxGridSize[3] = {2147483647, 65535, 65535};
  int major = 0, minor = 0, multiProcessorCount = 0, maxThreadsPerMultiProcessor = 2048, l2CacheSize = 50 << 20;
  int memoryClockRate = 1000000, memoryBusWidth = 5120, concurrentKernels = 1;
};

namespace simt {

// An array of cudaMalloc.
struct Scratch {
  char* mapped;
  size_t mapped_bytes;
  char* begin;
  size_t bytes;
};

// `extern __shared__ T name[]` outside of functions: a launch sets these pointers.
struct DynamicShared {
  template <class T>
  explicit DynamicShared(T** pointer)
      : where(reinterpret_cast<void**>(const_cast<void*>(static_cast<const volatile void*>(pointer)))),
        next(first()) {
    first() = this;
  }
  static const DynamicShared*& first() {
    static const DynamicShared* list = nullptr;
    return list;
  }
  void** where;
  const DynamicShared* next;
};

struct Host {
  const attn_env* env = nullptr;
  attn_status status = ATTN_OK;  // the status of the first launch that failed in this call
  cudaError_t last = cudaSuccess;
  std::vector<Scratch> scratch;
  int streams = 0;
};
inline Host host;  // not thread_local: that is what __shared__ means here

inline cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) host.last = error;
  return error;
}

inline void tell(attn_report_kind kind, const char* format, ...) __attribute__((format(printf, 2, 3)));
inline void tell(attn_report_kind kind, const char* format, ...) {
  if (host.env == nullptr || host.env->report == nullptr) return;
  char message[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  attn_report report{};
  report.size = sizeof report;
  report.kind = kind;
  report.message = message;
  host.env->report(host.env->user, &report);
}

inline constexpr size_t kScratchPage = 4096, kScratchAlign = 256;
inline constexpr unsigned char kScratchRedzone = 0xA5;

inline void* take_scratch(size_t bytes) {
  const size_t whole = (bytes + kScratchAlign - 1) / kScratchAlign * kScratchAlign;
  const size_t pages = (whole + kScratchPage - 1) / kScratchPage * kScratchPage;
  void* mapped =
      mmap(nullptr, pages + 2 * kScratchPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const page = static_cast<char*>(mapped) + kScratchPage;
  mprotect(page, pages, PROT_READ | PROT_WRITE);
  char* const begin = page + pages - whole;  // the array ends at the end of the page
  memset(page, kScratchRedzone, pages);
  memset(begin, 0xFF, bytes);  // NaNs
#if SIMT_ASAN
  __asan_poison_memory_region(begin + bytes, whole - bytes);
#elif SIMT_MSAN
  __msan_poison(begin, bytes);
#endif
  host.scratch.push_back({static_cast<char*>(mapped), pages + 2 * kScratchPage, begin, bytes});
  return begin;
}

// False if the memory around the array was written.
inline bool give_back(const Scratch& s) {
  bool whole = true;
#if SIMT_ASAN
  __asan_unpoison_memory_region(s.mapped, s.mapped_bytes);
#endif
  for (const char* at = s.mapped + kScratchPage; at < s.mapped + s.mapped_bytes - kScratchPage; ++at) {
    if (at == s.begin) at += s.bytes;
    if (at >= s.mapped + s.mapped_bytes - kScratchPage) break;
    whole = whole && static_cast<unsigned char>(*at) == kScratchRedzone;
  }
  if (!whole) tell(ATTN_REPORT_ADDRESS, "what lies around %zu bytes of cudaMalloc was written", s.bytes);
  munmap(s.mapped, s.mapped_bytes);
  return whole;
}

// A call from outside into the host code of a source.
class HostCall {
 public:
  explicit HostCall(const attn_env& env) : env_(env) {
    host.env = &env_;
    host.status = ATTN_OK;
    host.last = cudaSuccess;
  }
  // If `keeps` is true, arrays of cudaMalloc that are not freed yet are no error: they may live until the next
  // call.
  attn_status end(bool keeps = false) {
    if (!keeps && !host.scratch.empty()) {
      size_t bytes = 0;
      for (const Scratch& s : host.scratch) bytes += s.bytes;
      const size_t arrays = host.scratch.size();
      for (const Scratch& s : host.scratch) {
        if (!give_back(s)) fail(ATTN_FAULT);
      }
      host.scratch.clear();
      if (host.status == ATTN_OK)
        tell(ATTN_REPORT_DEVICE, "%zu arrays of cudaMalloc (%zu bytes) were not freed", arrays, bytes);
      fail(ATTN_FAULT);
    }
    return host.status;
  }
  ~HostCall() { host.env = nullptr; }
  HostCall(const HostCall&) = delete;

  static void fail(attn_status status) {
    if (host.status == ATTN_OK) host.status = status;
  }

 private:
  attn_env env_;
};

inline int attribute(cudaDeviceAttr which) {
  const attn_env* env = host.env;
  const int capability = env ? env->compute_capability : 90;
  const int shared = env ? static_cast<int>(env->shared_memory_limit) : 227 * 1024;
  switch (which) {
    case cudaDevAttrMaxThreadsPerBlock:
      return 1024;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return 48 * 1024;
    case cudaDevAttrWarpSize:
      return 32;
    case cudaDevAttrMultiProcessorCount:
      return env ? env->sm_count : 132;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return 2048;
    case cudaDevAttrComputeCapabilityMajor:
      return capability / 10;
    case cudaDevAttrComputeCapabilityMinor:
      return capability % 10;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return shared + 1024;
    case cudaDevAttrCooperativeLaunch:
      return 0;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return shared;
  }
  return 0;
}

}  // namespace simt

// --- Errors ------------------------------------------------------------------

inline cudaError_t cudaGetLastError() {
  const cudaError_t error = simt::host.last;
  simt::host.last = cudaSuccess;
  return error;
}
inline cudaError_t cudaPeekAtLastError() { return simt::host.last; }
inline const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    default:
      return "an error of CUDA";
  }
}
inline const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

// --- Memory ------------------------------------------------------------------

template <class T>
inline cudaError_t cudaMalloc(T** pointer, size_t bytes) {
  *pointer = bytes == 0 ? nullptr : static_cast<T*>(simt::take_scratch(bytes));
  return simt::remember(bytes > 0 && *pointer == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
template <class T>
inline cudaError_t cudaMallocAsync(T** pointer, size_t bytes, cudaStream_t) {
  return cudaMalloc(pointer, bytes);
}
template <class T>
inline cudaError_t cudaMallocManaged(T** pointer, size_t bytes, unsigned = 1) {
  return cudaMalloc(pointer, bytes);
}
template <class T>
inline cudaError_t cudaMallocHost(T** pointer, size_t bytes, unsigned = 0) {
  return cudaMalloc(pointer, bytes);
}
inline cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  std::vector<simt::Scratch>& all = simt::host.scratch;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].begin != pointer) continue;
    const bool whole = simt::give_back(all[i]);
    all.erase(all.begin() + static_cast<ptrdiff_t>(i));
    if (!whole) simt::HostCall::fail(ATTN_FAULT);
    return cudaSuccess;
  }
  simt::tell(ATTN_REPORT_DEVICE, "cudaFree of %p, which is not of cudaMalloc, or has been freed", pointer);
  simt::HostCall::fail(ATTN_FAULT);
  return simt::remember(cudaErrorInvalidValue);
}
inline cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return cudaFree(pointer); }
inline cudaError_t cudaFreeHost(void* pointer) { return cudaFree(pointer); }

inline cudaError_t cudaMemset(void* pointer, int value, size_t bytes) {
  memset(pointer, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t = nullptr) {
  return cudaMemset(pointer, value, bytes);
}
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  memmove(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t = nullptr) {
  return cudaMemcpy(to, from, bytes, kind);
}
inline cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                size_t height, cudaMemcpyKind) {
  for (size_t row = 0; row < height; ++row)
    memmove(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                     size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t = nullptr) {
  return cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
}
template <class T>
inline cudaError_t cudaMemcpyToSymbol(T& symbol, const void* from, size_t bytes, size_t offset = 0,
                                      cudaMemcpyKind = cudaMemcpyHostToDevice) {
  memcpy(const_cast<char*>(reinterpret_cast<const volatile char*>(&symbol) + offset), from, bytes);
  return cudaSuccess;
}
template <class T>
inline cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                        cudaMemcpyKind = cudaMemcpyDeviceToHost) {
  memcpy(to, const_cast<const char*>(reinterpret_cast<const volatile char*>(&symbol) + offset), bytes);
  return cudaSuccess;
}
template <class T>
inline cudaError_t cudaMemcpyToSymbolAsync(T& symbol, const void* from, size_t bytes, size_t offset,
                                           cudaMemcpyKind kind, cudaStream_t = nullptr) {
  return cudaMemcpyToSymbol(symbol, from, bytes, offset, kind);
}
template <class T>
inline cudaError_t cudaMemcpyFromSymbolAsync(void* to, const T& symbol, size_t bytes, size_t offset,
                                             cudaMemcpyKind kind, cudaStream_t = nullptr) {
  return cudaMemcpyFromSymbol(to, symbol, bytes, offset, kind);
}
inline cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = size_t{1} << 34;
  return cudaSuccess;
}

// --- Streams, events, devices ---------------------------------------------------

enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };
enum { cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };

inline cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = new CUstream_st{++simt::host.streams};
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return cudaStreamCreate(stream);
}
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  return cudaStreamCreate(stream);
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return simt::host.last; }
inline cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned = 0) { return cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st{0};
  return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t = nullptr) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = 1.0f;  // the executor does not measure time
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return simt::host.last; }
inline cudaError_t cudaDeviceReset() { return cudaSuccess; }
inline cudaError_t cudaSetDevice(int device) {
  return simt::remember(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  *value = simt::attribute(which);
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = cudaDeviceProp();
  properties->major = simt::attribute(cudaDevAttrComputeCapabilityMajor);
  properties->minor = simt::attribute(cudaDevAttrComputeCapabilityMinor);
  properties->multiProcessorCount = simt::attribute(cudaDevAttrMultiProcessorCount);
  properties->sharedMemPerBlockOptin =
      static_cast<size_t>(simt::attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  properties->sharedMemPerMultiprocessor =
      static_cast<size_t>(simt::attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor));
  return cudaSuccess;
}

// --- Kernels -------------------------------------------------------------------

struct cudaFuncAttributes {
  size_t sharedSizeBytes = 0, constSizeBytes = 0, localSizeBytes = 0;
  int maxThreadsPerBlock = 1024, numRegs = 32, maxDynamicSharedSizeBytes = 48 * 1024;
};

namespace simt {

// A kernel that asked for more than 48 KiB of shared memory, and how much it asked for.
struct OptIn {
  const void* kernel;
  size_t bytes;
};
inline std::vector<OptIn>& opt_ins() {
  static std::vector<OptIn> all;
  return all;
}
// 0 if the kernel did not ask.
inline size_t opt_in_of(const void* kernel) {
  for (const OptIn& one : opt_ins()) {
    if (one.kernel == kernel) return one.bytes;
  }
  return 0;
}
// For a launch that does not show which instance of a template it is: the most that a kernel asked for.
inline size_t largest_opt_in() {
  size_t most = 0;
  for (const OptIn& one : opt_ins()) most = one.bytes > most ? one.bytes : most;
  return most;
}

}  // namespace simt

template <class F>
inline cudaError_t cudaFuncSetAttribute(F kernel, cudaFuncAttribute which, int value) {
  if (which != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  const void* address = reinterpret_cast<const void*>(kernel);
  const int fixed = static_cast<int>(simt::static_shared(address));
  if (value < 0 || value > simt::attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) - fixed)
    return simt::remember(cudaErrorInvalidValue);
  for (simt::OptIn& one : simt::opt_ins()) {
    if (one.kernel == address) {
      one.bytes = static_cast<size_t>(value);
      return cudaSuccess;
    }
  }
  simt::opt_ins().push_back({address, static_cast<size_t>(value)});
  return cudaSuccess;
}
template <class F>
inline cudaError_t cudaFuncSetCacheConfig(F, cudaFuncCache) {
  return cudaSuccess;
}
template <class F>
inline cudaError_t cudaFuncSetSharedMemConfig(F, cudaSharedMemConfig) {
  return cudaSuccess;
}
template <class F>
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, F kernel) {
  const void* address = reinterpret_cast<const void*>(kernel);
  *attributes = {};
  attributes->sharedSizeBytes = simt::static_shared(address);
  const size_t asked = simt::opt_in_of(address);
  attributes->maxDynamicSharedSizeBytes =
      static_cast<int>(asked > 0 ? asked : 48 * 1024 - attributes->sharedSizeBytes);
  return cudaSuccess;
}
template <class F>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, F, int threads, size_t) {
  *blocks = threads > 0 ? 2048 / threads : 1;
  return cudaSuccess;
}
template <class F>
inline cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, F, size_t = 0, int limit = 0) {
  *block = limit > 0 && limit < 256 ? limit : 256;
  *grid = simt::attribute(cudaDevAttrMultiProcessorCount);
  return cudaSuccess;
}
