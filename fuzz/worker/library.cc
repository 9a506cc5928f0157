#include "fuzz/worker/library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/printable.h"
#include "fuzz/worker/elf_file.h"
#include "reference/call/backend.h"

namespace attnfuzz::worker {
namespace {

// More kernels than any library has. This stops at an attn_kernel_at() that ignores its index.
constexpr uint32_t kMaxKernels = 1024;

std::string size_error(const char* what, uint32_t has, uint32_t least) {
  return std::string(what) + ".size is " + std::to_string(has) + ", the first contract's was " +
         std::to_string(least) + ": set it to sizeof(" + what + ")";
}

// Reads the descriptor at `index`, of any version. Says why it cannot be used, or nothing.
std::string read(const attn_kernel& from, uint32_t index, attn_kernel& k) {
  const std::string where = "kernel " + std::to_string(index) + " of the library: ";
  if (!attn_read(&k, sizeof k, &from, ATTN_KERNEL_MIN))
    return where + size_error("attn_kernel", from.size, ATTN_KERNEL_MIN);
  if (k.abi != ATTN_ABI) {
    return where + "attn_kernel.abi is " + std::to_string(k.abi) + ", this program speaks " +
           std::to_string(ATTN_ABI) + ": rebuild the library with this program's kernels/attention.h";
  }
  if (!k.name || !*k.name) return where + "attn_kernel.name is missing";
  if (k.backend != ATTN_CPU && k.backend != ATTN_CUDA) {
    return where + "attn_kernel.backend is " + std::to_string(k.backend) + ", neither ATTN_CPU nor ATTN_CUDA";
  }
  if (!k.plan || !k.run)
    return where + "attn_kernel." + (k.plan ? "run" : "plan") + " is NULL; both are needed";
  if (!k.partials != !k.partial || !k.partials != !k.reduce) {
    return where + "either all of partials, partial and reduce must be given, or none";
  }
  if (k.variant_count > 0 && !k.variants)
    return where + "attn_kernel.variants is NULL, but variant_count is not 0";
  if (k.build && k.build->size < ATTN_BUILD_MIN) {
    return where + size_error("attn_build", k.build->size, ATTN_BUILD_MIN);
  }
  return "";
}

// Returns why kernels cannot be told apart by their names, or nothing. A name selects a kernel, and
// names its files and verdicts. If two kernels of one back end had the same name, the second would
// never run.
std::string ambiguous(const std::vector<attn_kernel>& kernels) {
  size_t bytes = 0;
  std::map<std::pair<std::string, int32_t>, size_t> first_of;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const attn_kernel& k = kernels[i];
    const auto [at, added] = first_of.emplace(std::pair{kernel_label(k.name), k.backend}, i);
    if (!added)
      return "kernels " + std::to_string(at->second) + " and " + std::to_string(i) +
             " of the library are both called " + kernel_label(k.name) + " (" + backend_name(k.backend) +
             "): give each a name of its own, or the second is never run";
    bytes += std::strlen(k.name) + (k.description ? std::strlen(k.description) : 0);
  }
  constexpr size_t kMostBytes = 128 << 10;
  if (bytes <= kMostBytes) return "";
  return "the names and descriptions of its kernels have " + std::to_string(bytes) + " bytes, at most " +
         std::to_string(kMostBytes) + " are allowed: make them shorter";
}

// Advice on a library that dlopen refused.
std::string advice(const std::string& why, attn_backend backend) {
  if (why.find("undefined symbol") == why.npos) return "";
  if (why.find("simt") != why.npos) {
    return backend == ATTN_CUDA ? " (the CPU executor's: this library was built for --backend cpu)"
                                : " (the CPU executor's: rebuild the library with this attnfuzz)";
  }
  const struct {
    const char *prefix, *build_kind;
  } sanitizers[] = {{"__asan", "asan"}, {"__ubsan", "asan"}, {"__msan", "msan"}, {"__tsan", "tsan"}};
  for (const auto& s : sanitizers) {
    if (why.find(s.prefix) != why.npos)
      return std::string(" (a sanitizer's: check this library with --build ") + s.build_kind + ")";
  }
  return " (link what defines it into the library)";
}

struct Segments {
  uint64_t inside, begin, end;
};

int find_segments(dl_phdr_info* info, size_t, void* data) {
  auto& s = *static_cast<Segments*>(data);
  uint64_t begin = ~uint64_t{0}, end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    begin = std::min<uint64_t>(begin, info->dlpi_addr + header.p_vaddr);
    end = std::max<uint64_t>(end, info->dlpi_addr + header.p_vaddr + header.p_memsz);
  }
  if (s.inside < begin || s.inside >= end) return 0;
  s.begin = begin;
  s.end = end;
  return 1;
}

}  // namespace

Library load(const std::string& path, const std::string& selector, attn_backend backend) {
  Library library;
  if (const std::string why = not_a_library(path); !why.empty()) {
    library.error = path + " " + why;
    return library;
  }
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = dlerror();
    library.error = "cannot load " + path + ": " + (why ? why + advice(why, backend) : "unknown reason");
    return library;
  }
  void* symbol = dlsym(handle, "attn_kernel_at");
  if (!symbol) {
    library.error = path + " does not export attn_kernel_at (see kernels/attention.h): it is no kernel library";
    return library;
  }
  Segments segments{reinterpret_cast<uint64_t>(symbol), 0, 0};
  dl_iterate_phdr(find_segments, &segments);
  library = choose(reinterpret_cast<const attn_kernel* (*)(uint32_t)>(symbol), path, selector, backend);
  library.begin = segments.begin;
  library.end = segments.end;
  return library;
}

Library choose(const attn_kernel* (*kernel_at)(uint32_t), const std::string& path, const std::string& selector,
               attn_backend backend) {
  Library library;
  const bool by_index = !selector.empty() && selector.find_first_not_of("0123456789") == std::string::npos;
  std::optional<attn_kernel> chosen, foreign;
  for (uint32_t i = 0; i < kMaxKernels; ++i) {
    const attn_kernel* from = kernel_at(i);
    if (!from) break;
    attn_kernel k;
    if (std::string why = read(*from, i, k); !why.empty()) {
      library.error = path + ": " + why;
      return library;
    }
    library.all.push_back(k);
    const bool wanted = selector.empty() || (by_index ? selector == std::to_string(i)
                                                      : selector == k.name || selector == kernel_label(k.name));
    if (!wanted) continue;
    std::optional<attn_kernel>& found = k.backend == backend ? chosen : foreign;
    if (!found) found = k;
  }
  if (library.all.size() == kMaxKernels && kernel_at(kMaxKernels)) {
    library.error = path + ": attn_kernel_at(" + std::to_string(kMaxKernels) +
                    ") is still not NULL: past its last kernel it must return NULL";
    return library;
  }
  if (library.all.empty()) {
    library.error = path + ": attn_kernel_at(0) is NULL: the library has no kernels";
    return library;
  }
  if (const std::string why = ambiguous(library.all); !why.empty()) {
    library.error = path + ": " + why;
    return library;
  }
  if (!chosen && !foreign) {
    library.error = path + " has no kernel '" + selector + "'; it has:";
    std::vector<std::string> names;
    for (const attn_kernel& k : library.all) library.error += " " + names.emplace_back(kernel_label(k.name));
    library.error += suggestion(selector, names);
    return library;
  }
  if (!chosen) {
    library.other_backend = true;
    library.error = path + ": kernel " + kernel_label(foreign->name) + " is of back end " +
                    backend_name(foreign->backend) + ", this worker of " + backend_name(backend) +
                    ": use --backend " + backend_name(foreign->backend);
    return library;
  }
  library.kernel = chosen;
  return library;
}

}  // namespace attnfuzz::worker
