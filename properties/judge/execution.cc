#include "properties/judge/execution.h"

#include "properties/case/codec/as_contract.h"
#include "properties/judge/judge.h"
#include "properties/judge/stopwatch.h"

namespace attnfuzz {

Execution::Execution(const Case& the_case, Target& on, const attn_plan* earlier)
    : c(the_case),
      target(on),
      operation(operation_of(the_case.problem.features)),
      laid(c, on.arena()),
      env(laid.env()) {
  env.backend = target.info().backend;
  target.memory(laid.ranges());
  lay_out_s += std::chrono::duration<double>(Clock::now() - start_).count();
  {
    Stopwatch watch(kernel_s);
    if (earlier != nullptr)
      planned.plan = *earlier;
    else
      planned = target.plan(laid.problem(), laid.tensors(), env);
  }
  if (!why_not().empty()) return;
  Stopwatch watch(lay_out_s);
  written_by_plan = laid.check_planned();
  laid.follow(plan);
  if (operation.prepare != nullptr)
    operation.prepare(laid.problem(), laid.tensors(), plan, [&](TensorId t, std::vector<std::byte> elements) {
      laid.derive(t, std::move(elements));
    });
  laid.give_workspace(plan.workspace_bytes, plan.workspace_align);
  target.memory(laid.ranges());
}

namespace {

std::string no_room_for(const attn_plan& plan) {
  constexpr uint64_t kMostBytes = kMaxCaseBytes;
  if (plan.workspace_bytes <= kMostBytes && plan.workspace_align <= kMaxWorkspaceAlign) return "";
  return "the plan wants " + std::to_string(plan.workspace_bytes) + " bytes of workspace aligned to " +
         std::to_string(plan.workspace_align) + "; given are at most " + std::to_string(kMostBytes) +
         " aligned to " + std::to_string(kMaxWorkspaceAlign);
}

}  // namespace

std::string Execution::no_room() const { return no_room_for(plan); }

std::string Execution::why_not() const { return attnfuzz::why_not(planned); }

RunReply Execution::run(const Call& call) {
  {
    Stopwatch watch(lay_out_s);
    laid.before_call(call);
  }
  return run(Stage::kAll, call.stream);
}

RunReply Execution::run(Stage stage, int stream) {
  if (target.on_run && stage != Stage::kReduce) target.on_run(c, plan);
  Stopwatch watch(kernel_s);
  return target.run(stage, laid.problem(), laid.tensors(), plan, env, stream);
}

Outputs Execution::outputs() const {
  Outputs outputs;
  for (const Output& output : operation.outputs) {
    const TensorId t = output.tensor;
    if (read_as_integers(spec_of(t))) {
      outputs.integers(t) = laid.read_integers(t);
    } else {
      outputs[t] = laid.read(t);
    }
  }
  return outputs;
}

Reference Execution::evaluate(const Calibration& calibration, RowSample sample, bool exact) const {
  return operation.evaluate(laid.problem(), laid.given(), plan, calibration, sample, exact);
}

PlanQuestion question_of(const Case& c, Target& target) {
  attn_env env = env_of(c.env);
  env.backend = target.info().backend;
  return {problem_of(c.problem), placed(c, target.arena()), env};
}

PlanReply plan_alone(const PlanQuestion& question, Target& target) {
  target.memory({});
  return target.plan(question.problem, question.tensors, question.env);
}

PlanReply plan_alone(const Case& c, Target& target) {
  if (const auto why = illegal(c)) {
    PlanReply reply;
    reply.status = ATTN_INVALID;
    reply.reason = "it cannot be run: " + *why;
    return reply;
  }
  return plan_alone(question_of(c, target), target);
}

std::string why_not(const PlanReply& planned) {
  if (std::string why = failure(planned); !why.empty()) return why;
  if (const auto bad = bad_plan(planned.plan)) return "the plan makes no sense: " + *bad;
  return no_room_for(planned.plan);
}

std::string failure(const PlanReply& reply) {
  if (reply.no_memory) return *reply.no_memory;
  if (reply.crash) return "plan() died: " + *reply.crash;
  if (reply.timed_out) return "plan() did not return";
  if (reply.bad_plan) return "the plan makes no sense: " + *reply.bad_plan;
  if (reply.status != ATTN_OK) return "the kernel refuses the case: " + reply.reason;
  return "";
}

std::string failure(const RunReply& reply) {
  if (reply.no_memory) return *reply.no_memory;
  if (reply.crash) return "the worker died: " + *reply.crash;
  if (reply.timed_out) return "it did not come back";
  if (reply.fault) return reply.fault->message;
  if (reply.status != ATTN_OK) return "run() answered status " + std::to_string(static_cast<int>(reply.status));
  return "";
}

}  // namespace attnfuzz
