#include "fuzz/host/kernel_registry.h"

#include <algorithm>
#include <filesystem>

#include "base/identity/identity.h"
#include "base/printable.h"
#include "base/subprocess.h"
#include "fuzz/host/build_kinds.h"
#include "fuzz/host/zygote.h"
#include "reference/call/backend.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

bool there_is(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// The sanitizer runtime of a build's worker: "msan" for msan-O0. Empty for a build that uses the
// plain libraries.
std::string sanitizer_of(const std::string& name) {
  const BuildKind* build_kind = find_build_kind(name);
  return build_kind && build_kind->sanitizer() ? build_kind->runtime : "";
}

// True if a build has libraries of its own, because its kernels are built in another way.
bool has_libraries(const std::string& name) {
  const BuildKind* build_kind = find_build_kind(name);
  return build_kind && build_kind->kind == BuildKind::kBuilt;
}

// The end of a library's file name: "cpu", "cpu-msan-O0", "cuda".
std::string build_name(int32_t backend, const std::string& build_kind) {
  return backend_name(backend) + (has_libraries(build_kind) ? "-" + build_kind : "");
}

std::string worker_name(int32_t backend, const std::string& build_kind) {
  const std::string sanitizer = sanitizer_of(build_kind);
  return std::string("attnfuzz-worker-") + backend_name(backend) + (sanitizer.empty() ? "" : "-" + sanitizer);
}

std::string worker_of(int32_t backend, const std::string& build_kind) {
  if (backend == ATTN_CUDA && has_libraries(build_kind)) return "";
  const fs::path worker = program_folder() / worker_name(backend, build_kind);
  return there_is(worker) ? worker.string() : "";
}

std::string no_worker(int32_t backend, const std::string& build_kind) {
  if (backend == ATTN_CUDA && has_libraries(build_kind))
    return "only the CPU executor has the build " + build_kind;
  const std::string text = worker_name(backend, build_kind) + " is not beside this program: ";
  if (!sanitizer_of(build_kind).empty())
    return text + "this attnfuzz was configured without the build " + build_kind +
           "; -DATTNFUZZ_BUILDS=" + build_kind + " builds it";
  return text +
         (backend == ATTN_CUDA ? "build it where there is a CUDA toolkit (ATTNFUZZ_CUDA=ON)" : "build it");
}

std::string no_host(int32_t backend) {
  return std::string("lib/libattnfuzz-hosted-") + backend_name(backend) +
         ".so is not beside this program's bin/: build it (python-package), or use the wheel's attnfuzz" +
         (backend == ATTN_CUDA ? ", where there was a CUDA toolkit (ATTNFUZZ_CUDA=ON)" : "");
}

// True if a library calls the functions of its build: a sanitizer's, or those that collect counters.
bool instrumented(const std::string& path, const std::string& build_kind) {
  if (!has_libraries(build_kind)) return true;
  const std::string called = build_kind == "coverage" ? "sanitizer_cov" : sanitizer_of(build_kind);
  const auto bytes = file_bytes(path);
  return bytes && bytes->find("__" + called + "_") != bytes->npos;
}

struct PlugIn {
  std::string path, kernel;
};

// Splits "./libmine.so:fast". If a file with the whole name exists, it is that file. A kernel's
// name may contain any character.
PlugIn split(const std::string& name) {
  if (there_is(name)) return {name, ""};
  std::error_code error;
  for (size_t colon = 0; (colon = name.find(':', colon)) != name.npos; ++colon) {
    if (fs::is_regular_file(name.substr(0, colon), error))
      return {name.substr(0, colon), name.substr(colon + 1)};
  }
  const size_t colon = name.find(':', name.rfind('/'));
  return {name.substr(0, colon), colon == name.npos ? "" : name.substr(colon + 1)};
}

// An absolute path, so that a later command in another folder finds the same file.
std::string absolute(const std::string& path) {
  std::error_code error;
  const fs::path folder = fs::canonical(fs::absolute(path, error).parent_path(), error);
  return error ? path : (folder / fs::path(path).filename()).string();
}

// Asks the workers: only they load kernels.
std::vector<KernelLibrary> kernels_of(const PlugIn& plug_in, const Wanted& wanted, std::string* error) {
  const bool python = is_python(plug_in.path);
  for (const int32_t backend : {ATTN_CPU, ATTN_CUDA}) {
    if (wanted.backend && *wanted.backend != backend) continue;
    const std::string worker = python ? host_library(backend) : worker_of(backend, wanted.build_kind);
    if (worker.empty()) {
      *error += (error->empty() ? "" : "; but ") +
                (python ? no_host(backend) : no_worker(backend, wanted.build_kind));
      return {};
    }
    KernelLibrary library = {plug_in.path,   backend, wanted.build_kind, plug_in.path,
                             plug_in.kernel, worker,  wanted.measures};
    if (!plug_in.kernel.empty()) library.name += ":" + kernel_label(plug_in.kernel);
    bool other_backend = false;
    const auto target = open_target(worker_options(library), error, &other_backend);
    if (target == nullptr) {
      if (other_backend) continue;
      return {};
    }
    error->clear();
    if (!plug_in.kernel.empty()) return {library};
    std::vector<KernelLibrary> found;
    for (const auto& [kernel, of] : target->info().library_kernels) {
      if (of != backend && !wanted.backend) library.left_out.push_back(kernel);
    }
    for (const auto& [kernel, of] : target->info().library_kernels) {
      if (of != backend) continue;
      found.push_back(library);
      found.back().name += ":" + kernel;
      found.back().kernel = kernel;
    }
    if (found.size() == 1) return {library};
    return found;
  }
  return {};
}

std::vector<KernelLibrary> find_plug_in(const std::string& name, const Wanted& wanted, std::string* error) {
  PlugIn plug_in = split(name);
  if (!there_is(plug_in.path)) {
    *error = "there is no file " + plug_in.path;
    return {};
  }
  std::error_code none;
  if (!fs::is_directory(plug_in.path) && !fs::is_regular_file(plug_in.path, none)) {
    *error = plug_in.path + " is no regular file";  // reading a FIFO might never end
    return {};
  }
  if (name.ends_with(':') && plug_in.kernel.empty()) {
    *error = name + " ends in ':': write the kernel's name behind it, or no ':' for all of them";
    return {};
  }
  plug_in.path = in_build(absolute(plug_in.path), wanted.build_kind);
  if (is_python(plug_in.path) && has_libraries(wanted.build_kind)) {
    *error = plug_in.path + " is Python, and the build " + wanted.build_kind + " is for compiled kernels only";
    return {};
  }
  if (*error = lacks_build(wanted.build_kind); !error->empty()) return {};
  if (!fs::is_directory(plug_in.path) && !instrumented(plug_in.path, wanted.build_kind)) {
    *error = plug_in.path + " is not of the build " + wanted.build_kind +
             ": attnfuzz_add_kernel makes such a library, libattn_NAME_" +
             build_name(ATTN_CPU, wanted.build_kind) + ".so";
    return {};
  }
  return kernels_of(plug_in, wanted, error);
}

}  // namespace

std::string lacks_build(const std::string& build_kind) {
  return sanitizer_of(build_kind).empty() || !worker_of(ATTN_CPU, build_kind).empty()
             ? ""
             : no_worker(ATTN_CPU, build_kind);
}

std::string in_build(const std::string& path, const std::string& build_kind) {
  const std::string plain = build_name(ATTN_CPU, "plain") + ".so";
  if (!has_libraries(build_kind) || !path.ends_with(plain)) return path;
  const std::string other =
      path.substr(0, path.size() - plain.size()) + build_name(ATTN_CPU, build_kind) + ".so";
  return there_is(other) ? other : path;
}

std::vector<KernelLibrary> our_kernels(const std::string& build_kind) {
  std::vector<KernelLibrary> found;
  const fs::path here = program_folder();
  for (const fs::path& folder : {here.parent_path() / "lib", here}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const std::string file = entry.path().filename().string();
      for (const int32_t backend : {ATTN_CPU, ATTN_CUDA}) {
        const std::string prefix = "libattn_", ending = "_" + build_name(backend, build_kind) + ".so";
        if (!file.starts_with(prefix) || !file.ends_with(ending) ||
            file.size() <= prefix.size() + ending.size()) {
          continue;
        }
        const std::string name = file.substr(prefix.size(), file.size() - prefix.size() - ending.size());
        const auto same = [&](const KernelLibrary& k) { return k.name == name && k.backend == backend; };
        if (std::ranges::any_of(found, same)) continue;
        found.push_back({name, backend, build_kind, entry.path().string(), "", worker_of(backend, build_kind)});
      }
    }
  }
  std::erase_if(found, [](const KernelLibrary& k) { return k.worker.empty(); });
  std::ranges::sort(found, {}, [](const KernelLibrary& k) { return std::pair(k.name, k.backend); });
  return found;
}

std::vector<KernelLibrary> find_kernels(const std::string& name, const Wanted& wanted, std::string* error) {
  error->clear();
  if (name.find('/') != name.npos) return find_plug_in(name, wanted, error);
  const int32_t backend = wanted.backend.value_or(ATTN_CPU);
  if (worker_of(backend, wanted.build_kind).empty()) {
    *error = no_worker(backend, wanted.build_kind);
    return {};
  }
  *error = "there is no kernel '" + printable(name, 200) + "' for the back end " + backend_name(backend);
  if (wanted.build_kind != "plain") *error += " in the build " + wanted.build_kind;
  *error += " (a plug-in is given by a path with a '/': ./" + printable(name, 200) + "); there are:";
  std::vector<std::string> names;
  for (const KernelLibrary& k : our_kernels(wanted.build_kind)) {
    if (k.name == name && k.backend == backend) {
      error->clear();
      KernelLibrary found = k;
      found.measures = wanted.measures;
      return {found};
    }
    *error += " " + k.name + "/" + backend_name(k.backend);
    names.push_back(k.name);
  }
  *error += suggestion(name, names);
  return {};
}

std::optional<KernelLibrary> find_kernel(const std::string& name, const Wanted& wanted, std::string* error) {
  const std::vector<KernelLibrary> found = find_kernels(name, wanted, error);
  if (found.empty()) return std::nullopt;
  if (found.size() == 1) return found.front();
  *error = name + " has " + std::to_string(found.size()) + " kernels; say which, as in " + found.front().name +
           "; it has:";
  for (const KernelLibrary& k : found) *error += " " + k.kernel;
  return std::nullopt;
}

bool is_same_plug_in(const std::string& given, const std::string& kernel) {
  const PlugIn a = split(given), b = split(kernel);
  std::error_code error;
  return fs::equivalent(a.path, b.path, error) &&
         (a.kernel.empty() || kernel_label(a.kernel) == kernel_label(b.kernel));
}

WorkerOptions worker_options(const KernelLibrary& kernel) {
  WorkerOptions options;
  options.worker = kernel.worker;
  options.library = kernel.path;
  options.kernel = kernel.kernel;
  options.build_kind = kernel.build_kind;
  options.measures = kernel.measures;
  return options;
}

}  // namespace attnfuzz
