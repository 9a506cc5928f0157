// For any problem a clear refusal before launch, or a right answer. The drawn
// case is run as it is: what is refused with a reason has passed here. Then
// problems that mean nothing, one change each away from the case, are offered to
// plan() alone: each must be refused, with a sentence that says why.
#include <functional>
#include <limits>

#include "properties/judge/judge.h"
#include "properties/relations/tools.h"

namespace attnfuzz::relations {
namespace {

struct Offer {
  attn_problem problem;
  attn_tensors tensors;
  attn_env env;
};

struct Nonsense {
  const char* name;
  std::function<void(Offer&)> change;
};

std::vector<Nonsense> nonsense() {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  constexpr int64_t kHuge = int64_t{1} << 40, kLowest = std::numeric_limits<int64_t>::min();
  return {
      {"problem.size = 0", [](Offer& x) { x.problem.size = 0; }},
      {"problem.size below the first contract's", [](Offer& x) { x.problem.size = ATTN_PROBLEM_MIN - 8; }},
      {"tensors.size = 0", [](Offer& x) { x.tensors.size = 0; }},
      {"env.size = 0", [](Offer& x) { x.env.size = 0; }},
      {"dtype = -1 (none)", [](Offer& x) { x.problem.dtype = ATTN_NONE; }},
      {"dtype = fp32", [](Offer& x) { x.problem.dtype = ATTN_F32; }},
      {"dtype = 7", [](Offer& x) { x.problem.dtype = 7; }},
      {"dim_qk = 0", [](Offer& x) { x.problem.dim_qk = 0; }},
      {"dim_qk = 257", [](Offer& x) { x.problem.dim_qk = 257; }},
      {"dim_v = 0", [](Offer& x) { x.problem.dim_v = 0; }},
      {"dim_v = 257", [](Offer& x) { x.problem.dim_v = 257; }},
      {"dim_v = -64", [](Offer& x) { x.problem.dim_v = -64; }},
      {"dim_qk = 2^32 + 64", [](Offer& x) { x.problem.dim_qk = (int64_t{1} << 32) + 64; }},
      {"heads_kv = 0", [](Offer& x) { x.problem.heads_kv = 0; }},
      {"heads_kv = -1", [](Offer& x) { x.problem.heads_kv = -1; }},
      {"heads_q not a multiple of heads_kv",
       [](Offer& x) {
         x.problem.heads_kv = 2;
         x.problem.heads_q = 3;
       }},
      {"heads_kv larger than heads_q", [](Offer& x) { x.problem.heads_kv = 2 * x.problem.heads_q; }},
      {"batch = -1", [](Offer& x) { x.problem.batch = -1; }},
      {"seq_q = -1", [](Offer& x) { x.problem.seq_q = -1; }},
      {"seq_k = -64", [](Offer& x) { x.problem.seq_k = -64; }},
      {"seq_k = -2^63", [](Offer& x) { x.problem.seq_k = kLowest; }},
      {"sizes whose product leaves 64 bits",
       [](Offer& x) { x.problem.batch = x.problem.heads_q = x.problem.heads_kv = x.problem.seq_q = kHuge; }},
      {"num_splits = -1", [](Offer& x) { x.problem.num_splits = -1; }},
      {"scale = NaN", [](Offer& x) { x.problem.scale = kNan; }},
      {"scale = inf", [](Offer& x) { x.problem.scale = kInf; }},
      {"softcap = -1", [](Offer& x) { x.problem.softcap = -1; }},
      {"softcap = NaN", [](Offer& x) { x.problem.softcap = kNan; }},
      {"softcap = inf", [](Offer& x) { x.problem.softcap = kInf; }},
      {"align = 2", [](Offer& x) { x.problem.align = 2; }},
      {"bias_dtype = 9", [](Offer& x) { x.problem.bias_dtype = 9; }},
      {"a bias without data",
       [](Offer& x) {
         x.problem.bias_dtype = ATTN_F32;
         x.tensors.bias.data = nullptr;
       }},
      {"a mask without data",
       [](Offer& x) {
         x.problem.has_mask = 1;
         x.tensors.mask.data = nullptr;
       }},
      {"key lengths without data",
       [](Offer& x) {
         x.problem.has_key_lengths = 1;
         x.tensors.key_lengths = nullptr;
       }},
      {"q without data", [](Offer& x) { x.tensors.q.data = nullptr; }},
      {"k without data", [](Offer& x) { x.tensors.k.data = nullptr; }},
      {"v without data", [](Offer& x) { x.tensors.v.data = nullptr; }},
      {"o without data", [](Offer& x) { x.tensors.o.data = nullptr; }},
      {"env.variant = -1", [](Offer& x) { x.env.variant = -1; }},
  };
}

// Something to compute, so that no kernel may leave before it has looked.
bool adapt(Case& c, const KernelInfo&, std::string*) {
  Problem& p = c.problem;
  if (p.batch == 0) p.batch = 1;
  if (p.seq_q == 0) p.seq_q = 1;
  if (p.seq_k == 0) p.seq_k = 1;
  if (p.key_lengths) p.key_lengths->resize(p.batch, p.seq_k);
  fit(c);
  return true;
}

bool refuses_nonsense(Trial& trial) {
  LaidOut laid(trial.base(), trial.target().arena());
  trial.target().memory(laid.ranges());
  for (const Nonsense& nonsense : nonsense()) {
    Offer offer = {laid.problem(), laid.tensors(), laid.env()};
    offer.env.backend = trial.target().info().backend;
    nonsense.change(offer);
    const PlanReply reply = trial.target().plan(offer.problem, offer.tensors, offer.env);
    if (reply.status == ATTN_OK) {
      trial.fail(Kind::kRefusal, std::string("accepted nonsense: plan() has nothing against ") + nonsense.name);
      return false;
    }
    Verdict v;
    accept_plan(reply, v);
    if (v.outcome == Outcome::kFail) {
      trial.fail(v.kind, std::string(nonsense.name) + ": " + v.message);
      return false;
    }
  }
  return true;
}

void check(Trial& trial) {
  if (auto why = illegal(trial.base())) return trial.reject("cannot be run: " + *why);
  if (!refuses_nonsense(trial) || trial.run(trial.base())) return;
  // A refusal with a reason is what the contract asks for.
  Verdict& v = trial.verdict();
  if (v.outcome == Outcome::kReject) v.outcome = Outcome::kPass;
}

}  // namespace

extern const Property contract = {
    "contract", "any problem is refused with a reason before launch, or answered right", adapt, check};

}  // namespace attnfuzz::relations
