#include "cli/entry.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/command.h"
#include "fuzz/host/subprocess.h"
#include "text/files.h"
#include "text/printable.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

// In the order of attn::Args.
constexpr std::string_view
    kTensors = "q, k, v, o, lse, ",
    kOthers =
        "B, H, Hkv, S, Sq, Sk, D, Dv, scale, causal, dtype, stream, pages, lengths, pages_each, pages_all";
// What the tensors of Args are called where a source's own kind of tensor has those names.
constexpr std::string_view kPointers = "q_of_a, k_of_a, v_of_a, o_of_a, lse_of_a, ";
constexpr std::string_view kTypes =
    "Tensor q, Tensor k, Tensor v, Tensor o, float* lse, int B, int H, int Hkv, int S, int Sq, int Sk, int D, "
    "int Dv, float scale, bool causal, attn_dtype dtype, cudaStream_t stream, const int* pages, const int* "
    "lengths, "
    "int pages_each, int pages_all";

bool names(const std::string& call, const std::string& name) {
  return std::regex_search(call, std::regex("(^|[^A-Za-z0-9_.>])" + name + "([^A-Za-z0-9_]|$)"));
}

std::string identifier(std::string stem) {
  for (char& c : stem) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return stem.empty() || std::isdigit(static_cast<unsigned char>(stem[0])) ? "k_" + stem : stem;
}

// "t.dim = one_of(32, 64);" of each statement.
std::string assignments(const std::string& takes) {
  std::string text;
  for (size_t begin = 0; begin < takes.size();) {
    const size_t end = std::min(takes.find(';', begin), takes.size());
    const size_t first = takes.find_first_not_of(" .", begin);
    if (first < end) text += "    t." + takes.substr(first, end - first) + ";\n";
    begin = end + 1;
  }
  return text;
}

// "o, lse = f(q)" as C++ has it; anything else as it is.
std::string statement(const std::string& call) {
  std::smatch parts;
  static const std::regex kBoth("\\s*o\\s*,\\s*lse\\s*=([^=].*)");
  return std::regex_match(call, parts, kBoth) ? "attn::take_both(o, lse, " + parts[1].str() + ")" : call;
}

std::string plug_in(const Entry& entry, const std::string& name) {
  const std::string call = statement(entry.call);
  const auto has = [&](const char* field) { return names(entry.call, field); };
  std::string deduced;
  if (has("S") && !has("Sq") && !has("Sk")) deduced += "    t.equal_lengths = true;\n";
  if (has("Dv")) deduced += "    t.equal_dims = false;\n";
  if (has("Hkv")) deduced += "    t.group = any_size();\n";
  if (has("causal")) deduced += "    t.causal = Causal::kEither;\n";
  if (has("lse")) deduced += "    t.lse = Lse::kWritten;\n";
  if (!has("scale")) deduced += "    t.scale = Scale::kOwn;\n";
  return "// Made by attnfuzz check " + fs::path(entry.source).filename().string() + " --entry '" + entry.call +
         "'\n#include \"" + fs::path(entry.source).filename().string() +
         "\"\n#include \"kernels/adapter/entry.h\"\n\n"
         "struct Entry {\n"
         "  static constexpr const char* kName = \"" +
         name +
         "\";\n"
         "  template <class Tensor>\n  static constexpr bool kCalls = requires(" +
         std::string(kTypes) + ") { " + call +
         "; };\n"
         "  static constexpr attn::Takes kTakes = [] {\n    using namespace attn;\n    Takes t;\n"
         "    t.format = entry_format<Entry>();\n" +
         deduced + assignments(entry.takes) +
         "    return t;\n  }();\n"
         "  static void run(const attn::Args& a) {\n#ifdef ATTN_HAS_TENSORS\n    const auto& [" +
         std::string(kPointers) + std::string(kOthers) +
         "] = a;\n    attn::with_tensors(a, kTakes, [&](auto& q, auto& k, auto& v, auto& o, auto& lse) { " +
         call + "; });\n#else\n    const auto& [" + std::string(kTensors) + std::string(kOthers) +
         "] = a;\n    " + call + ";\n#endif\n  }\n};\nATTN_ADAPTER(Entry)\n";
}

std::string project(const Entry& entry, const std::string& name, const fs::path& folder) {
  const std::string lanes = entry.lane.empty() || entry.lane == "plain" ? "plain" : "plain " + entry.lane;
  const std::string sources = fs::absolute(entry.source).parent_path().lexically_normal().string();
  std::string others;
  for (const std::string& include : entry.includes)
    others += " [==[" + fs::absolute(include).lexically_normal().string() + "]==]";
  return "cmake_minimum_required(VERSION 3.25)\nproject(" + name +
         " LANGUAGES CXX)\nfind_package(attnfuzz REQUIRED)\nattnfuzz_add_kernel(NAME " + name +
         " SOURCES plug_in.cu BACKENDS " + entry.backend + " LANES " + lanes + "\n  INCLUDES [==[" + sources +
         "]==]" + others + " ROOT [==[" + sources + "]==] DIRECTORY [==[" + fs::absolute(folder).string() +
         "]==])\n";
}

// Left alone where it is the same, so that nothing is built again.
void write_if_new(const fs::path& path, const std::string& text) {
  std::string before;
  if (fs::exists(path)) {
    const auto read = read_file(path);
    if (const auto* text_before = std::get_if<std::string>(&read)) before = *text_before;
  }
  if (before != text) write_file(path, text);
}

void run_or_say(const std::string& what, const std::vector<std::string>& command) {
  std::vector<std::string> words = {"sh", "-c", "exec \"$@\" 2>&1", "sh"};
  words.insert(words.end(), command.begin(), command.end());
  constexpr size_t kMost = 1 << 20, kShown = 4000;
  const Ran ran = run_program(words, {.take_output = true, .most = kMost});
  if (ran.status == 0) return;
  // The first error is the one to mend; without one, the end says most.
  const size_t error = ran.output.find("error:");
  const size_t from = error != std::string::npos ? ran.output.rfind('\n', error) + 1  // npos + 1 is 0
                                                 : ran.output.size() - std::min(ran.output.size(), kShown);
  std::fprintf(stderr, "%s\n", printable_lines(ran.output.substr(from, kShown)).c_str());
  throw UserError(what + " (" + describe_status(ran.status) + "): see above");
}

// Of a folder that CMake has not configured yet: Ninja where it is, for CMake's own choice is make, which a
// machine that has built attnfuzz need not have.
std::vector<std::string> generator(const fs::path& build) {
  if (std::getenv("CMAKE_GENERATOR") != nullptr || fs::exists(build / "CMakeCache.txt")) return {};
  if (run_program({"sh", "-c", "command -v ninja"}, {.take_output = true}).status != 0) return {};
  return {"-G", "Ninja"};
}

}  // namespace

bool is_cuda_source(const std::string& kernel) { return kernel.ends_with(".cu"); }

std::string build_entry(const Entry& entry, const std::string& folder) {
  if (entry.call.empty())
    throw UserError(
        entry.source +
        " is a source: say how its function is called, --entry 'launch(q, k, v, o, B, H, S, D)', or "
        "name a library");
  if (!fs::is_regular_file(entry.source)) throw UserError(entry.source + " is not there");
  if (entry.call.find_first_of("\n\\;") != std::string::npos ||
      entry.takes.find_first_of("\n\\") != std::string::npos)
    throw UserError("--entry is one call, as 'launch(q, k, v, o, B, H, S, D)', --takes one line");
  const fs::path prefix = program_folder().parent_path();
  if (!fs::exists(prefix / "lib/cmake/attnfuzz/attnfuzzConfig.cmake"))
    throw UserError("--entry builds with the CMake package of attnfuzz, which is not at " +
                    (prefix / "lib/cmake/attnfuzz").string() + ": install it with cmake --install");
  std::printf("%s: built for %s ...\n", entry.source.c_str(),
              entry.backend == "cuda" ? "CUDA" : "the CPU executor");
  std::fflush(stdout);
  const std::string name = identifier(fs::path(entry.source).stem());
  const fs::path at = fs::absolute(fs::path(folder) / (name + ".attnfuzz")).lexically_normal();
  fs::create_directories(at);
  write_if_new(at / "plug_in.cu", plug_in(entry, name));
  write_if_new(at / "CMakeLists.txt", project(entry, name, at));
  const fs::path build = at / "build";
  std::vector<std::string> configure = {"cmake", "-S", at, "-B", build, "-DCMAKE_CXX_COMPILER=clang++-19"};
  configure.push_back("-Dattnfuzz_DIR=" + (prefix / "lib/cmake/attnfuzz").string());
  configure.push_back(std::string("-DATTNFUZZ_CUDA=") + (entry.backend == "cuda" ? "ON" : "OFF"));
  for (std::string& word : generator(build)) configure.push_back(std::move(word));
  run_or_say("CMake cannot configure " + at.string(), configure);
  run_or_say(entry.source + " does not build as it is called in " + (at / "plug_in.cu").string(),
             {"cmake", "--build", build});
  return (fs::path(folder) / (name + ".attnfuzz") / ("libattn_" + name + "_" + entry.backend + ".so")).string();
}

}  // namespace attnfuzz
