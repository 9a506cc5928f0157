#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "base/mirror.h"
#include "kernels/cuda_source/translate/tokens.h"
#include "kernels/cuda_source/translate/translate.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

void write_if_new(const fs::path& path, const std::string& text) {
  if (read(path) == text) return;
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.flush();
  if (!out) throw std::runtime_error("cannot write " + path.string());
}

// True for a file that a compiler might read.
bool is_source_name(const std::string& name) {
  static const std::set<std::string> kExtensions = {".h",   ".hh", ".hpp", ".hxx", ".cuh", ".cu",
                                                    ".inl", ".cc", ".cpp", ".inc", ".ipp"};
  return kExtensions.contains(fs::path(name).extension().string());
}

// The files that a text includes.
struct Includes {
  std::vector<std::string> names;    // in quotes or in angles
  std::vector<std::string> defined;  // names of files in definitions: #define IMPL "impl.cuh"
  bool by_macro = false;             // #include IMPL
};

Includes includes_of(const std::string& text) {
  Includes result;
  const std::vector<Token> tokens = tokens_of(text);
  bool definition = false;
  for (size_t i = 2; i < tokens.size(); ++i) {
    if (!tokens[i].directive) continue;
    const bool first = tokens[i - 2].in(text) == "#";
    if (first) definition = tokens[i - 1].in(text) == "define";
    const bool included = first && tokens[i - 1].in(text) == "include";
    if (included && tokens[i].kind == Token::kName) result.by_macro = true;
    const char open = text[tokens[i].begin];
    if ((!included || open != '<') && open != '"') continue;
    const size_t begin = tokens[i].begin + 1, end = text.find(open == '<' ? '>' : '"', begin);
    if (end == std::string::npos) continue;
    const std::string name = text.substr(begin, end - begin);
    if (included) result.names.push_back(name);
    if (definition && is_source_name(name)) result.defined.push_back(name);
  }
  return result;
}

// The texts of `sources`, and of the files that they include from their own folders and from `folders`. With
// `by_macro`, also those that their macros name.
std::map<std::string, std::string> read_all(const std::vector<std::string>& sources,
                                            const std::vector<std::string>& folders, bool by_macro = false) {
  std::map<std::string, std::string> texts;
  bool asks_for_macros = false;
  std::vector<fs::path> queue;
  for (const std::string& source : sources) {
    if (!read(source)) throw std::runtime_error("cannot read " + source);
    queue.push_back(fs::absolute(source).lexically_normal());
  }
  while (!queue.empty()) {
    const fs::path path = queue.back();
    queue.pop_back();
    if (texts.contains(path.string())) continue;
    std::optional<std::string> text = read(path);
    if (!text) continue;
    if (text->starts_with("\xEF\xBB\xBF")) text->erase(0, 3);  // the mark of UTF-8 hides a first #include
    Includes found = includes_of(*text);
    asks_for_macros |= found.by_macro;
    if (by_macro) found.names.insert(found.names.end(), found.defined.begin(), found.defined.end());
    texts[path.string()] = *std::move(text);
    for (const std::string& name : found.names) {
      std::vector<fs::path> places = {path.parent_path()};
      places.insert(places.end(), folders.begin(), folders.end());
      for (const fs::path& place : places) {
        const fs::path file = fs::absolute(place / name).lexically_normal();
        if (!fs::is_regular_file(file)) continue;
        queue.push_back(file);
        break;
      }
    }
  }
  return asks_for_macros && !by_macro ? read_all(sources, folders, true) : texts;
}

std::string json_string(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

}  // namespace

std::map<std::string, std::string> translate_all(const std::vector<std::string>& sources,
                                                 const std::vector<std::string>& folders) {
  std::map<std::string, std::string> translated;
  for (const auto& [path, text] : read_all(sources, folders)) translated[path] = translate(text, path);
  return translated;
}

std::vector<std::string> kernels_of(const std::vector<std::string>& sources,
                                    const std::vector<std::string>& folders) {
  std::vector<std::string> names;
  for (const auto& [path, text] : read_all(sources, folders)) {
    const std::vector<Token> tokens = tokens_of(text);
    bool wanted = false;  // after __global__, until the function's name
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const std::string_view word = tokens[i].in(text);
      if (word == "__global__") wanted = true;
      if (word == ";" || word == "{") wanted = false;
      const bool attribute = word.starts_with("__") && word.ends_with("__");  // __launch_bounds__(128)
      if (!wanted || attribute || tokens[i].kind != Token::kName || tokens[i + 1].in(text) != "(") continue;
      names.emplace_back(word);
      wanted = false;
    }
  }
  return names;
}

std::string write_overlay(const std::map<std::string, std::string>& translated, const std::string& directory) {
  fs::create_directories(directory);
  std::string roots;
  int number = 0;
  for (const auto& [path, text] : translated) {
    if (read(path) == text) continue;
    const fs::path copy =
        fs::absolute(directory) / (std::to_string(number++) + "." + fs::path(path).filename().string());
    write_if_new(copy, text);
    roots += std::string(roots.empty() ? "" : ",\n") +
             "    {\"type\": \"file\", \"name\": " + json_string(path) +
             ", \"external-contents\": " + json_string(copy.string()) + "}";
  }
  const fs::path overlay = fs::absolute(directory) / "overlay.yaml";
  // The names of the originals stay: in reports, in __FILE__, and in a build's dependencies.
  write_if_new(overlay,
               "{\n  \"version\": 0,\n  \"case-sensitive\": true,\n  \"use-external-names\": false,\n"
               "  \"roots\": [\n" +
                   roots + "\n  ]\n}\n");
  return overlay.string();
}

void write_mirror(const std::map<std::string, std::string>& translated, const std::vector<std::string>& folders,
                  const std::string& directory) {
  const std::string at = fs::absolute(directory).lexically_normal().string();
  // An #include "../x.h" is looked for in each folder, so all folders must exist.
  for (const std::string& folder : folders)
    fs::create_directories(mirrored(at, fs::absolute(folder).lexically_normal().string()));
  std::set<std::string> written;
  for (const auto& [path, text] : translated) {
    const std::string copy = mirrored(at, path);
    fs::create_directories(fs::path(copy).parent_path());
    write_if_new(copy, "#line 1 " + json_string(path) + "\n" + text);
    written.insert(copy);
  }
  // If an original is gone, the compiler would still find its copy, so the copy is removed.
  std::vector<fs::path> left;
  for (const auto& entry : fs::recursive_directory_iterator(mirrored(at, "/"))) {
    if (entry.is_regular_file() && !written.contains(entry.path().string())) left.push_back(entry.path());
  }
  for (const fs::path& path : left) fs::remove(path);
}

}  // namespace attnfuzz
