// Calls an executor function that no worker has.
#include "tests/fuzz/fakes/fake.h"
extern "C" void function_that_nobody_defines();
extern "C" const attn_kernel* attn_kernel_at(uint32_t) {
  function_that_nobody_defines();
  return nullptr;
}
