// Plans and runs single calls of a session on its kernels, and keeps the plans for replays.
//
//   KernelCalls calls(setup, result);
//   KernelMemory& at = calls.memory_of(kernel);
//   at.memory.lay(...);                                       // the arrays of the call
//   switch (calls.make({"append", step, planned, replayed}, kernel, problem, tensors)) ...
//
// If a kernel refuses a call, SessionResult::left_out counts it. If a call fails, the result's verdict fails.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "properties/sequences/run/call_memory.h"
#include "properties/sequences/run/run.h"

namespace attnfuzz::sequences {

// The arrays of a kernel, and the content that its last call left in the workspace.
struct KernelMemory {
  explicit KernelMemory(Target& of) : target(of), memory(of.arena()) {}
  Target& target;
  CallMemory memory;
  std::vector<std::byte> left;
  bool told = false;  // true once a target that is a class was told that the session begins
};

enum class Answer { kRan, kRefused, kFailed };

// A call of a step.
struct Call {
  const char* name;
  const Step& step;
  size_t planned;                     // the step whose plan the call uses
  bool replayed;                      // true if the plan was made by an earlier step
  const attn_plan* lse_of = nullptr;  // the plan with which the LSEs that it reads were written
};

class KernelCalls {
 public:
  KernelCalls(const Setup& setup, SessionResult& result) : setup_(setup), result_(result) {}

  KernelMemory& memory_of(const SessionTarget& kernel) {
    return memories_.try_emplace(kernel.target, *kernel.target).first->second;
  }

  // Plans the call, or takes the earlier plan if it is a replay, lays out the workspace, and runs it. The other
  // arrays are in memory_of(kernel). Checks redzones and inputs; the caller checks outputs.
  Answer make(const Call& call, const SessionTarget& kernel, attn_problem& problem, attn_tensors& tensors);
  // Tells a target that is a class about a step that makes no call (tell.h). `call` names the step.
  Answer tell_of_step(const Call& call, const SessionTarget& kernel);
  // The plan of a call that ran.
  const attn_plan& plan(const Call& call) const { return plans_.at({call.planned, call.name}); }

  Answer fail(const Call& call, const SessionTarget& kernel, Kind kind, const std::string& message);
  // Records which call failed; the verdict has been set already.
  Answer failed(const Call& call, const SessionTarget& kernel);
  Answer refused(const Call& call, const std::string& why);

 private:
  Answer plan_and_run(const Call& call, const SessionTarget& kernel, attn_problem& problem,
                      attn_tensors& tensors);
  Answer plan_it(const Call& call, const SessionTarget& kernel, const attn_problem& problem,
                 const attn_tensors& tensors, const attn_env& env);
  Answer tell(const Call& call, const SessionTarget& kernel, const std::string& json);
  std::vector<std::byte> workspace_of(const KernelMemory& at, uint64_t bytes) const;

  const Setup& setup_;
  SessionResult& result_;
  std::map<Target*, KernelMemory> memories_;
  std::map<std::pair<size_t, std::string>, attn_plan> plans_;  // by step and name of the call
};

// `bytes` bytes that repeat a pattern of 4 bytes.
std::vector<std::byte> repeated_bytes(size_t bytes, uint32_t pattern);

}  // namespace attnfuzz::sequences
