// __shared__ arrays of plain CUDA code are thread_local variables of the module
// that holds the kernel (cuda.h). This finds that module's thread-local memory,
// to fill it with 0xFF at the start of each block.
//
// A module that also holds the executor is left alone: other libraries keep
// their state in the same memory there, and the executor its own.
#include <link.h>
#include <stdint.h>
#include <string.h>

#include "kernels/simt/block.h"

extern "C" void* __tls_get_addr(void* index);  // of the dynamic loader

namespace simt {
namespace {

struct Search {
  uintptr_t kernel;
  uintptr_t executor;
  Statics found;
};

bool holds(const dl_phdr_info& info, uintptr_t address) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& segment = info.dlpi_phdr[i];
    const uintptr_t begin = info.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address >= begin && address < begin + segment.p_memsz) return true;
  }
  return false;
}

int visit(dl_phdr_info* info, size_t, void* data) {
  Search& search = *static_cast<Search*>(data);
  if (!holds(*info, search.kernel)) return 0;
  if (holds(*info, search.executor)) return 1;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type == PT_TLS) {
      search.found = {info->dlpi_tls_modid, info->dlpi_phdr[i].p_memsz};
    }
  }
  return 1;
}

}  // namespace

Statics find_statics(const void* kernel) {
  Search search{reinterpret_cast<uintptr_t>(kernel), reinterpret_cast<uintptr_t>(&visit), {}};
  dl_iterate_phdr(visit, &search);
  return search.found;
}

void poison_statics(const Statics& statics) {
  if (!statics.module) return;
  // By way of the loader, which makes the memory where no thread has touched it yet.
  struct {
    unsigned long module, offset;
  } index{statics.module, 0};
  void* const memory = __tls_get_addr(&index);
  memset(memory, 0xFF, statics.bytes);
  sanitizer::undefine(memory, statics.bytes);
}

}  // namespace simt
