// Opens the kernels of a command that calls several stages, and shares the stages out: the first kernel that
// does a stage runs it.
//
//   std::vector<OpenKernel> kernels;
//   for (const KernelLibrary& library : libraries_of(names, options)) kernels.push_back(open_kernel(library, options));
//   const std::vector<size_t> of = share_out(kernels, {.count = nsa::kStages, .does = ..., .name_of = ...});
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/open/open_kernel.h"

namespace attnfuzz {

// A kernel, and the table of errors by which it is judged.
struct OpenKernel {
  KernelLibrary library;
  std::unique_ptr<Target> target;
  Calibration calibration;
};
OpenKernel open_kernel(const KernelLibrary& library, const TargetOptions& options);
// All kernels that these names stand for, in their order.
std::vector<KernelLibrary> libraries_of(const std::vector<std::string>& names, const TargetOptions& options);

struct Stages {
  size_t count;
  std::function<bool(uint64_t features, size_t stage)> does;
  std::function<std::string(size_t stage)> name_of;
  std::string all;  // kernels of ours that do all: "fa1, nsa and nsa_select"
  // Two stages of which only one runs, because the first also does the work of the second. If a kernel does the
  // first, the second gets no kernel; otherwise the first gets none. Empty: all stages run.
  std::optional<std::pair<size_t, size_t>> either;
};
inline constexpr size_t kNoKernel = SIZE_MAX;  // in place of a kernel's number: the stage does not run
// Returns the number of each stage's kernel, or kNoKernel. Throws UserError if no kernel does a stage, or if a kernel
// does no stage.
std::vector<size_t> share_out(const std::vector<OpenKernel>& kernels, const Stages& stages);

}  // namespace attnfuzz
