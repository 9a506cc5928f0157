#include "cli/entry/compiler.h"

#include <cstdlib>
#include <fstream>
#include <optional>

#include "base/subprocess.h"
#include "cli/options/command.h"
#include "fuzz/host/build_kinds.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

constexpr const char* kClangs =
    "clang++-19 clang++-20 clang++-21 clang++-18 clang++-17 clang++-16 clang++-15 clang++";
constexpr const char* kGnus = "g++ g++-15 g++-14 g++-13 g++-12";

// The first of `names`, each a shell command, with the right kind and version. A distribution's
// clang may lack a C++ library although g++ is complete, so a compiler that the user did not choose
// must find <version>.
std::optional<Compiler> first_of(const std::string& names, bool is_clang, bool is_named) {
  const std::string source = is_named ? "" : "echo '#include <version>' | ";
  const std::string macros =
      "$(" + source + "\"$c\" -std=c++20 -dM -E -x c++ " + (is_named ? "/dev/null" : "-") + " 2>/dev/null)";
  const std::string find =
      "for c in " + names + "; do m=" + macros +
      " || continue; clang=$(printf '%s\n' \"$m\" | sed -n 's/^#define __clang_major__ //p'); "
      "gnu=$(printf '%s\n' \"$m\" | sed -n 's/^#define __GNUC__ //p'); " +
      (is_clang ? "[ \"${clang:-0}\" -ge 15 ]" : "[ -z \"$clang\" ] && [ \"${gnu:-0}\" -ge 12 ]") +
      " && command -v \"$c\" && echo \"${clang:-$gnu}\" && exit 0; done; exit 1";
  const Ran ran = run_program({"sh", "-c", find}, {.take_output = true});
  const size_t end = ran.output.find('\n');
  if (ran.status != 0 || end == std::string::npos || end == 0) return std::nullopt;
  const std::string version = ran.output.substr(end + 1, ran.output.find('\n', end + 1) - end - 1);
  return Compiler{ran.output.substr(0, end), is_clang, version};
}

}  // namespace

Compiler compiler_of_this_machine(const std::string& build_kind) {
  const char* cxx = std::getenv("CXX");
  const bool is_named = cxx != nullptr && *cxx != '\0';
  if (const auto clang = first_of(is_named ? "$CXX" : kClangs, true, is_named)) return *clang;
  const auto gnu = first_of(is_named ? "$CXX" : kGnus, false, is_named);
  const BuildKind* wanted = find_build_kind(build_kind);
  if (gnu && wanted != nullptr && wanted->kind == BuildKind::kBuilt)
    throw UserError(
        "--build " + build_kind + " is built by clang 15 or later, and " + gnu->path +
        " builds plain alone, because the workers expect clang's instrumentation: install one (apt install "
        "clang-19), or name it, CXX=/path/to/clang++");
  if (gnu) return *gnu;
  throw UserError(
      std::string("--entry compiles with clang 15 or later (19 is tested), or with g++ 12 or later, and ") +
      (is_named ? "CXX=" + std::string(cxx) + " is neither: name one, or unset CXX"
                : "there is neither: install one (apt install clang-19, or g++), or name it, "
                  "CXX=/path/to/clang++"));
}

std::string describe(const Compiler& compiler) {
  return (compiler.is_clang ? "clang " : "g++ ") + compiler.version + " (" + compiler.path + ")";
}

void expect_build_by(const Compiler& compiler, const fs::path& build) {
  std::ifstream cache(build / "CMakeCache.txt");
  for (std::string line; std::getline(cache, line);) {
    if (!line.starts_with("CMAKE_CXX_COMPILER:")) continue;
    if (line.substr(line.find('=') + 1) != compiler.path) fs::remove_all(build);
    return;
  }
}

}  // namespace attnfuzz
