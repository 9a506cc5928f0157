#include "fuzz/campaign/store/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

// The value in the first line "name : value" of a file.
std::string value_of(const std::string& path, const std::string& name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    const size_t at = line.find_first_of(":=");
    if (at == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t\"", at + 1);
    if (begin == std::string::npos) return "";
    std::string value = line.substr(begin);
    while (!value.empty() && (value.back() == '"' || value.back() == ' ')) value.pop_back();
    return value;
  }
  return "";
}

// True for "/dev/nvidia0", false for "/dev/nvidiactl".
bool is_device(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.size() > 6 && name.starts_with("nvidia") &&
         std::all_of(name.begin() + 6, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::vector<std::string> visible_gpus() {
  std::vector<std::string> gpus;
  if (const char* given = std::getenv("CUDA_VISIBLE_DEVICES")) {
    std::istringstream in(given);
    for (std::string gpu; std::getline(in, gpu, ',');) {
      if (gpu.empty() || gpu == "-1") break;
      gpus.push_back(gpu);
    }
    return gpus;
  }
  std::error_code none;
  size_t devices = 0;
  for (const auto& entry : fs::directory_iterator("/dev", none)) devices += is_device(entry.path());
  // The runtime numbers visible devices from 0.
  for (size_t i = 0; i < devices; ++i) gpus.push_back(std::to_string(i));
  return gpus;
}

Machine this_machine() {
  Machine machine;
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) == 0) machine.host = host;
  machine.cpu = value_of("/proc/cpuinfo", "model name");
  machine.cores = static_cast<int>(std::thread::hardware_concurrency());
  utsname name = {};
  if (uname(&name) == 0) machine.os = std::string(name.sysname) + " " + name.release;
  const std::string pretty = value_of("/etc/os-release", "PRETTY_NAME");
  if (!pretty.empty()) machine.os = pretty + ", " + machine.os;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    const std::string model = value_of((entry.path() / "information").string(), "Model");
    if (!model.empty()) machine.gpus.push_back(model);
  }
  return machine;
}

}  // namespace attnfuzz
