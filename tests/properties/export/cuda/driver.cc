// A fake libcuda.so.1 on the host, with the functions that exported programs call. Names and
// arguments are those of cuda.h. The programs use managed memory, so host memory is enough.
#include <sys/mman.h>

#include <cstddef>

namespace {

int initialised, current, streams[2], created;
constexpr int kNotInitialised = 3, kInvalidValue = 1, kInvalidContext = 201;

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int cuInit(unsigned flags) {
  initialised = 1;
  return flags == 0 ? 0 : kInvalidValue;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = 0;
  return !initialised ? kNotInitialised : ordinal == 0 ? 0 : 101;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &current;
  return initialised ? 0 : kNotInitialised;
}
int cuCtxSetCurrent(void* context) {
  current = context == &current;
  return current ? 0 : kInvalidContext;
}
int cuStreamCreate(void** stream, unsigned flags) {
  if (!current) return kInvalidContext;
  *stream = &streams[created++ % 2];
  return flags <= 1 ? 0 : kInvalidValue;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? 8 : attribute == 76 ? 0 : attribute == 97 ? 166912 : -1;
  return *value < 0 ? kInvalidValue : 0;
}
int cuMemAllocManaged(unsigned long long* pointer, size_t bytes, unsigned flags) {
  if (!current) return kInvalidContext;
  if (bytes == 0 || flags != 1) return kInvalidValue;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *pointer = reinterpret_cast<unsigned long long>(p);
  return p == MAP_FAILED ? 2 : 0;
}
int cuCtxSynchronize() { return current ? 0 : kInvalidContext; }
}
#pragma GCC visibility pop
