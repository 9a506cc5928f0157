#include "fuzz/kernels.h"

#include <algorithm>
#include <filesystem>

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

const char* suffix(int32_t backend) { return backend == ATTN_CUDA ? "cuda" : "cpu"; }

fs::path program_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

std::string worker_of(int32_t backend) {
  const fs::path worker = program_folder() / (std::string("attnfuzz-worker-") + suffix(backend));
  std::error_code error;
  return fs::exists(worker, error) ? worker.string() : "";
}

}  // namespace

std::vector<KernelLibrary> find_kernels() {
  std::vector<KernelLibrary> found;
  const fs::path here = program_folder();
  for (const fs::path& folder : {here.parent_path() / "lib", here}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const std::string file = entry.path().filename().string();
      for (const int32_t backend : {ATTN_CPU, ATTN_CUDA}) {
        const std::string prefix = "libattn_", ending = std::string("_") + suffix(backend) + ".so";
        if (!file.starts_with(prefix) || !file.ends_with(ending) ||
            file.size() <= prefix.size() + ending.size()) {
          continue;
        }
        const std::string name = file.substr(prefix.size(), file.size() - prefix.size() - ending.size());
        const auto same = [&](const KernelLibrary& k) { return k.name == name && k.backend == backend; };
        if (std::ranges::any_of(found, same)) continue;
        found.push_back({name, backend, entry.path().string(), worker_of(backend)});
      }
    }
  }
  std::erase_if(found, [](const KernelLibrary& k) { return k.worker.empty(); });
  std::ranges::sort(found, {}, [](const KernelLibrary& k) { return std::pair(k.name, k.backend); });
  return found;
}

std::optional<KernelLibrary> find_kernel(const std::string& name, int32_t backend, std::string* error) {
  const std::string worker = worker_of(backend);
  if (worker.empty()) {
    *error = std::string("attnfuzz-worker-") + suffix(backend) + " is not beside this program: build it" +
             (backend == ATTN_CUDA ? " where there is a CUDA toolkit (ATTNFUZZ_CUDA=ON)" : "");
    return std::nullopt;
  }
  if (name.find('/') != name.npos) {
    std::error_code ignored;
    if (fs::exists(name, ignored)) return KernelLibrary{name, backend, name, worker};
    *error = "there is no file " + name;
    return std::nullopt;
  }
  *error = "there is no kernel '" + name + "' for the back end " + suffix(backend) +
           " (a plug-in is given by a path with a '/'); there are:";
  for (const KernelLibrary& k : find_kernels()) {
    if (k.name == name && k.backend == backend) {
      error->clear();
      return k;
    }
    *error += " " + k.name + "/" + suffix(k.backend);
  }
  return std::nullopt;
}

WorkerOptions worker_options(const KernelLibrary& kernel) {
  WorkerOptions options;
  options.worker = kernel.worker;
  options.library = kernel.path;
  return options;
}

}  // namespace attnfuzz
