// Finds kernels: libraries beside this program, and plug-ins by path.
//
//   for (const KernelLibrary& k : our_kernels()) ...              // all of our own
//   auto fa1 = find_kernel("fa1", {ATTN_CPU}, &error);             // one of our own
//   auto mine = find_kernels("./libmine.so", {}, &error);         // a plug-in: all its kernels
//   auto one = find_kernel("./libmine.so:fast", {}, &error);      // one of them
//   auto target = open_target(worker_options(*fa1), &error);
//
// For the CPU, each build with a sanitizer has its own library beside the plain one:
// libattn_fa1_cpu.so, libattn_fa1_cpu-asan.so. Either file may be named. A build never runs a
// library that was not instrumented for it, because such a check would find nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fuzz/host/worker_target.h"

namespace attnfuzz {

struct KernelLibrary {
  std::string name;  // "fa1"; of a plug-in: its absolute path, and ":KERNEL" if it has several
  int32_t backend = ATTN_CPU;
  std::string build_kind = "plain";
  std::string path;
  std::string kernel;     // a kernel of the library: its name or kernel_label(); empty: the first
  std::string worker;     // the program that loads it
  uint32_t measures = 0;  // bits of Measure (confinement.h) that its worker takes on
  // If no back end was wanted: the plug-in's kernels of the other back end, for a message to the
  // user.
  std::vector<std::string> left_out = {};
};

struct Wanted {
  std::optional<int32_t> backend;  // default: the CPU; for a plug-in, the one in its descriptors
  std::string build_kind = "plain";
  uint32_t measures = 0;  // bits of Measure
};

// Every lib/libattn_NAME_{cpu,cuda}.so beside this program's bin/, or in its own
// folder, sorted by name and back end. Those without a worker are left out.
std::vector<KernelLibrary> our_kernels(const std::string& build_kind = "plain");

// The kernels that a name stands for. A name without '/' is one of our own kernels. A name with '/'
// is a plug-in, and stands for its kernels on the wanted back end. If the plug-in has both back
// ends and none is wanted, the CPU's kernels are taken. "./libmine.so:fast" is one kernel of
// several. To list its kernels, the plug-in is opened in a worker. On failure the result is empty,
// and *error names the alternatives or says what to do.
std::vector<KernelLibrary> find_kernels(const std::string& name, const Wanted& wanted, std::string* error);

// The same for a name that must stand for exactly one kernel.
std::optional<KernelLibrary> find_kernel(const std::string& name, const Wanted& wanted, std::string* error);

// If the worker of a CPU build is missing: says so, and what to build. Otherwise empty.
std::string lacks_build(const std::string& build_kind);

// The path of the library beside `path` that is built for this build: libmine_cpu-asan.so beside
// libmine_cpu.so. Returns `path` itself if there is no such library.
std::string in_build(const std::string& path, const std::string& build_kind);

// True if `given` on a command line is the plug-in `kernel` that a file names: the same library, by any path,
// and the same kernel in it unless `given` means all.
bool is_same_plug_in(const std::string& given, const std::string& kernel);

// The options to open the kernel with. All fields but worker, library, kernel, build_kind and
// measures have defaults.
WorkerOptions worker_options(const KernelLibrary& kernel);

}  // namespace attnfuzz
