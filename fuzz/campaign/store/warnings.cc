#include "fuzz/campaign/store/warnings.h"

#include <algorithm>
#include <filesystem>

#include "fuzz/check/check.h"

namespace attnfuzz {
namespace {

std::string warning_file(const std::string& dir, const std::string& target, const std::string& sign) {
  return dir + "/suspicious/" + target + "-" + sign + ".attn.json";
}

}  // namespace

bool has_warning(const std::string& dir, const std::string& target, const std::string& sign) {
  return std::filesystem::exists(warning_file(dir, target, sign));
}

void write_warning(const std::string& dir, const std::string& target, const std::string& sign,
                   const Reproducer& r) {
  std::filesystem::create_directories(dir + "/suspicious");
  const std::string file = warning_file(dir, target, sign);
  write_file(file, encode(r, file));
}

std::vector<WarningFile> read_warnings(const std::string& dir, std::vector<std::string>* problems) {
  std::vector<WarningFile> found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(dir + "/suspicious", none)) {
    const std::string file = entry.path();
    if (!file.ends_with(".attn.json")) continue;
    auto read = read_reproducer(file, kInFolder);
    if (auto* error = std::get_if<DecodeError>(&read))
      problems->push_back(error->message);
    else
      found.push_back({file, std::get<Reproducer>(std::move(read))});
  }
  std::ranges::sort(found, {}, &WarningFile::file);
  return found;
}

}  // namespace attnfuzz
