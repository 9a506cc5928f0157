// A plug-in of a later contract than the host's: kernels/attention.h with fields
// appended to each struct (CMakeLists.txt makes this header). Kernel "next" keeps the
// rules; "overrun" writes its whole plan, even if the caller's plan->size is smaller.
#include "kernels/plug_in.h"
#include "tests/fuzz/fakes/abi/forward.h"

static_assert(sizeof(attn_problem::appended) > 0 && sizeof(attn_plan::appended) > 0, "not the contract of the future");

namespace {

struct Next {
  static constexpr const char* kName = "next";
  static constexpr const char* kDescription = "a plug-in of a later contract";
  static constexpr attn_backend kBackend = ATTN_CPU;
  static constexpr uint64_t kFeatures = 2 | uint64_t{1} << 40;  // bit 40 is not assigned yet

  static attn::Refusal plan(const attn::Call& call, attn_plan* plan) {
    const attn_problem& p = call.problem;
    // The appended fields of an older host's structs read as 0.
    for (const int64_t word : p.appended) {
      if (word != 0) return {ATTN_INVALID, "attn_problem.appended is not 0"};
    }
    for (const int64_t word : call.env.appended) {
      if (word != 0) return {ATTN_INVALID, "attn_env.appended is not 0"};
    }
    for (const int64_t word : call.tensors.appended) {
      if (word != 0) return {ATTN_INVALID, "attn_tensors.appended is not 0"};
    }
    if (const char* why = forward::unsupported(p)) return {ATTN_UNSUPPORTED, why};
    if (attn::product_within(p.batch, p.heads_q, p.seq_q, 1000000) < 0)
      return {ATTN_UNSUPPORTED, "more rows than it has time for"};
    *plan = attn::plain_plan("next", 64, p.seq_k);
    for (int64_t& word : plan->appended) word = 7;
    return {};
  }

  static attn_status run(const attn::Call& call, const attn_plan& plan) {
    if (plan.appended[0] != 0) return ATTN_INVALID;  // an older host does not keep appended fields
    forward::attend(call.problem, attn::strided(call.problem, call.tensors));
    return ATTN_OK;
  }
};

attn_status overrun(const attn_problem* problem, const attn_tensors*, const attn_env*, attn_plan* plan, char*,
                    uint64_t) {
  *plan = attn::plain_plan("overrun", 64, problem->seq_k);
  return ATTN_OK;
}

const attn_kernel kernels[] = {attn::plug_in<Next>(), [] {
                                 attn_kernel k = attn::plug_in<Next>();
                                 k.name = "overrun";
                                 k.plan = overrun;
                                 return k;
                               }()};

}  // namespace

const attn_kernel* attn_kernel_at(uint32_t index) { return index < 2 ? &kernels[index] : nullptr; }
