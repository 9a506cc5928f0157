// Makes a plug-in of a kernel: refuses contradictory problems, sets fields that an older caller does not have
// to 0, and gives a plan its defaults.
//
//   struct Mine {
//     static constexpr const char* kName = "mine";
//     static constexpr const char* kDescription = "one thread per query";
//     static constexpr attn_backend kBackend = ATTN_CPU;
//     static attn::Refusal plan(const attn::Call& call, attn_plan* plan) {
//       if (call.problem.causal) return {ATTN_UNSUPPORTED, "a causal mask"};
//       return {};                         // takes it; *plan is default_plan(); declare more to get a sharper bound
//     }
//     static attn_status run(const attn::Call& call, const attn_plan& plan);   // runs what plan() takes
//   };
//   const attn_kernel kMine = attn::plug_in<Mine>();
//   const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &kMine : nullptr; }
//
// plan() and run() are called only with problems that read_call() accepts, in structs of this file's own
// version. Mine may also have:
//   static constexpr std::array kVariants = {"small", "large"};
//   static constexpr uint64_t kFeatures = ...;                  // attn_kernel.features
//   static constexpr const attn_domain* kDomain = ...;          // the problems it takes, attn_kernel.domain
//   static constexpr const attn_build* kBuild = &attn_build_identity;   // kernels/identity.h
//   partial() and reduce(), with run()'s signature, and
//   static attn_partials partials(const attn_problem&, const attn_plan&)
// This is host code: it needs C++20 and no CUDA.
#pragma once

#include <stdint.h>
#include <stdio.h>

#include <array>
#include <utility>

#include "kernels/read_call.h"

namespace attn {

// Writes a refusal into the caller's buffer and returns its status.
inline attn_status refuse(const Refusal& refusal, char* reason, uint64_t reason_size) {
  if (reason != nullptr && reason_size > 0) snprintf(reason, reason_size, "%s", refusal.reason.c_str());
  return refusal.status;
}

// The plan of a kernel that declares nothing: no splits, as many rescales as keys, no workspace, and the
// loosest error classes. Its tiles are given as 64, so that cases aim at multiples of 64.
inline attn_plan default_plan(const attn_problem& problem) {
  attn_plan plan = {};
  plan.size = sizeof plan;
  plan.tile_q = plan.tile_k = 64;
  plan.num_splits = 1;
  plan.split_tiles = ceil_div(problem.seq_k, plan.tile_k);
  plan.rescales = problem.seq_k;
  plan.workspace_align = 1;
  return plan;
}

// The plan of plain code: fp32 with fused multiply-add, expf, logf and division, in a fixed order, with the
// maximum known before the sums begin.
inline attn_plan plain_plan(const char* path, int64_t tile, int64_t seq_k) {
  attn_plan plan = {};
  plan.size = sizeof plan;
  snprintf(plan.path, sizeof plan.path, "%s", path);
  plan.tile_q = plan.tile_k = tile;
  plan.num_splits = 1;
  plan.split_tiles = ceil_div(seq_k, tile);
  plan.rescales = 1;
  plan.accumulator = ATTN_ACC_FFMA;
  plan.exp_class = ATTN_EXP_FAST_EXPF;
  plan.log_class = ATTN_LOG_LOGF;
  plan.rcp_class = ATTN_RCP_EXACT;
  plan.scale_mode = ATTN_SCALE_SEPARATE;
  plan.p_format = ATTN_FORMAT_F32;
  plan.deterministic = 1;
  plan.workspace_align = 1;
  return plan;
}

namespace plug_in_detail {

// The functions of an attn_kernel. They call K's.
template <class K>
struct Entry {
  static constexpr size_t variants() {
    if constexpr (requires { K::kVariants; }) return K::kVariants.size();
    return 0;
  }
  static constexpr uint64_t features() {
    uint64_t features = 0;
    if constexpr (requires { K::kFeatures; }) features = K::kFeatures;
    // A domain that has fp32 implies ATTN_FEATURE_F32.
    if constexpr (requires { K::kDomain; }) {
      if (K::kDomain != nullptr && (K::kDomain->dtypes >> ATTN_F32 & 1) != 0) features |= ATTN_FEATURE_F32;
    }
    return features;
  }
  static Refusal read(const attn_problem* problem, const attn_tensors* tensors, const attn_env* env,
                      Call* call) {
    return read_call(problem, tensors, env, K::kBackend, variants(), features(), call);
  }

  static attn_status plan(const attn_problem* problem, const attn_tensors* tensors, const attn_env* env,
                          attn_plan* plan, char* reason, uint64_t reason_size) {
    Call call;
    if (Refusal refusal = read(problem, tensors, env, &call)) return refuse(refusal, reason, reason_size);
    attn_plan own = default_plan(call.problem);
    if (Refusal refusal = K::plan(std::as_const(call), &own)) return refuse(refusal, reason, reason_size);
    if (attn_write(plan, &own, sizeof own, ATTN_PLAN_MIN)) return ATTN_OK;
    return refuse(invalid("attn_plan.size leaves no room for a plan"), reason, reason_size);
  }

  template <auto stage>
  static attn_status run(const attn_problem* problem, const attn_tensors* tensors, const attn_plan* plan,
                         const attn_env* env) {
    Call call;
    attn_plan known;
    if (Refusal refusal = read(problem, tensors, env, &call)) return refusal.status;
    if (!attn_read(&known, sizeof known, plan, ATTN_PLAN_MIN)) return ATTN_INVALID;
    return stage(call, known);
  }

  static attn_status partials(const attn_problem* problem, const attn_plan* plan, attn_partials* partials) {
    attn_problem p;
    attn_plan known;
    if (!attn_read(&p, sizeof p, problem, ATTN_PROBLEM_MIN) ||
        !attn_read(&known, sizeof known, plan, ATTN_PLAN_MIN))
      return ATTN_INVALID;
    const attn_partials own = K::partials(p, known);
    return attn_write(partials, &own, sizeof own, ATTN_PARTIALS_MIN) ? ATTN_OK : ATTN_INVALID;
  }
};

}  // namespace plug_in_detail

template <class K>
constexpr attn_kernel plug_in() {
  using Entry = plug_in_detail::Entry<K>;
  attn_kernel kernel = {};
  kernel.size = sizeof kernel;
  kernel.abi = ATTN_ABI;
  kernel.name = K::kName;
  kernel.description = K::kDescription;
  kernel.backend = K::kBackend;
  kernel.variant_count = Entry::variants();
  if constexpr (requires { K::kVariants; }) kernel.variants = K::kVariants.data();
  if constexpr (requires { K::kBuild; }) kernel.build = K::kBuild;
  if constexpr (requires { K::kDomain; }) kernel.domain = K::kDomain;
  kernel.plan = Entry::plan;
  kernel.run = Entry::template run<K::run>;
  if constexpr (requires { K::partials; }) {
    kernel.partials = Entry::partials;
    kernel.partial = Entry::template run<K::partial>;
    kernel.reduce = Entry::template run<K::reduce>;
  }
  kernel.features = Entry::features();
  return kernel;
}

}  // namespace attn
