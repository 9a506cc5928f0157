// Turns a case into bytes (strides, fills, redzones), and reads the outputs after a call.
//
// LaidOut makes the attn_problem and attn_tensors of a case in an arena. It leaves known bytes around every
// tensor, in every stride gap, and all over outputs and workspace. Afterwards check_memory() can therefore
// say what was written or not written by mistake.
//
// Life of a laid-out case:
//   1. LaidOut laid(case, arena)       inputs filled, redzones set
//   2. plan; check_planned()           plan() has written nothing
//      follow(plan), derive(tensor)    inputs that depend on the plan
//      give_workspace(bytes)           the workspace placed, its redzones set
//   3. before_call(call)               outputs (and a clean workspace) poisoned, states as they were laid out
//   4. the target runs
//   5. check_memory()                  redzones, gaps, inputs, completeness
//   6. read(output)                    dense copies
//   steps 3 to 6 once a call
//
// A state (Role::kState) is laid out like an input. A call may write it, so it is laid out anew before each
// call, and given() has its content before the call for the oracle. This also holds for the first side of a
// merge in place, which lies in the elements of O and LSE. O and LSE are then not poisoned, so a missing write
// shows only as a wrong value.
//
// Known bytes: redzones and gaps of inputs hold 0xfffe in every 16 bits. This is a NaN in all formats of 16 and
// 32 bits, and in formats of 8 bits at least every second element is one. It differs from the 0x7fa5 of outputs
// never written. It is negative as a key length, a page or a block, and "visible" in a mask. A kernel that is
// not trusted gets other patterns (poison.h). A redzone has 256 bytes before a tensor, and 64 rows (256 bytes
// to 16 KiB) behind it; a tensor that ends with its page has none behind it. Checking them costs as much as
// memset. Writes further away are found by the pages that they create (strays.h).
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "properties/case/case.h"
#include "properties/case/places/packed.h"
#include "properties/memory/arena.h"

namespace attnfuzz {

// The first violation that check_memory() found.
struct MemoryFault {
  enum class Kind {
    kRedzone,
    kGap,
    kInputChanged,
    kUnwritten,
    kTooEarly
  } kind;  // kTooEarly: plan() wrote an output
  TensorId tensor;
  std::array<int64_t, 4> index = {0, 0, 0, 0};  // kUnwritten: the element; else the nearest one
  std::string message;                          // "memory 8 bytes before o was written"
};

// The largest alignment that a plan may request for its workspace.
inline constexpr uint64_t kMaxWorkspaceAlign = uint64_t{1} << 20;

// The LSE of a side of a merge that saw no key, as the plan declares it: +inf or -inf.
float dead_lse_of(const attn_plan& plan);

// A case's tensors where LaidOut would place them. Nothing is filled, and the arena stays untouched.
attn_tensors placed(const Case& c, Arena& arena);

struct Extent;  // extent.h: a tensor's elements, gaps and redzones
struct Index;
class InputRows;  // inputs.h: the bytes of inputs
class Strays;   // strays.h: writes further away

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
  // As tensors(), but with dense copies, owned by this object, of three kinds of tensors as they were before a
  // call: states, inputs in the memory of an output, and tables of integers. The oracle uses the elements of
  // tables as indices, and a faulty call may have written them.
  const attn_tensors& given() const { return given_; }
  attn_env env() const;  // back end 0; no callbacks, stream or probe

  // Writes the inputs whose values depend on the plan (Varied::by_plan) in the form that the plan uses. Needed
  // once, before the first run.
  void follow(const attn_plan& plan);
  // Writes an input's elements: those that Operation::prepare computes from other inputs under a plan, which are 0
  // until then, or others that replace the case's. `elements`: dense, (batch entry, head, row, column).
  void derive(TensorId t, std::vector<std::byte> elements);
  // The elements that derive() has written; empty if it was not called for t.
  const std::vector<std::byte>& derived(TensorId t) const { return derived_[static_cast<size_t>(t)]; }
  // Throws std::invalid_argument for more than kMaxCaseBytes, or for an alignment that is no power of two or
  // above kMaxWorkspaceAlign.
  void give_workspace(uint64_t bytes, uint64_t align);
  // Replaces the case's elements of a state before each call by those that an earlier call has left, as
  // read_integers() returned them. Throws std::invalid_argument unless there are as many as the state has.
  void keep_state(TensorId t, std::span<const int64_t> bits);
  bool keeps_states() const { return keeps_states_; }
  // Needed before each run. It poisons a clean workspace, so partials made by hand are written after it.
  void before_call(const Call& call);
  // keep_workspace() sets the bytes that a dirty first call finds in the workspace instead of junk. It throws
  // std::invalid_argument unless it gets as many bytes as the workspace has.
  std::span<const std::byte> workspace() const;
  void keep_workspace(std::span<const std::byte> left);
  // `outputs`: true if the outputs must be complete; false after the partial stage. Completeness needs
  // Poison::kNan. With Poison::kHuge an unwritten element holds a huge number, which the oracle finds.
  std::optional<MemoryFault> check_memory(bool outputs = true) const;
  // Checks that everything is as it was laid out. Used after plan(), which must only plan. If plan() changes a
  // device's copies, the next run undoes it.
  std::optional<MemoryFault> check_planned() const;

  // The parts of the arena that this case uses, with redzones (see Target::memory), and with the workspace once
  // it is given.
  std::vector<MemoryRange> ranges() const;

  // One output, dense, converted exactly; empty if it is not wanted. Queries that a packed batch entry lacks are 0.
  std::vector<float> read(TensorId t) const;
  // The same for a tensor of integers; for a state, the bits of its elements.
  std::vector<int64_t> read_integers(TensorId t) const;
  // XXH3-64 of each input's and each state's elements in index order, as laid out. A reproducer holds them, so that a
  // replay on other bytes is refused. 0 for absent tensors, outputs and the workspace.
  std::array<uint64_t, kTensorCount> digests() const;

 private:
  Extent& extent(TensorId t);
  const Extent& extent(TensorId t) const;
  attn_tensor place(TensorId t);
  void fill_input(TensorId t);
  // Points given() to a dense copy of a tensor.
  void give_copy(TensorId t, std::vector<std::byte>& copy);
  void lay_out_state(TensorId t);
  void restore_state(TensorId t);
  // A row of a state as it is before a call.
  std::byte* before(TensorId t, const Index& at);
  InputRows rows_of(TensorId t) const;
  // Poisons the outputs, and writes the inputs that lie in their memory.
  void poison_outputs();
  struct Overwritten {
    TensorId tensor;                     // an input in the memory of an output
    std::vector<std::byte> before = {};  // its elements before a call, dense
    uint64_t digest = 0;
  };
  void fill_overwritten(Overwritten& input);
  bool holds_input(TensorId output) const;
  // Checks that a tensor is as it was laid out.
  std::optional<MemoryFault> check_unchanged(TensorId t) const;
  std::optional<MemoryFault> check_inputs() const;
  std::optional<MemoryFault> check_surroundings(TensorId t, uint32_t pattern) const;

  // Records the pages of a tensor, and fills the rest of these pages.
  void keep(TensorId t);

  const Case case_;
  const PackedCase packed_;
  Arena& arena_;
  std::unique_ptr<Strays> strays_;
  std::vector<TensorId> passing_;  // tensors whose pages the destructor gives back
  attn_problem problem_ = {};
  attn_tensors tensors_ = {}, given_ = {};
  std::vector<Extent> extents_;
  std::vector<Overwritten> overwritten_;
  bool workspace_used_ = false, keeps_states_ = false;
  std::array<std::vector<std::byte>, kTensorCount> derived_, tables_;
  std::array<std::vector<std::byte>, kStates.size()> before_;  // states before a call, dense
  std::array<uint64_t, kStates.size()> state_digests_ = {};
  float dead_lse_ = -std::numeric_limits<float>::infinity();  // of an input; see recipe_row()
};

}  // namespace attnfuzz
