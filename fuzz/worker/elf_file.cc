#include "fuzz/worker/elf_file.h"

#include <elf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace attnfuzz::worker {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
#error "which e_machine is this?"
#endif

std::string machine_name(uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "aarch64";
    case EM_386:
      return "x86 (32 bits)";
    case EM_ARM:
      return "arm (32 bits)";
    case EM_PPC64:
      return "ppc64";
    case EM_RISCV:
      return "riscv";
    case EM_CUDA:
      return "CUDA devices (a cubin)";
    default:
      return "machine " + std::to_string(machine);
  }
}

std::string type_name(uint16_t type) {
  switch (type) {
    case ET_REL:
      return "an object file";
    case ET_EXEC:
      return "a program";
    case ET_CORE:
      return "a core file";
    default:
      return "an ELF file of type " + std::to_string(type);
  }
}

}  // namespace

std::string not_a_library(const std::string& path) {
  if (path.find('/') == path.npos) return "";
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return "is a folder";
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::string("cannot be read: ") + std::strerror(errno);
  char bytes[sizeof(Elf64_Ehdr)] = {};
  in.read(bytes, sizeof bytes);
  const std::string_view start(bytes, static_cast<size_t>(in.gcount()));
  if (start.empty()) return "is empty";
  if (start.starts_with("!<arch>\n")) {
    return "is a static library: link it into a shared one (-shared -Wl,--whole-archive)";
  }
  if (!start.starts_with(ELFMAG)) {
    const bool text =
        std::ranges::none_of(start, [](unsigned char c) { return c < ' ' && !std::strchr("\t\n\r\f", c); });
    return std::string(text ? "is a text file" : "is no ELF file") + ", not a shared library";
  }
  Elf64_Ehdr header;
  std::memcpy(&header, bytes, sizeof header);
  if (start.size() < sizeof header) return "is cut off: it ends within its ELF header";
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachine) {
    return "is built for " + machine_name(header.e_machine) + ", this machine is " + machine_name(kMachine);
  }
  if (header.e_type != ET_DYN)
    return "is " + type_name(header.e_type) + ", not a shared library: link it with -shared";
  return "";
}

}  // namespace attnfuzz::worker
