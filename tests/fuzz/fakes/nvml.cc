// A fake NVML with two GPUs: GPU 0 is busy 40 % and 60 % of the time in turn, GPU 1 always.
#include <cstdint>
#include <cstring>

extern "C" {

struct Utilization {
  unsigned gpu, memory;
};
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(static_cast<uintptr_t>(index + 1));
  return index < 2 ? 0 : 2;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  *device = reinterpret_cast<void*>(uintptr_t{2});
  return std::strcmp(uuid, "GPU-one") == 0 ? 0 : 6;
}
int nvmlDeviceGetUtilizationRates(void* device, Utilization* to) {
  static unsigned asked = 0;
  to->gpu = device == reinterpret_cast<void*>(uintptr_t{1}) ? (asked++ % 2 == 0 ? 40u : 60u) : 100u;
  return 0;
}
}
