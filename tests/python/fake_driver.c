/* Stands for libcuda.so.1: it works in the process that initialised it, and in no process that is forked from that. */
#include <unistd.h>

static pid_t initialised_in;

int cuInit(unsigned flags) {
  initialised_in = getpid();
  return flags == 0 ? 0 : 1;
}

int cuDeviceGetCount(int* count) {
  *count = 1;
  return initialised_in == getpid() ? 0 : 3; /* CUDA_ERROR_NOT_INITIALIZED */
}
