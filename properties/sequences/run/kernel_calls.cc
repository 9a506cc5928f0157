#include "properties/sequences/run/kernel_calls.h"

#include <algorithm>
#include <cstring>

#include "kernels/contract/problem_fields.h"
#include "properties/case/codec/as_contract.h"
#include "properties/judge/execution.h"
#include "properties/judge/judge.h"
#include "properties/operations/operation.h"
#include "properties/sequences/run/tell.h"

namespace attnfuzz::sequences {

std::vector<std::byte> repeated_bytes(size_t bytes, uint32_t pattern) {
  std::vector<std::byte> out(bytes);
  for (size_t n = 0; n < bytes; ++n) out[n] = static_cast<std::byte>(pattern >> (n % 4 * 8) & 0xff);
  return out;
}

std::vector<std::byte> KernelCalls::workspace_of(const KernelMemory& at, uint64_t bytes) const {
  if (setup_.workspace == Workspace::kZero) return std::vector<std::byte>(bytes);
  std::vector<std::byte> found = repeated_bytes(bytes, kAllOnes);
  if (setup_.workspace == Workspace::kKept && !at.left.empty() && bytes > 0)
    std::memcpy(found.data(), at.left.data(), std::min(found.size(), at.left.size()));
  return found;
}

Answer KernelCalls::failed(const Call& call, const SessionTarget& kernel) {
  result_.call = call.name;
  result_.kernel = kernel.target->info().name;
  return Answer::kFailed;
}

Answer KernelCalls::fail(const Call& call, const SessionTarget& kernel, Kind kind, const std::string& message) {
  attnfuzz::fail(result_.verdict, kind, message);
  return failed(call, kernel);
}

Answer KernelCalls::refused(const Call& call, const std::string& why) {
  ++result_.left_out[std::string(call.name) + ": " + why];
  return Answer::kRefused;
}

Answer KernelCalls::plan_it(const Call& call, const SessionTarget& kernel, const attn_problem& problem,
                            const attn_tensors& tensors, const attn_env& env) {
  const std::string& name = kernel.target->info().name;
  kernel.target->memory(memory_of(kernel).memory.ranges());
  const PlanReply reply = kernel.target->plan(problem, tensors, env);
  Verdict& v = result_.verdict;
  if (!accept_plan(reply, v)) {
    if (v.outcome == Outcome::kFail) return failed(call, kernel);
    v = Verdict{};
    if (reply.no_memory) return refused(call, name + " was not asked: " + *reply.no_memory);
    return refused(call, name + " refuses it: " + reply.reason);
  }
  // The only remaining reason is a workspace or an alignment that is larger than is given.
  if (const std::string why = why_not(reply); !why.empty()) return refused(call, name + ": " + why);
  plans_[{call.planned, call.name}] = reply.plan;
  return Answer::kRan;
}

Answer KernelCalls::tell(const Call& call, const SessionTarget& kernel, const std::string& json) {
  memory_of(kernel).told = true;
  const RunReply reply = kernel.target->tell(json);
  Verdict& v = result_.verdict;
  if (accept_run(reply, v)) return Answer::kRan;
  if (v.outcome == Outcome::kFail) return failed(call, kernel);
  const std::string why = std::exchange(v, Verdict{}).message;
  return refused(call,
                 kernel.target->info().name + " refuses it: " + (reply.fault ? reply.fault->message : why));
}

Answer KernelCalls::tell_of_step(const Call& call, const SessionTarget& kernel) {
  const Answer answer = tell(call, kernel, tell_step(setup_, !memory_of(kernel).told, result_.step, call.step));
  if (answer == Answer::kRan) ++result_.told;
  return answer;
}

Answer KernelCalls::make(const Call& call, const SessionTarget& kernel, attn_problem& problem,
                         attn_tensors& tensors) {
  problem.features |= contract::features_of(problem);
  CallCount unseen;
  const bool sees =
      kernel.target->info().cache != CacheKind::kOwn || (problem.features & ATTN_FEATURE_APPEND) == 0;
  CallCount& count = sees ? result_.counts[{kernel.number, operation_of(problem.features).name}] : unseen;
  ++count.asked;
  const Answer answer = plan_and_run(call, kernel, problem, tensors);
  if (answer != Answer::kRefused) ++count.judged;
  return answer;
}

Answer KernelCalls::plan_and_run(const Call& call, const SessionTarget& kernel, attn_problem& problem,
                                 attn_tensors& tensors) {
  KernelMemory& at = memory_of(kernel);
  const std::string& name = kernel.target->info().name;
  if (kernel.target->info().cache != CacheKind::kNone) {
    const Answer told = tell(call, kernel, tell_call(setup_, !at.told, result_.step, call));
    if (told != Answer::kRan) return told;
  }
  attn_env env = env_of({});
  env.variant = 0;
  env.backend = kernel.target->info().backend;
  if (call.replayed) {
    if (!plans_.contains({call.planned, call.name}))
      return refused(call, "the call that it replays was refused");
  } else if (const Answer answer = plan_it(call, kernel, problem, tensors, env); answer != Answer::kRan) {
    return answer;
  }
  const attn_plan& by = plan(call);
  if (call.lse_of != nullptr && (call.lse_of->lse_base != by.lse_base || call.lse_of->lse_dead != by.lse_dead))
    return refused(call, name + " takes another form of LSE than the forward pass gives");
  tensors.workspace = at.memory.lay(TensorId::kWorkspace, workspace_of(at, by.workspace_bytes), true,
                                    std::max<uint64_t>(by.workspace_align, 1));
  tensors.workspace_bytes = by.workspace_bytes;
  kernel.target->memory(at.memory.ranges());
  const RunReply reply =
      kernel.target->run(Stage::kAll, problem, tensors, by, env, static_cast<int>(call.step.stream));
  const auto left = at.memory.bytes(TensorId::kWorkspace);
  at.left.assign(left.begin(), left.end());
  Verdict& v = result_.verdict;
  const bool ran = accept_run(reply, v);
  if (!ran && v.outcome == Outcome::kFail) return failed(call, kernel);
  const std::string reason = ran ? "" : std::exchange(v, Verdict{}).message;
  if (const auto why = at.memory.written_beside()) return fail(call, kernel, Kind::kRedzone, *why);
  if (reply.no_memory) return refused(call, name + " was not run: " + *reply.no_memory);
  if (!ran) return refused(call, name + " refuses it in run(): " + reason);
  ++result_.calls;
  return Answer::kRan;
}

}  // namespace attnfuzz::sequences
