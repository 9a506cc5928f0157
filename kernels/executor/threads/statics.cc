// __shared__ arrays of plain CUDA code are thread_local variables of the module that holds the kernel. This
// file finds the thread-local memory of that module and fills it with 0xFF at the start of each block.
//
// The loader keeps that memory on the heap, where a write past an array's end could cause any failure, much
// later. So the memory is moved to pages of its own, with redzones that are checked when a block ends and
// inaccessible pages around them. Builds for a sanitizer leave it where it is: AddressSanitizer watches the
// heap itself.
//
// A module that also holds the executor is left alone: other libraries and the executor keep their state in the
// same memory.
//
// nvcc allows a kernel 48 KiB of static arrays. A launch of a kernel with more is refused. The arrays' sizes
// and functions are in the module's symbol table.
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

#include "kernels/executor/threads/block.h"

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

  // `count` objects of type T at `offset`; null if the file is too short.
  template <class T>
  const T* at(size_t offset, size_t count = 1) const {
    if (!begin_ || offset > bytes_ || count > (bytes_ - offset) / sizeof(T)) return nullptr;
    return reinterpret_cast<const T*>(begin_ + offset);
  }

 private:
  const char* begin_ = nullptr;
  size_t bytes_ = 0;
};

// The function of an array: "kernel(float*)" for "kernel(float*)::tile". For an array outside of functions it
// is the array itself.
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

namespace {

// Asks the loader, which allocates the memory if this thread has not touched it yet.
void* memory_of(size_t module) {
  struct {
    unsigned long module, offset;
  } index{module, 0};
  return __tls_get_addr(&index);
}

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(SIMT_BUILD_ASAN) && !defined(SIMT_BUILD_MSAN) && \
    !defined(SIMT_BUILD_TSAN)

constexpr size_t kPage = 4096, kZone = 1024, kOutOfBounds = 16 * kPage;

// 0xFFE1 is a NaN in fp16 and bf16, and twice in a row in fp32. The poison of arrays is another NaN.
constexpr uint64_t kPattern = 0xFFE1FFE1FFE1FFE1;

// glibc's entry of a module in the vector that the thread's control block points to.
struct ThreadMemory {
  void* value;
  void* to_free;  // null if the memory is as old as the thread: code may then address it by a fixed offset
};

// The address to which a module's arrays were moved, for this OS thread; null if they were not moved.
std::map<size_t, unsigned char*>& fenced() {
  static thread_local std::map<size_t, unsigned char*> places;
  return places;
}

void draw_zones(unsigned char* arrays, size_t bytes) {
  for (unsigned char* zone : {arrays - kZone, arrays + bytes}) {
    for (size_t at = 0; at < kZone; at += sizeof kPattern) memcpy(zone + at, &kPattern, sizeof kPattern);
  }
}

void fence(size_t module, size_t bytes) {
  void* const old = memory_of(module);
  ThreadMemory* vector;
  asm("movq %%fs:8, %0" : "=r"(vector));
  if (vector[module].value != old || vector[module].to_free == nullptr) return;
  const size_t open = kPage + (bytes + kZone + kPage - 1) / kPage * kPage;
  void* const mapped = mmap(nullptr, open + 2 * kOutOfBounds, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return;
  unsigned char* const first = static_cast<unsigned char*>(mapped) + kOutOfBounds;
  unsigned char* const arrays = first + kPage;
  if (mprotect(first, open, PROT_READ | PROT_WRITE) != 0) return;
  memcpy(arrays, old, bytes);
  vector[module].value = arrays;
  if (memory_of(module) != arrays) {
    vector[module].value = old;
    return;
  }
  draw_zones(arrays, bytes);
  fenced()[module] = arrays;
}

void put_apart(size_t module, size_t bytes) {
  if (fenced().emplace(module, nullptr).second) fence(module, bytes);
}

bool changed(const unsigned char* zone, size_t at) {
  return zone[at] != reinterpret_cast<const unsigned char*>(&kPattern)[at % sizeof kPattern];
}

bool changed(const unsigned char* zone) {
  uint64_t differs = 0, word;
  for (size_t at = 0; at < kZone; at += sizeof word) {
    memcpy(&word, zone + at, sizeof word);
    differs |= word ^ kPattern;
  }
  return differs != 0;
}

// Reports writes of a block to the redzones around the module's arrays.
void check_zones(Block& b, const Statics& statics) {
  const auto found = fenced().find(statics.module);
  if (found == fenced().end() || !found->second) return;
  const unsigned char *const before = found->second - kZone, *const behind = found->second + statics.bytes;
  constexpr const char* kWords =
      "a write %zu bytes %s the static __shared__ arrays, found when the block ended";
  size_t at = 0;
  if (changed(behind)) {
    while (!changed(behind, at)) ++at;
    record_fault(b, ATTN_REPORT_SHARED, {0, 0, 0}, {nullptr, 0}, kWords, at, "past the end of");
  } else if (changed(before)) {
    while (!changed(before, kZone - ++at)) {
    }
    record_fault(b, ATTN_REPORT_SHARED, {0, 0, 0}, {nullptr, 0}, kWords, at, "before");
  } else {
    return;
  }
  draw_zones(found->second, statics.bytes);
}

#else

void put_apart(size_t, size_t) {}
void check_zones(Block&, const Statics&) {}

#endif

}  // namespace

void poison_statics(Statics& statics) {
  if (!statics.module) return;
  put_apart(statics.module, statics.bytes);
  void* const memory = statics.memory = memory_of(statics.module);
  memset(memory, 0xFF, statics.bytes);
  sanitizer::undefine(memory, statics.bytes);
}

void check_statics(Block& b, const Statics& statics) {
  if (statics.module) check_zones(b, statics);
}

}  // namespace simt
