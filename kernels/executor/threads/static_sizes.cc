// Counts the bytes of static __shared__ arrays that a kernel has. nvcc allows 48 KiB in all, and a launch may
// have that much of static and dynamic shared memory together, or what the kernel asked for with
// cudaFuncSetAttribute.
//
// nvcc counts the arrays of the kernel and of all functions that it may call. The module's symbol table has the
// arrays, their sizes and their functions, but not who calls whom. So the arrays in the kernel itself count,
// and an array of another function counts once a block of the launch has written it.
#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "kernels/executor/threads/block.h"

namespace simt {
namespace {

constexpr size_t kStaticShared = 48 * 1024;

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

// A function by its address in the module, or an array by its place in the module's thread-local memory.
struct Symbol {
  std::string name;
  uintptr_t at;
  size_t bytes;
};

struct Symbols {
  std::vector<Symbol> functions, arrays;
};

Symbols read_symbols(const char* path) {
  Symbols result;
  const Mapped file(path);
  const auto* header = file.at<Elf64_Ehdr>(0);
  if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return result;
  const auto* sections = file.at<Elf64_Shdr>(header->e_shoff, header->e_shnum);
  for (int i = 0; sections && i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= header->e_shnum) continue;
    const size_t count = sections[i].sh_size / sizeof(Elf64_Sym);
    const auto* symbols = file.at<Elf64_Sym>(sections[i].sh_offset, count);
    const Elf64_Shdr& strings = sections[sections[i].sh_link];
    for (size_t s = 0; symbols && s < count; ++s) {
      const auto type = ELF64_ST_TYPE(symbols[s].st_info);
      if ((type != STT_TLS && type != STT_FUNC) || symbols[s].st_size == 0) continue;
      if (symbols[s].st_name >= strings.sh_size) continue;
      const char* name = file.at<char>(strings.sh_offset + symbols[s].st_name);
      if (name)
        (type == STT_TLS ? result.arrays : result.functions)
            .push_back({name, symbols[s].st_value, symbols[s].st_size});
    }
  }
  return result;
}

const Symbols& symbols_of(const char* path) {
  static std::map<std::string, Symbols> known;
  const auto [found, is_new] = known.try_emplace(path);
  if (is_new) found->second = read_symbols(path);
  return found->second;
}

// Returns a text that the symbol of each array in the kernel contains. The symbol's C++ encoding is Z <encoding
// of the function> E <encoding of the array>. The text is empty if the kernel's symbol is not known.
const std::string& mark_of(const Statics& statics, const void* kernel) {
  static std::map<const void*, std::string> known;
  const auto [found, is_new] = known.try_emplace(kernel);
  if (!is_new) return found->second;
  const uintptr_t at = reinterpret_cast<uintptr_t>(kernel) - statics.base;
  for (const Symbol& function : symbols_of(statics.path).functions) {
    if (at < function.at || at - function.at >= function.bytes) continue;
    const std::string& name = function.name;
    found->second = "Z" + (name.starts_with("_Z") ? name.substr(2) : std::to_string(name.size()) + name) + "E";
    break;
  }
  return found->second;
}

bool is_written(const Statics& statics, const Symbol& array) {
  if (!statics.memory || array.at + array.bytes > statics.bytes) return false;
  const auto* bytes = static_cast<const unsigned char*>(statics.memory) + array.at;
  return std::any_of(bytes, bytes + array.bytes, [](unsigned char byte) { return byte != 0xFF; });
}

// `reached`: with the arrays of other functions that a block has written.
size_t static_bytes(const Statics& statics, const void* kernel, bool reached) {
  const std::string& mark = mark_of(statics, kernel);
  size_t sum = 0;
  for (const Symbol& array : symbols_of(statics.path).arrays) {
    const bool own = !mark.empty() && array.name.find(mark) != std::string::npos;
    if (own || (reached && is_written(statics, array))) sum += array.bytes;
  }
  return sum;
}

// Names a function with more static arrays than nvcc allows, if the module has one.
void check_functions(Block& b, const Statics& statics) {
  std::map<std::string, size_t> sums;
  for (const Symbol& array : symbols_of(statics.path).arrays) sums[owner_of(array.name.c_str())] += array.bytes;
  for (const auto& [owner, bytes] : sums) {
    if (bytes <= kStaticShared) continue;
    record_fault(b, ATTN_REPORT_LAUNCH, {0, 0, 0}, {nullptr, 0},
                 "%.300s has %zu bytes of static shared memory: nvcc refuses more than %zu", owner.c_str(),
                 bytes, kStaticShared);
    return;
  }
}

}  // namespace

size_t static_shared(const void* kernel) {
  const Statics statics = find_statics(kernel);
  return statics.module ? static_bytes(statics, kernel, false) : 0;
}

void check_static_sizes(Block& b, const Statics& statics, bool reached) {
  if (statics.bytes > kStaticShared && statics.module != b.statics_checked) {
    check_functions(b, statics);
    if (b.fault.set) return;
    b.statics_checked = statics.module;
  }
  const Launch& launch = *b.launch;
  const size_t bytes = static_bytes(statics, launch.kernel, reached), whole = bytes + launch.shared_bytes;
  const auto limit = static_cast<size_t>(std::max<int64_t>(launch.env->shared_memory_limit, kStaticShared));
  if (bytes > kStaticShared) {
    record_fault(
        b, ATTN_REPORT_LAUNCH, {0, 0, 0}, {nullptr, 0},
        "the kernel and the functions that it calls have %zu bytes of static shared memory: nvcc refuses more "
        "than %zu",
        bytes, kStaticShared);
  } else if (bytes > 0 && whole > (launch.opted_in ? limit : kStaticShared)) {
    record_fault(b, ATTN_REPORT_LAUNCH, {0, 0, 0}, {nullptr, 0},
                 "%zu bytes of shared memory, of which %zu are static: %s %zu", whole, bytes,
                 launch.opted_in ? "a block may have" : "without cudaFuncSetAttribute a block may have",
                 launch.opted_in ? limit : kStaticShared);
    if (whole > limit) b.fault.shared_bytes = static_cast<int32_t>(std::min<size_t>(whole, INT32_MAX));
  }
}

bool may_exceed_static_sizes(const Statics& statics, const Launch& launch) {
  return statics.module && statics.bytes + launch.shared_bytes > kStaticShared;
}

}  // namespace simt
