#include "python/native/oracle.h"

#include <cstdio>
#include <exception>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/plug_in.h"
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

}  // namespace
}  // namespace attnfuzz

int32_t attnfuzz_oracle(const attn_problem* problem, const attn_tensors* host, const attn_plan* plan,
                        const char* calibration, const attnfuzz_expected* o, const attnfuzz_expected* lse,
                        char* text, uint64_t size) {
  using namespace attnfuzz;
  try {
    attn_env env = {};
    env.size = sizeof env;
    env.sm_count = 1;
    attn::Call call;
    if (const attn::Refusal refusal =
            attn::read_call(problem, host, &env, ATTN_CPU, 0, ATTN_FEATURE_F32, &call))
      throw std::invalid_argument(refusal.reason);
    attn_plan known;
    if (!attn_read(&known, sizeof known, plan, ATTN_PLAN_MIN)) throw std::invalid_argument("no attn_plan");
    const Reference reference = evaluate(call.problem, call.tensors, known, calibration_named(calibration));
    copy(reference[TensorId::kO], *o);
    copy(reference[TensorId::kLse], *lse);
    std::string notes;
    for (const Assumption& one : reference.assumptions) notes += (notes.empty() ? "" : "; ") + one.text();
    std::snprintf(text, size, "%s", notes.c_str());
    return 0;
  } catch (const std::exception& e) {
    std::snprintf(text, size, "%s", e.what());
    return -1;
  }
}
