#include "fuzz/campaign/store/coverage_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "base/files.h"
#include "base/hash.h"
#include "fuzz/check/counts/records.h"

namespace attnfuzz {

void fields(Is<MeasuredCoverage> auto& r, auto f) { f("cases", r.cases), f("covered", r.covered); }

namespace {

namespace fs = std::filesystem;

class Lock {
 public:
  explicit Lock(const std::string& path) : fd_(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666)) {
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "cannot open " + path);
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~Lock() { ::close(fd_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int fd_;
};

std::string stem_of(const std::string& dir, const std::string& target) { return dir + "/coverage/" + target; }

// True if the path exists. Throws if it is a link, which could lead out of the campaign's folder.
bool is_there(const std::string& path) {
  std::error_code none;
  const fs::file_status status = fs::symlink_status(path, none);
  if (fs::is_symlink(status))
    throw std::runtime_error(path + " is a link, which is not followed: move it away");
  return fs::exists(status);
}

std::string sum_of(const std::string& bytes) {
  const uint64_t sum = text_hash(bytes);
  return {reinterpret_cast<const char*>(&sum), sizeof sum};
}

// Nothing if there is no file, or if it is for another table of axes.
std::optional<Coverage> read_met(const std::string& stem) {
  const std::string path = stem + ".met";
  if (!is_there(path)) return std::nullopt;
  const std::string text = file_text(path, kInFolder);
  const std::string bytes = text.substr(0, std::max(text.size(), sizeof(uint64_t)) - sizeof(uint64_t));
  if (text != bytes + sum_of(bytes))
    throw std::runtime_error(path + " is damaged: move it away, and its coverage is counted anew");
  try {
    return Coverage::of_bytes(bytes);
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

void write_met(const std::string& stem, const Coverage& met) {
  const std::string bytes = met.bytes();
  write_file(stem + ".met", bytes + sum_of(bytes));
}

std::optional<MeasuredCoverage> read_measured(const std::string& path) {
  if (!is_there(path)) return std::nullopt;
  const std::string text = file_text(path, kInFolder);
  try {
    return json_of(text).get<MeasuredCoverage>();
  } catch (const std::exception& e) {
    throw std::runtime_error(path + " cannot be read: move it away, and it is measured again (" + e.what() +
                             ")");
  }
}

void write_measured(const std::string& path, const MeasuredCoverage& measured) {
  write_file(path, json_text(Json(measured), 1) + "\n");
}

// The targets that have a file with this ending, which begins with a dot.
std::vector<std::string> targets_with(const std::string& dir, const std::string& ending) {
  std::vector<std::string> names;
  const std::string folder = dir + "/coverage";
  if (!is_there(folder)) return names;
  if (!fs::is_directory(folder)) throw std::runtime_error(folder + " is no folder: move it away");
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(ending)) names.push_back(name.substr(0, name.size() - ending.size()));
  }
  return names;
}

}  // namespace

void add_coverage(const std::string& dir, const std::string& target, const Coverage& met,
                  const GeneratorConfig& config) {
  fs::create_directories(dir + "/coverage");
  const std::string stem = stem_of(dir, target);
  Coverage all = met;
  {
    const Lock lock(stem + ".lock");
    if (const auto before = read_met(stem)) all.merge(*before);
    write_met(stem, all);
  }
  if (all.cases() < kFewestMeasured) return;
  std::optional<MeasuredCoverage> before;
  try {
    before = read_measured(stem + ".json");
  } catch (const std::runtime_error&) {
    // If a stored measurement cannot be used, measure again.
  }
  // Measures if a quarter more cases were judged, and also if there are fewer cases than at the last
  // measurement: then the table of axes has changed, or somebody edited the folder.
  if (before && before->cases <= all.cases() && all.cases() < before->cases + before->cases / 4) return;
  write_measured(stem + ".json", {all.cases(), measure(all, config)});
}

std::map<std::string, MeasuredCoverage> read_coverage(const std::string& dir) {
  std::map<std::string, MeasuredCoverage> all;
  for (const std::string& target : targets_with(dir, ".met")) read_met(stem_of(dir, target));
  for (const std::string& target : targets_with(dir, ".lock")) {
    const std::string lock = stem_of(dir, target) + ".lock";
    if (is_there(lock) && !fs::is_regular_file(lock))
      throw std::runtime_error(lock + " is no file: move it away");
  }
  for (const std::string& target : targets_with(dir, ".json")) {
    if (auto measured = read_measured(stem_of(dir, target) + ".json")) all[target] = std::move(*measured);
  }
  return all;
}

void merge_coverage(const std::string& from, const std::string& to) {
  fs::create_directories(to + "/coverage");
  for (const std::string& target : targets_with(from, ".met")) {
    const std::string stem = stem_of(to, target);
    auto met = read_met(stem_of(from, target));
    if (!met) continue;
    if (const auto before = read_met(stem)) met->merge(*before);
    write_met(stem, *met);
  }
  for (const auto& [target, measured] : read_coverage(from)) {
    const std::string path = stem_of(to, target) + ".json";
    const auto before = read_measured(path);
    if (!before || before->cases < measured.cases) write_measured(path, measured);
  }
}

}  // namespace attnfuzz
