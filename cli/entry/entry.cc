#include "cli/entry/entry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <variant>
#include <vector>

#include "base/files.h"
#include "base/hash.h"
#include "base/printable.h"
#include "base/subprocess.h"
#include "cli/entry/entry_project.h"
#include "cli/options/command.h"
#include "kernels/cuda_source/translate/tokens.h"
#include "kernels/cuda_source/translate/translate.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

std::string identifier(std::string stem) {
  for (char& c : stem) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return stem.empty() || std::isdigit(static_cast<unsigned char>(stem[0])) ? "k_" + stem : stem;
}

// The folder of the entry's project. Its name has a hash of what the user said: neither two sources with one
// file name nor two functions of a source may share a library, because replay lines name it.
fs::path project_folder(const Entry& entry, const std::string& folder) {
  const fs::path source = fs::absolute(entry.source).lexically_normal();
  std::string said = source.string() + '\n' + entry.call + '\n' + entry.takes;
  for (const std::string& include : header_folders(entry)) said += '\n' + include;
  const uint64_t hash = text_hash(said);
  return fs::path(folder) / fmt::format("{}-{:08x}.attnfuzz", identifier(source.stem()), hash & 0xffffffff);
}

// A kernel is launched, not called.
void expect_no_kernel_called(const Entry& entry) {
  if (entry.call.find("<<<") != std::string::npos) return;
  const std::vector<std::string> kernels = kernels_of({entry.source}, header_folders(entry));
  const std::vector<Token> tokens = tokens_of(entry.call);
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const std::string name(tokens[i].in(entry.call));
    const size_t open = entry.call.find('(', tokens[i].end);
    const char next = entry.call[tokens[i + 1].begin];
    if ((next != '(' && next != '<') || open == std::string::npos || !std::ranges::count(kernels, name))
      continue;
    throw UserError(name +
                    " is a __global__ function: say its launch, with the grid and the block that it is written "
                    "for, as in --entry '" +
                    entry.call.substr(0, open) + "<<<dim3((S + 127) / 128, B * H), 128>>>" +
                    entry.call.substr(open) + "'");
  }
}

// Throws UserError if the names in the call do not fit keys in pages with a block table.
void expect_pages_that_can_be_said(const Entry& entry) {
  constexpr const char* kOthers = "(key_lengths|page_size|pages_per_seq|num_pages)";
  if (!names_in_call(entry, "block_table")) {
    if (names_in_call(entry, kOthers))
      throw UserError(
          "key_lengths, page_size, pages_per_seq and num_pages are for a kernel of keys in pages: name "
          "block_table in the "
          "call");
    return;
  }
  if (!names_in_call(entry, "key_lengths"))
    throw UserError(
        "the call names block_table: name key_lengths as well, for each sequence has a number of keys");
  if (names_in_call(entry, "cu_k") || names_in_call(entry, "total_k"))
    throw UserError(
        "the call names block_table and cu_k: keys lie in pages or packed, and a kernel takes one of them");
  if (!names_in_call(entry, "page_size") && !sets(entry.takes, "page"))
    throw UserError(
        "the call names block_table: name page_size as well, or say how many keys a page has, as in --takes "
        "'page = 16'");
}

// Throws UserError if --takes has a statement that the call makes void.
void expect_takes_that_count(const Entry& entry) {
  const auto says = [&](const char* words) { return std::regex_search(entry.takes, std::regex(words)); };
  const bool one_dim =
      (!names_in_call(entry, "Dv") && !says("equal_dims\\s*=\\s*false")) || says("equal_dims\\s*=\\s*true");
  if (one_dim && sets(entry.takes, "dim_v"))
    throw UserError(
        "--takes 'dim_v = ...' is for a kernel whose V has a head dimension of its own. Without Dv in the call, "
        "dim is that of Q, K and V: name Dv in the call, or say --takes 'equal_dims = false'");
  const bool one_length =
      (names_in_call(entry, "S") && !names_in_call(entry, "S[qk]") && !says("equal_lengths\\s*=\\s*false")) ||
      says("equal_lengths\\s*=\\s*true");
  if (one_length && sets(entry.takes, "seq_k"))
    throw UserError(
        "--takes 'seq_k = ...' is for a kernel that takes more or fewer keys than queries. S in the call is the "
        "length of both: name Sq and Sk in the call instead of S, or say --takes 'equal_lengths = false'");
  if (sets(entry.takes, "align") && !names_in_call(entry, "(causal|window_left|window_right|slopes)") &&
      !sets(entry.takes, "(causal|window|slopes)"))
    throw UserError(
        "--takes 'align = ...' says where the diagonal of a causal mask, a window or slopes lies, and the call "
        "names none of them: name causal, window_left and window_right, or slopes in the call, or say "
        "--takes 'causal = Causal::kOnly'");
}

// Throws UserError if the call names one of two values, and the kernel cannot know the other.
void expect_both(const Entry& entry) {
  const auto says = [&](const char* words) { return std::regex_search(entry.takes, std::regex(words)); };
  if (names_in_call(entry, "S") && names_in_call(entry, "Sk") && !names_in_call(entry, "Sq") &&
      !says("equal_lengths\\s*=\\s*true"))
    throw UserError(
        "the call names S and Sk. S is then the number of keys, too: name Sq, the number of queries, instead "
        "of S");
  const bool left = names_in_call(entry, "window_left"), right = names_in_call(entry, "window_right");
  if (left && !right && !says("Causal::kOnly"))
    throw UserError(
        "the call names window_left alone, and windows have a right side, too: name window_right as well (-1: "
        "no "
        "limit), or say of a kernel that is always causal --takes 'causal = Causal::kOnly'");
  if (right && !left)
    throw UserError(
        "the call names window_right alone, and windows have a left side, too: name window_left as well (-1: "
        "no "
        "limit)");
}

// Throws UserError that names the part which the contract cannot express.
void expect_what_can_be_said(const Entry& entry) {
  const bool pages = names_in_call(entry, "pages"), table = names_in_call(entry, "block_table");
  if (sets(entry.takes, "window_(left|right)") ||
      std::regex_search(entry.takes, std::regex("window\\s*=\\s*[0-9]")))
    throw UserError(
        "--takes cannot say that a kernel has a window of its own: each problem says which window it has. Name "
        "the "
        "window in the call, --entry 'f(..., window_left, window_right)' (-1: no limit), or leave out the "
        "lengths "
        "that the window shortens, as in --takes 'seq = at_most(128)'");
  if (pages && !sets(entry.takes, "page"))
    throw UserError("the call names pages: say how many keys a page has, as in --takes 'page = 16'");
  const bool cu_q = names_in_call(entry, "cu_q"), cu_k = names_in_call(entry, "cu_k");
  expect_pages_that_can_be_said(entry);
  expect_both(entry);
  if (cu_q != cu_k && !table)
    throw UserError(std::string("the call names ") + (cu_q ? "cu_q" : "cu_k") + ": name " +
                    (cu_q ? "cu_k" : "cu_q") +
                    " as well, for each packed sequence has a number of queries and a number of keys");
  if (!cu_q && (names_in_call(entry, "total_[qk]") || sets(entry.takes, "packed")))
    throw UserError(
        "total_q, total_k and --takes 'packed = ...' are for a kernel of packed sequences: name cu_q and cu_k "
        "in the call");
  if (cu_q && (names_in_call(entry, "S") || sets(entry.takes, "equal_lengths")))
    throw UserError(
        "packed sequences have a number of queries and a number of keys each: name Sq and Sk, which no "
        "sequence exceeds, instead of S or equal_lengths");
  if (cu_q && pages) throw UserError("the call names pages and cu_q: a kernel takes one of them");
  if (sets(entry.takes, "page") && !pages && !table)
    throw UserError(
        "--takes 'page = ...' is for a kernel that takes a page table: name it in the call, --entry "
        "'f(q, k, v, o, block_table, pages_per_seq, key_lengths, ...)' (kernels/cuda_source/adapter/args.h "
        "says what "
        "they hold)");
}

// An unchanged file is not rewritten, so that nothing is built again.
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
  // Shows the first error, because it is the one to fix. If there is none, shows the end of the
  // output.
  const size_t error = ran.output.find("error:");
  const size_t from = error != std::string::npos ? ran.output.rfind('\n', error) + 1  // npos + 1 is 0
                                                 : ran.output.size() - std::min(ran.output.size(), kShown);
  std::fprintf(stderr, "%s\n", printable_lines(ran.output.substr(from, kShown)).c_str());
  throw UserError(what + " (" + describe_status(ran.status) + "): see above");
}

// The generator for a folder that CMake has not configured yet: Ninja if it is installed. CMake's
// default is make, which may be missing although attnfuzz was built here.
std::vector<std::string> generator(const fs::path& build) {
  if (std::getenv("CMAKE_GENERATOR") != nullptr || fs::exists(build / "CMakeCache.txt")) return {};
  if (run_program({"sh", "-c", "command -v ninja"}, {.take_output = true}).status != 0) return {};
  return {"-G", "Ninja"};
}

}  // namespace

bool is_cuda_source(const std::string& kernel) { return kernel.ends_with(".cu"); }

bool names_lengths(const std::string& call) {
  return names_in_call({.call = call}, "(S|Sq|Sk|pages|block_table|cu_q)");
}

bool sets(const std::string& takes, const std::string& field) {
  return std::regex_search(takes, std::regex("(^|;)[ .]*" + field + "\\s*="));
}

std::string library_path(const Entry& entry, const std::string& folder) {
  const std::string name = identifier(fs::path(entry.source).stem());
  return (project_folder(entry, folder) / ("libattn_" + name + "_" + entry.backend + ".so")).string();
}

void expect_entry(const Entry& entry) {
  if (entry.call.empty())
    throw UserError(
        entry.source +
        " is a source: say how its function is called, --entry 'launch(q, k, v, o, B, H, S, D)', or "
        "name a library");
  if (!fs::is_regular_file(entry.source)) throw UserError(entry.source + " is not there");
  expect_what_can_be_said(entry);
  expect_takes_that_count(entry);
  if (entry.call.find_first_of("\n\\;") != std::string::npos ||
      entry.takes.find_first_of("\n\\") != std::string::npos)
    throw UserError("--entry is one call, as 'launch(q, k, v, o, B, H, S, D)', --takes one line");
  expect_no_kernel_called(entry);
}

std::string build_entry(const Entry& entry, const Compiler& compiler, const std::string& folder) {
  expect_entry(entry);
  const fs::path prefix = program_folder().parent_path();
  if (!fs::exists(prefix / "lib/cmake/attnfuzz/attnfuzzConfig.cmake"))
    throw UserError("--entry builds with the CMake package of attnfuzz, which is not at " +
                    (prefix / "lib/cmake/attnfuzz").string() + ": install it with cmake --install");
  const std::string name = identifier(fs::path(entry.source).stem());
  const fs::path at = fs::absolute(project_folder(entry, folder)).lexically_normal();
  fs::create_directories(at);
  for (const auto& [file, text] : project_files(entry, name, at)) write_if_new(at / file, text);
  const fs::path build = at / "build";
  expect_build_by(compiler, build);
  std::vector<std::string> configure = {"cmake", "-S",  at,
                                        "-B",    build, "-DCMAKE_CXX_COMPILER=" + compiler.path};
  configure.push_back("-Dattnfuzz_DIR=" + (prefix / "lib/cmake/attnfuzz").string());
  configure.push_back(std::string("-DATTNFUZZ_CUDA=") + (entry.backend == "cuda" ? "ON" : "OFF"));
  for (std::string& word : generator(build)) configure.push_back(std::move(word));
  run_or_say("CMake cannot configure " + at.string(), configure);
  run_or_say(entry.source + " does not build as it is called in " + (at / "source.cu").string(),
             {"cmake", "--build", build});
  return library_path(entry, folder);
}

}  // namespace attnfuzz
