// __shared__ arrays of plain CUDA code are thread_local variables of the module
// that holds the kernel (cuda.h). This finds that module's thread-local memory,
// to fill it with 0xFF at the start of each block.
//
// A module that also holds the executor is left alone: other libraries keep
// their state in the same memory there, and the executor its own.
//
// nvcc gives a kernel 48 KiB of such arrays. Their sizes are in the module's table
// of symbols, by the function that they stand in; what is more is refused at launch.
#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <string>

#include "kernels/simt/threads/block.h"

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
      search.found = {info->dlpi_tls_modid, info->dlpi_phdr[i].p_memsz, info->dlpi_name};
    }
  }
  return 1;
}

}  // namespace

namespace {

// A file's bytes, read only.
class Mapped {
 public:
  explicit Mapped(const char* path) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (file < 0) return;
    if (fstat(file, &about) == 0 && about.st_size > 0) {
      bytes_ = static_cast<size_t>(about.st_size);
      void* mapped = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file, 0);
      begin_ = mapped == MAP_FAILED ? nullptr : static_cast<const char*>(mapped);
    }
    close(file);
  }
  ~Mapped() {
    if (begin_) munmap(const_cast<char*>(begin_), bytes_);
  }
  Mapped(const Mapped&) = delete;

  // `count` of T at `offset`; null where the file has not as many.
  template <class T>
  const T* at(size_t offset, size_t count = 1) const {
    if (!begin_ || offset > bytes_ || count > (bytes_ - offset) / sizeof(T)) return nullptr;
    return reinterpret_cast<const T*>(begin_ + offset);
  }

 private:
  const char* begin_ = nullptr;
  size_t bytes_ = 0;
};

// "kernel(float*)" of the array "kernel(float*)::tile"; an array of no function is its own.
std::string owner_of(const char* symbol) {
  int status = 0;
  char* const text = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  const std::string name = status == 0 ? text : symbol;
  free(text);
  const size_t end = name.rfind("::");
  return end != std::string::npos && end > 0 && name.find('(') < end ? name.substr(0, end) : name;
}

}  // namespace

bool beyond_static_shared(const char* module, size_t limit, char* words, size_t size) {
  const Mapped file(module);
  const auto* header = file.at<Elf64_Ehdr>(0);
  if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return false;
  const auto* sections = file.at<Elf64_Shdr>(header->e_shoff, header->e_shnum);
  std::map<std::string, size_t> sums;
  for (int i = 0; sections && i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= header->e_shnum) continue;
    const size_t count = sections[i].sh_size / sizeof(Elf64_Sym);
    const auto* symbols = file.at<Elf64_Sym>(sections[i].sh_offset, count);
    const Elf64_Shdr& strings = sections[sections[i].sh_link];
    for (size_t s = 0; symbols && s < count; ++s) {
      if (ELF64_ST_TYPE(symbols[s].st_info) != STT_TLS || symbols[s].st_name >= strings.sh_size) continue;
      if (const char* name = file.at<char>(strings.sh_offset + symbols[s].st_name))
        sums[owner_of(name)] += symbols[s].st_size;
    }
  }
  for (const auto& [owner, bytes] : sums) {
    if (bytes <= limit) continue;
    snprintf(words, size, "%.300s has %zu bytes of static shared memory: nvcc refuses more than %zu",
             owner.c_str(), bytes, limit);
    return true;
  }
  return false;
}

Statics find_statics(const void* kernel) {
  Search search{reinterpret_cast<uintptr_t>(kernel), reinterpret_cast<uintptr_t>(&visit), {}};
  dl_iterate_phdr(visit, &search);
  return search.found;
}

void poison_statics(Statics& statics) {
  if (!statics.module) return;
  // By way of the loader, which makes the memory where no thread has touched it yet.
  struct {
    unsigned long module, offset;
  } index{statics.module, 0};
  void* const memory = statics.memory = __tls_get_addr(&index);
  memset(memory, 0xFF, statics.bytes);
  sanitizer::undefine(memory, statics.bytes);
}

}  // namespace simt
