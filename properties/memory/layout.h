// From a case to bytes: strides, fills, guards; and after a call back again.
//
// LaidOut makes attn_problem and attn_tensors of a case, in an arena. Around
// every tensor, in every stride gap, and all over outputs and workspace it
// leaves known bytes, so that afterwards check_memory() can say what was read
// or written that should not have been, or not written that should have been.
//
// Life of a laid-out case:
//   1. LaidOut laid(case, arena)       inputs filled, guards set
//   2. plan; check_planned()           plan() has written nothing
//      give_workspace(bytes)           the workspace placed, its guards set
//   3. before_call(call)               outputs (and a clean workspace) poisoned
//   4. the target runs
//   5. check_memory()                  guards, gaps, inputs, completeness
//   6. read(output)                    dense copies
//   steps 3 to 6 once a call
//
// Known bytes: guards and gaps of inputs hold 0xfffe in every 16 bits, a NaN in
// all formats that is not the 0x7fa5 of outputs never written, a negative key
// length, and "visible" in a mask; others for a kernel that is not trusted
// (poison.h). A guard is 256 bytes before a tensor,
// and 64 rows (at least 256 bytes, at most 16 KiB) behind it; none behind one
// that ends with its page. Reading through them costs what memset costs. What is
// written further away is seen by the pages that it makes (strays.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "properties/case/case.h"
#include "properties/memory/arena.h"

namespace attnfuzz {

// What check_memory found: the first offence.
struct MemoryFault {
  enum class Kind {
    kGuard,
    kGap,
    kInputChanged,
    kUnwritten,
    kTooEarly
  } kind;  // kTooEarly: an output, by plan()
  TensorId tensor;
  std::array<int64_t, 4> index = {0, 0, 0, 0};  // kUnwritten: which element; else the nearest one
  std::string message;                          // "memory 8 bytes before o was written"
};

// The most that a workspace may ask to be aligned to.
inline constexpr uint64_t kMaxWorkspaceAlign = uint64_t{1} << 20;

// A case's tensors where LaidOut would place them; nothing is filled, and nothing of the arena is touched.
attn_tensors placed(const Case& c, Arena& arena);

struct Extent;  // extent.h: where a tensor's elements, gaps and guards are
class Strays;   // strays.h: what lies further away

class LaidOut {
 public:
  // The case must be legal (case.h). At most one lives in an arena at a time.
  LaidOut(const Case& c, Arena& arena);
  // Gives back the memory of tensors that were large or spread.
  ~LaidOut();
  LaidOut(const LaidOut&) = delete;
  LaidOut& operator=(const LaidOut&) = delete;

  const attn_problem& problem() const { return problem_; }
  const attn_tensors& tensors() const { return tensors_; }
  attn_env env() const;  // back end 0, callbacks, stream and probe empty

  // Throws std::invalid_argument on what no arena holds: more than
  // kMaxCaseBytes, an alignment that is no power of two or above kMaxWorkspaceAlign.
  void give_workspace(uint64_t bytes, uint64_t align);
  // Needed before each run. A workspace that is not to be dirty is poisoned,
  // so partials made by hand are written after this.
  void before_call(const Call& call);
  // What lies in the workspace, and what a dirty first call is to find there in place of junk: as many bytes
  // as were given, or std::invalid_argument.
  std::span<const std::byte> workspace() const;
  void keep_workspace(std::span<const std::byte> left);
  // `outputs`: whether the outputs must be complete (false after the partial
  // stage). Completeness is told from Poison::kNan only: what kHuge leaves is a
  // number, and the oracle finds it if it is wrong.
  std::optional<MemoryFault> check_memory(bool outputs = true) const;
  // Whether all is as it was laid out: after plan(), which must only plan. (What a
  // device's plan() does to the device's copies is undone before a run.)
  std::optional<MemoryFault> check_planned() const;

  // What of the arena this case uses, guards included: see Target::memory. The
  // workspace is among it once it is given.
  std::vector<MemoryRange> ranges() const;

  // One output: dense, converted exactly; empty if it is not wanted.
  std::vector<float> read(TensorId t) const;
  // XXH3-64 of each input's elements in index order, as laid out: part of a
  // reproducer, so that a replay on other bytes is refused. 0 for absent
  // tensors, outputs and the workspace.
  std::array<uint64_t, kTensorCount> digests() const;

 private:
  Extent& extent(TensorId t);
  const Extent& extent(TensorId t) const;
  attn_tensor place(TensorId t);
  void fill_input(TensorId t);
  void poison_outputs();
  std::optional<MemoryFault> check_inputs() const;

  // Remembers the pages of a tensor, and fills what else there is of them.
  void keep(TensorId t);

  const Case case_;
  Arena& arena_;
  std::unique_ptr<Strays> strays_;
  std::vector<TensorId> passing_;  // whose pages are not remembered: they go with this
  attn_problem problem_ = {};
  attn_tensors tensors_ = {};
  std::vector<Extent> extents_;
  bool workspace_used_ = false;
};

}  // namespace attnfuzz
