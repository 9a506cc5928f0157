// Which kernels there are: libraries beside this program, and plug-ins by path.
//
//   for (const KernelLibrary& k : find_kernels()) ...            // all of our own
//   auto fa1 = find_kernel("fa1", ATTN_CPU, &error);              // one of our own
//   auto mine = find_kernel("./libmine.so", ATTN_CPU, &error);    // a plug-in
//   auto target = open_target(worker_options(*fa1), &error);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fuzz/worker_target.h"

namespace attnfuzz {

struct KernelLibrary {
  std::string name;  // "fa1"; of a plug-in: its path as given
  int32_t backend = ATTN_CPU;
  std::string path;
  std::string worker;  // the program that loads it
};

// Every lib/libattn_NAME_{cpu,cuda}.so beside this program's bin/, or in its own
// folder, sorted by name and back end. Those without a worker are left out.
std::vector<KernelLibrary> find_kernels();

// One by name; a name with a '/' is the path of a plug-in. On failure *error
// says what there is instead.
std::optional<KernelLibrary> find_kernel(const std::string& name, int32_t backend, std::string* error);

// Options to open it with: worker and library set, the rest as by default.
WorkerOptions worker_options(const KernelLibrary& kernel);

}  // namespace attnfuzz
