#include "cli/entry/entry_project.h"

#include <filesystem>
#include <regex>
#include <string_view>

namespace attnfuzz {

namespace fs = std::filesystem;

bool names_in_call(const Entry& entry, const std::string& field) {
  return std::regex_search(entry.call, std::regex("(^|[^A-Za-z0-9_.>])" + field + "([^A-Za-z0-9_]|$)"));
}

std::vector<std::string> header_folders(const Entry& entry) {
  std::vector<std::string> folders = {fs::absolute(entry.source).parent_path().lexically_normal().string()};
  for (const std::string& include : entry.includes)
    folders.push_back(fs::absolute(include).lexically_normal().string());
  return folders;
}

namespace {

// Fields of attn_entry::Args, as parameters.
struct Field {
  const char *type, *name;
};
constexpr Field kTensors[] = {
    {"Tensor", "q"}, {"Tensor", "k"}, {"Tensor", "v"}, {"Tensor", "o"}, {"float*", "lse"}};
constexpr Field kOthers[] = {{"int", "B"},
                             {"int", "H"},
                             {"int", "Hkv"},
                             {"int", "S"},
                             {"int", "Sq"},
                             {"int", "Sk"},
                             {"int", "D"},
                             {"int", "Dv"},
                             {"float", "scale"},
                             {"bool", "causal"},
                             {"int", "window_left"},
                             {"int", "window_right"},
                             {"int", "dtype"},
                             {"cudaStream_t", "stream"},
                             {"const int*", "pages"},
                             {"const int*", "lengths"},
                             {"int", "page"},
                             {"int", "pages_each"},
                             {"int", "pages_all"},
                             {"const int*", "block_table"},
                             {"const int*", "key_lengths"},
                             {"int", "page_size"},
                             {"int", "pages_per_seq"},
                             {"int", "num_pages"},
                             {"const float*", "sink"},
                             {"const float*", "slopes"},
                             {"int", "slopes_each"},
                             {"const int*", "cu_q"},
                             {"const int*", "cu_k"},
                             {"int", "total_q"},
                             {"int", "total_k"}};

// Returns an #error for a PyTorch extension: our stand-ins for PyTorch's tensors always have four dimensions.
std::string no_tensors(const std::string& words) {
  return "#ifdef ATTN_HAS_TENSORS\n#error \"--entry: a PyTorch extension cannot be called with " + words +
         "\"\n#endif\n";
}

// Returns one line, "t.dim = one_of(32, 64);", for each statement of --takes.
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

// Translates "o, lse = f(q)" to C++; any other call stays as it is.
std::string statement(const std::string& call) {
  std::smatch parts;
  static const std::regex kBoth("\\s*o\\s*,\\s*lse\\s*=([^=].*)");
  return std::regex_match(call, parts, kBoth) ? "attn_entry::take_both(o, lse, " + parts[1].str() + ")" : call;
}

std::string made_by(const Entry& entry) {
  return "// Made by attnfuzz check " + fs::path(entry.source).filename().string() + " --entry '" + entry.call +
         "'\n";
}

// Returns the adapter, which says what the kernel takes.
std::string plug_in(const Entry& entry, const std::string& name) {
  const auto has = [&](const char* field) { return names_in_call(entry, field); };
  std::string deduced;
  if (has("S") && !has("Sq") && !has("Sk")) deduced += "    t.equal_lengths = true;\n";
  if (has("Dv")) deduced += "    t.equal_dims = false;\n";
  if (has("Hkv")) deduced += "    t.group = any_size();\n";
  if (has("causal")) deduced += "    t.causal = Causal::kEither;\n";
  if (has("window_left") || has("window_right")) deduced += "    t.window = Window::kGiven;\n";
  if (has("sink")) deduced += "    t.sink = true;\n";
  if (has("slopes"))
    deduced += has("slopes_each") ? "    t.slopes = Slopes::kOfEntries;\n" : "    t.slopes = Slopes::kOfHeads;\n";
  if (has("cu_q")) deduced += "    t.packed = true;\n";
  if (has("block_table")) deduced += "    t.page = kAnyPage;\n";  // --takes 'page = 16' comes after it
  if (has("lse")) deduced += "    t.lse = Lse::kWritten;\n";
  if (!has("scale")) deduced += "    t.scale = Scale::kOwn;\n";
  return made_by(entry) +
         "#include \"kernels/cuda_source/adapter/entry.h\"\n\n"
         "struct Entry {\n"
         "  static constexpr const char* kName = \"" +
         name +
         "\";\n"
         "  static constexpr attn::Takes kTakes = [] {\n    using namespace attn;\n    Takes t;\n"
         "    t.format = Formats::kOfFunction;\n" +
         deduced + assignments(entry.takes) + assignments(entry.found) +
         "    return t;\n  }();\n"
         "  static attn::Formats format() { return attn::entry_formats(); }\n"
         "  static void run(const attn::Args& a) { attn::call_entry(a); }\n};\nATTN_ADAPTER(Entry)\n";
}

// The user's source, and two functions that the adapter calls. The header source.h comes before the source, and
// declares everything that the two functions use, except the names in the call.
std::string apart(const Entry& entry) {
  const std::string call = statement(entry.call);
  std::string undefined, tensors, parameters, arguments, others;
  for (const Field& field : kTensors) {
    const std::string name = field.name;
    undefined += "#undef " + name + "\n";
    parameters +=
        (parameters.empty() ? "" : ", ") +
        (field.type == std::string_view("Tensor") ? "attn_entry::Only<attn_T>" : std::string(field.type)) +
        " " + name;
    arguments += (arguments.empty() ? "auto& " : ", auto& ") + name;
    tensors += "  [[maybe_unused]] const auto& " + name + " = attn_a." + name + ";\n";
  }
  for (const Field& field : kOthers) {
    if (!names_in_call(entry, field.name)) continue;
    const std::string name = field.name;
    undefined += "#undef " + name + "\n";
    parameters += std::string(", ") + field.type + " " + name;
    others += "  const auto& " + name + " = attn_a." + name + ";\n";
  }
  return made_by(entry) + "#include \"kernels/cuda_source/adapter/source.h\"\n\n#include \"" +
         fs::path(entry.source).filename().string() + "\"\n\n" +
         (names_in_call(entry, "cu_q") ? no_tensors("cu_q and cu_k") : "") +
         (names_in_call(entry, "block_table") ? no_tensors("block_table") : "") + undefined +
         "template <class attn_T>\nconsteval int attn_takes() {\n  return requires(" + parameters + ") { " +
         call +
         "; };\n}\n"
         "extern \"C\" int attn_entry_formats() {\n"
         "  return attn_takes<attn_entry::F16>() + 2 * attn_takes<attn_entry::Bf16>() + 4 * "
         "attn_takes<float>();\n}\n"
         "extern \"C\" void attn_entry_call(const attn_entry::Args& attn_a) {\n" +
         others + "#ifdef ATTN_HAS_TENSORS\n  simt::with_tensors(attn_a, [&](" + arguments + ") { " + call +
         "; });\n#else\n" + tensors + "  " + call + ";\n#endif\n}\n";
}

std::string project(const Entry& entry, const std::string& name, const fs::path& folder) {
  const std::string builds =
      entry.build_kind.empty() || entry.build_kind == "plain" ? "plain" : "plain " + entry.build_kind;
  std::string includes;
  for (const std::string& one : header_folders(entry)) includes += "\n  [==[" + one + "]==]";
  return "cmake_minimum_required(VERSION 3.25)\nproject(" + name +
         " LANGUAGES CXX)\nfind_package(attnfuzz REQUIRED)\nattnfuzz_add_kernel(NAME " + name +
         " SOURCES plug_in.cu source.cu APART source.cu BACKENDS " + entry.backend + " BUILDS " + builds +
         "\n  INCLUDES" + includes + "\n  ROOT [==[" + header_folders(entry).front() + "]==] DIRECTORY [==[" +
         fs::absolute(folder).string() + "]==])\n";
}

}  // namespace

std::map<std::string, std::string> project_files(const Entry& entry, const std::string& name,
                                                 const fs::path& folder) {
  return {{"plug_in.cu", plug_in(entry, name)},
          {"source.cu", apart(entry)},
          {"CMakeLists.txt", project(entry, name, folder)}};
}

}  // namespace attnfuzz
