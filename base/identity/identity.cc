#include "base/identity/identity.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

#include "base/files.h"
#include "base/identity/command.h"
#include "base/json.h"
#include "base/mirror.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

std::string hex(XXH128_hash_t h) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, h);
  std::string text;
  for (unsigned char b : bytes.digest) {
    text += "0123456789abcdef"[b >> 4];
    text += "0123456789abcdef"[b & 15];
  }
  return text;
}

// `path` relative to `directory`, if it lies in it.
std::optional<std::string> inside(const fs::path& path, const fs::path& directory) {
  const fs::path relative = path.lexically_relative(directory);
  if (relative.empty() || *relative.begin() == "..") return std::nullopt;
  return relative.generic_string();
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  if (from.empty()) return;
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
    text.replace(at, from.size(), to);
}

// One compilation.
struct Compilation {
  std::vector<std::string> ask;  // the command that prints the dependencies
  std::string flags, directory;
};

Compilation dissect(const std::vector<std::string>& words, const std::string& source) {
  static const std::set<std::string> drop = {"-c", "-dc", "-MD", "-MMD", "-M", "-MM"};
  static const std::set<std::string> drop_with_value = {"-o", "-MT", "-MF", "-MQ"};
  Compilation c;
  for (size_t i = 0; i < words.size(); ++i) {
    if (drop.count(words[i])) continue;
    if (drop_with_value.count(words[i])) {
      ++i;
      continue;
    }
    c.ask.push_back(words[i]);
    if (i > 0 && words[i] != source && words[i] != "-x" && words[i] != "cu") {
      c.flags += (c.flags.empty() ? "" : " ") + words[i];
    }
  }
  c.ask.push_back("-MM");
  return c;
}

std::string object_of(const Json& entry, const std::vector<std::string>& words) {
  if (entry.contains("output")) return entry["output"].get<std::string>();
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "-o") return words[i + 1];
  }
  return "";
}

// The line of `compiler --version` that names a version.
std::string version_of(const std::string& compiler) {
  const std::string text = output_of({compiler, "--version"}, "");
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (line.find("version") != line.npos || line.find("release") != line.npos) return line;
    at = end + 1;
  }
  return text.substr(0, text.find('\n'));
}

std::string c_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < ' ') {
      out += ' ';
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

std::optional<std::string> file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string file_hash(const std::string& path) {
  const auto text = read_file(path, {.bytes = kMostSourceBytes, .seconds = 0});
  const auto* bytes = std::get_if<std::string>(&text);
  return bytes != nullptr ? hex(XXH3_128bits(bytes->data(), bytes->size())) : "";
}

Identity identify(const IdentityOptions& options) {
  const auto text = file_bytes(options.commands);
  if (!text) {
    throw std::runtime_error("cannot read " + options.commands +
                             ": configure with CMAKE_EXPORT_COMPILE_COMMANDS=ON and Ninja or Makefiles");
  }
  const Json entries = json_of(*text);
  const fs::path root = fs::weakly_canonical(options.root);
  const fs::path build = fs::weakly_canonical(options.build);
  const bool root_is_generated = inside(root, build).has_value();

  Identity id;
  id.root = root.string();
  std::map<std::string, std::string> files;
  std::set<std::string> compilers, flags;
  for (const auto& entry : entries) {
    const std::vector<std::string> words = entry.contains("arguments")
                                               ? entry["arguments"].get<std::vector<std::string>>()
                                               : split_command(entry["command"].get<std::string>());
    const std::string source = entry["file"].get<std::string>();
    const std::string directory = entry.value("directory", "");
    const auto made = [&, object = object_of(entry, words)](const std::string& in) {
      return object.find(in) != std::string::npos;
    };
    if (words.empty() || std::ranges::none_of(options.objects, made)) continue;
    if (!options.skip.empty() && fs::weakly_canonical(source) == fs::weakly_canonical(options.skip)) continue;

    Compilation c = dissect(words, source);
    compilers.insert(version_of(words[0]));
    replace_all(c.flags, options.build, "<build>");
    replace_all(c.flags, options.root, "<root>");
    flags.insert(c.flags);
    // Unlike other compilers, nvcc -MM lists the headers of its own toolkit.
    const fs::path toolkit = fs::weakly_canonical(words[0]).parent_path().parent_path();
    for (const std::string& name : prerequisites(output_of(c.ask, directory))) {
      fs::path path = fs::weakly_canonical(fs::path(directory) / name);
      if (const auto original = original_of(path.string())) path = fs::weakly_canonical(*original);
      const auto relative = inside(path, root);
      if ((!relative || !root_is_generated) && inside(path, build)) continue;
      if (!relative && (inside(path, "/usr") || inside(path, toolkit))) continue;
      files[relative ? *relative : path.string()] = file_hash(path.string());
    }
  }
  if (flags.empty()) {
    throw std::runtime_error("no command in " + options.commands + " makes an object in " +
                             options.objects.at(0));
  }
  for (const std::string& c : compilers) id.compiler += (id.compiler.empty() ? "" : "; ") + c;
  for (const std::string& f : flags) id.flags += (id.flags.empty() ? "" : "; ") + f;
  id.files.assign(files.begin(), files.end());

  std::string all = id.compiler + '\n' + id.flags + '\n';
  for (const auto& [name, hash] : id.files)
    all += (is_outside(name) ? fs::path(name).filename().string() : name) + ' ' + hash + '\n';
  id.hash = hex(XXH3_128bits(all.data(), all.size()));
  return id;
}

std::string as_c(const Identity& id) {
  std::string c =
      "/* Generated by attnfuzz-identity; see base/identity/identity.h. */\n"
      "#include \"kernels/identity.h\"\n\n"
      "static const char *const files[] = {\n";
  for (const auto& [name, hash] : id.files) c += "    " + c_string(name) + ",\n";
  c += "    0};\nstatic const char *const file_hashes[] = {\n";
  for (const auto& [name, hash] : id.files) c += "    " + c_string(hash) + ",\n";
  c += "    0};\nconst attn_build attn_build_identity = {\n    .size = sizeof(attn_build),\n";
  c += "    .file_count = " + std::to_string(id.files.size()) + ",\n";
  c += "    .hash = " + c_string(id.hash) + ",\n    .compiler = " + c_string(id.compiler) + ",\n";
  c += "    .flags = " + c_string(id.flags) + ",\n    .root = " + c_string(id.root) + ",\n";
  c += "    .files = files,\n    .file_hashes = file_hashes,\n};\n";
  return c;
}

std::string as_depfile(const Identity& id, const std::string& target) {
  auto escaped = [](const std::string& path) {
    std::string out;
    for (const char c : path) {
      if (c == ' ' || c == '#') out += '\\';
      if (c == '$') out += '$';
      out += c;
    }
    return out;
  };
  std::string rule = escaped(target) + ":";
  for (const auto& [name, hash] : id.files)
    rule += " \\\n  " + escaped(is_outside(name) ? name : id.root + "/" + name);
  return rule + "\n";
}

}  // namespace attnfuzz
