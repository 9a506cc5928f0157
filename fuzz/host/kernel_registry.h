// Finds kernels: libraries beside this program, and plug-ins by path.
//
//   for (const KernelLibrary& k : our_kernels()) ...              // all of our own
//   auto fa1 = find_kernel("fa1", {ATTN_CPU}, &error);             // one of our own
//   auto mine = find_kernels("./libmine.so", {}, &error);         // a plug-in: all its kernels
//   auto one = find_kernel("./libmine.so:fast", {}, &error);      // one of them
//   auto target = open_target(worker_options(*fa1), &error);
//
// A kernel is compiled once more for each build with a sanitizer on the CPU, as another library
// beside the plain one: libattn_fa1_cpu.so, libattn_fa1_cpu-asan.so. Either may be
// named; a build never runs a library that was not instrumented for it, for that
// would be a check that checks nothing.
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
  std::string kernel;     // which of the library's, kernel_label() of its name or that itself; empty: its first
  std::string worker;     // the program that loads it
  uint32_t measures = 0;  // bits of Measure (confinement.h) that its worker takes on
  // The plug-in's kernels of the other back end where no back end was wanted: nothing else tells of them.
  std::vector<std::string> left_out = {};
};

struct Wanted {
  std::optional<int32_t> backend;  // by default the CPU; of a plug-in the one that its descriptors name
  std::string build_kind = "plain";
  uint32_t measures = 0;  // likewise
};

// Every lib/libattn_NAME_{cpu,cuda}.so beside this program's bin/, or in its own
// folder, sorted by name and back end. Those without a worker are left out.
std::vector<KernelLibrary> our_kernels(const std::string& build_kind = "plain");

// The kernels that a name stands for. It is one of our own. A name with a '/' stands for the kernels of a
// plug-in on the wanted back end, or on the CPU if it has both and none is wanted. "./libmine.so:fast" is one
// kernel of several. A plug-in is opened for this, in a worker. On failure the result is empty, and *error says
// what there is instead or what to do.
std::vector<KernelLibrary> find_kernels(const std::string& name, const Wanted& wanted, std::string* error);

// The same where exactly one is wanted.
std::optional<KernelLibrary> find_kernel(const std::string& name, const Wanted& wanted, std::string* error);

// Why no kernel can be run in a build of the CPU's: its worker is not here; and what to build. Empty: it is
// here.
std::string lacks_build(const std::string& build_kind);

// Beside libmine_cpu.so, for the build asan: libmine_cpu-asan.so. The path itself: it is not built for that.
std::string in_build(const std::string& path, const std::string& build_kind);

// True if `given` on a command line is the plug-in `kernel` that a file names: the same library, by any path,
// and the same kernel in it unless `given` means all.
bool is_same_plug_in(const std::string& given, const std::string& kernel);

// Options to open it with: worker, library, kernel and build set, the rest as by default.
WorkerOptions worker_options(const KernelLibrary& kernel);

}  // namespace attnfuzz
