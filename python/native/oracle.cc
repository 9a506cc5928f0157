#include "python/native/oracle.h"

#include <cstdio>
#include <exception>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernels/plug_in.h"
#include "reference/gradients/gradients.h"
#include "reference/oracle.h"

namespace attnfuzz {
namespace {

Calibration calibration_named(const std::string& name) {
  if (name == "documented") return documented();
  if (name == "executor") return executor();
  if (name == "h200") return h200();
  throw std::invalid_argument("there is no calibration '" + name + "': documented, executor or h200");
}

void copy(const Expected& from, const attnfuzz_expected& to) {
  constexpr double kInf = std::numeric_limits<double>::infinity(),
                   kNaN = std::numeric_limits<double>::quiet_NaN();
  for (size_t i = 0; i < from.value.size(); ++i) {
    const Due due = static_cast<Due>(from.rule[i]);
    to.value[i] = due == Due::kMustBeNaN ? kNaN : from.value[i];
    to.bound[i] = due == Due::kAnything ? kInf : from.bound[i];
    if (to.got == nullptr) continue;
    const auto at = static_cast<int64_t>(i);
    to.ratio[i] = due == Due::kAnything ? 0 : from.ratio(at / from.columns, at % from.columns, to.got[i]);
  }
}

// The features of problems that these functions support.
constexpr uint64_t kAsked = ATTN_FEATURE_F32 | ATTN_FEATURE_WIDE | ATTN_FEATURE_SINK | ATTN_FEATURE_ALIBI |
                            ATTN_FEATURE_BACKWARD | ATTN_FEATURE_RAGGED | ATTN_FEATURE_PAGED |
                            ATTN_FEATURE_KEY_STEP | ATTN_FEATURE_DLSE | ATTN_FEATURE_DBIAS | ATTN_FEATURE_DSINK;

using Evaluate = Reference (*)(const attn::Call& call, const attn_plan& plan, const Calibration& calibration);

int32_t answer(const attn_problem* problem, const attn_tensors* host, const attn_plan* plan,
               const char* calibration, Evaluate evaluate,
               std::initializer_list<std::pair<TensorId, const attnfuzz_expected*>> outputs, char* text,
               uint64_t size) {
  try {
    attn_env env = {};
    env.size = sizeof env;
    env.sm_count = 1;
    attn::Call call;
    if (const attn::Refusal refusal = attn::read_call(problem, host, &env, ATTN_CPU, 0, kAsked, &call))
      throw std::invalid_argument(refusal.reason);
    attn_plan known;
    if (!attn_read(&known, sizeof known, plan, ATTN_PLAN_MIN)) throw std::invalid_argument("no attn_plan");
    const Reference reference = evaluate(call, known, calibration_named(calibration));
    for (const auto& [tensor, to] : outputs) {
      if (to == nullptr) continue;
      copy(reference[tensor], *to);
      if (to->rows == nullptr) continue;
      to->rows[0] = reference.sampled;
      to->rows[1] = reference.uninformative;
      to->rows[2] = reference.unconstrained;
    }
    std::string notes;
    for (const Assumption& one : reference.assumptions) notes += (notes.empty() ? "" : "; ") + one.text();
    std::snprintf(text, size, "%s", notes.c_str());
    return 0;
  } catch (const std::exception& e) {
    std::snprintf(text, size, "%s", e.what());
    return -1;
  }
}

}  // namespace
}  // namespace attnfuzz

int32_t attnfuzz_oracle(const attn_problem* problem, const attn_tensors* host, const attn_plan* plan,
                        const char* calibration, const attnfuzz_expected* o, const attnfuzz_expected* lse,
                        char* text, uint64_t size) {
  using namespace attnfuzz;
  return answer(
      problem, host, plan, calibration,
      [](const attn::Call& call, const attn_plan& known, const Calibration& on) {
        return evaluate(call.problem, call.tensors, known, on);
      },
      {{TensorId::kO, o}, {TensorId::kLse, lse}}, text, size);
}

int32_t attnfuzz_gradients(const attn_problem* problem, const attn_tensors* host, const attn_plan* plan,
                           const char* calibration, const attnfuzz_expected* dq, const attnfuzz_expected* dk,
                           const attnfuzz_expected* dv, const attnfuzz_expected* dbias,
                           const attnfuzz_expected* dsink, char* text, uint64_t size) {
  using namespace attnfuzz;
  return answer(
      problem, host, plan, calibration,
      [](const attn::Call& call, const attn_plan& known, const Calibration& on) {
        return evaluate_gradients(call.problem, call.tensors, known, on);
      },
      {{TensorId::kDq, dq},
       {TensorId::kDk, dk},
       {TensorId::kDv, dv},
       {TensorId::kDbias, dbias},
       {TensorId::kDsink, dsink}},
      text, size);
}
