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

// The name in an #include, in quotes or in angles.
std::vector<std::string> includes(const std::string& text) {
  std::vector<std::string> names;
  const std::vector<Token> tokens = tokens_of(text);
  for (size_t i = 2; i < tokens.size(); ++i) {
    if (!tokens[i].directive || tokens[i - 1].in(text) != "include" || tokens[i - 2].in(text) != "#") continue;
    const char close = text[tokens[i].begin] == '<' ? '>' : '"';
    const size_t begin = tokens[i].begin + 1, end = text.find(close, begin);
    if (end != std::string::npos) names.push_back(text.substr(begin, end - begin));
  }
  return names;
}

// Calls f(path, text) once for each of `sources` and for each file that they include from their own folders and
// from `folders`.
template <class F>
void each_file(const std::vector<std::string>& sources, const std::vector<std::string>& folders, F f) {
  std::map<std::string, bool> seen;
  std::vector<fs::path> queue;
  for (const std::string& source : sources) {
    if (!read(source)) throw std::runtime_error("cannot read " + source);
    queue.push_back(fs::absolute(source).lexically_normal());
  }
  while (!queue.empty()) {
    const fs::path path = queue.back();
    queue.pop_back();
    if (std::exchange(seen[path.string()], true)) continue;
    std::optional<std::string> text = read(path);
    if (!text) continue;
    if (text->starts_with("\xEF\xBB\xBF")) text->erase(0, 3);  // the mark of UTF-8 hides a first #include
    f(path.string(), *text);
    for (const std::string& name : includes(*text)) {
      std::vector<fs::path> places = {path.parent_path()};
      places.insert(places.end(), folders.begin(), folders.end());
      for (const fs::path& place : places) {
        const fs::path found = fs::absolute(place / name).lexically_normal();
        if (!fs::is_regular_file(found)) continue;
        queue.push_back(found);
        break;
      }
    }
  }
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
  each_file(sources, folders, [&](const std::string& path, const std::string& text) {
    translated[path] = translate(text, path);
  });
  return translated;
}

std::vector<std::string> kernels_of(const std::vector<std::string>& sources,
                                    const std::vector<std::string>& folders) {
  std::vector<std::string> names;
  each_file(sources, folders, [&](const std::string&, const std::string& text) {
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
  });
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
  // An #include "../x.h" is looked for in each folder, so all of them must be there.
  for (const std::string& folder : folders)
    fs::create_directories(mirrored(at, fs::absolute(folder).lexically_normal().string()));
  std::set<std::string> written;
  for (const auto& [path, text] : translated) {
    const std::string copy = mirrored(at, path);
    fs::create_directories(fs::path(copy).parent_path());
    write_if_new(copy, "#line 1 " + json_string(path) + "\n" + text);
    written.insert(copy);
  }
  // A copy whose original is gone would be found in its place.
  std::vector<fs::path> left;
  for (const auto& entry : fs::recursive_directory_iterator(mirrored(at, "/"))) {
    if (entry.is_regular_file() && !written.contains(entry.path().string())) left.push_back(entry.path());
  }
  for (const fs::path& path : left) fs::remove(path);
}

}  // namespace attnfuzz
