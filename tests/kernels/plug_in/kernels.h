// Kernels that compute nothing, described with plug_in.h, and what they answer to a call.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>

#include "kernels/plug_in.h"
#include "tests/kernels/offer.h"

namespace attnfuzz {

// A kernel with two variants and a feature. It counts its runs.
struct Two {
  static constexpr const char* kName = "two";
  static constexpr const char* kDescription = "nothing, in two ways";
  static constexpr attn_backend kBackend = ATTN_CPU;
  static constexpr std::array kVariants = {"small", "large"};
  static constexpr uint64_t kFeatures = uint64_t{1} << 50;
  static constexpr attn_domain kMine = [] {
    attn_domain of = {};
    of.dtypes = 1 << ATTN_F32;
    return of;
  }();
  static constexpr const attn_domain* kDomain = &kMine;
  static constexpr attn_build kIdentity = {};
  static constexpr const attn_build* kBuild = &kIdentity;
  static inline int runs = 0;
  static inline int32_t variant = -1;

  static attn::Refusal plan(const attn::Call& call, attn_plan* plan) {
    variant = call.env.variant;
    plan->tile_q = 128;
    if (call.problem.softcap > 0) return {ATTN_UNSUPPORTED, "a softcap, of which " + std::string(60, '.')};
    return {};
  }
  static attn_status run(const attn::Call&, const attn_plan& plan) {
    ++runs;
    return plan.tile_q == 128 ? ATTN_OK : ATTN_LAUNCH_FAILED;
  }
};
// A kernel with stages that declares as little as possible.
struct One {
  static constexpr const char* kName = "one";
  static constexpr const char* kDescription = "nothing";
  static constexpr attn_backend kBackend = ATTN_CUDA;
  static attn::Refusal plan(const attn::Call&, attn_plan*) { return {}; }
  static attn_status run(const attn::Call&, const attn_plan&) { return ATTN_OK; }
  static attn_status partial(const attn::Call&, const attn_plan&) { return ATTN_LAUNCH_FAILED; }
  static attn_status reduce(const attn::Call&, const attn_plan&) { return ATTN_UNSUPPORTED; }
  static attn_partials partials(const attn_problem& p, const attn_plan&) {
    attn_partials of = {};
    of.size = sizeof of;
    of.num_splits = p.seq_k;
    return of;
  }
};
inline constexpr attn_kernel kTwo = attn::plug_in<Two>(), kOne = attn::plug_in<One>();

struct Told {
  attn_status status;
  attn_plan plan;
  std::string reason;
};
inline Told answer(const attn_kernel& kernel, const Offer& x) {
  Told out = {ATTN_OK, {}, std::string(256, '\0')};
  out.plan.size = sizeof out.plan;
  out.status = kernel.plan(&x.problem, &x.tensors, &x.env, &out.plan, out.reason.data(), out.reason.size());
  out.reason.resize(strlen(out.reason.c_str()));
  return out;
}

// Changes one thing in a call that the kernel takes, and expects a refusal in these words.
inline void expect_refusal(const attn_kernel& kernel, Offer offer, void (*change)(Offer&), const char* words) {
  change(offer);
  const Told told = answer(kernel, offer);
  EXPECT_NE(told.status, ATTN_OK) << words;
  EXPECT_NE(told.reason.find(words), std::string::npos) << told.reason;
}

// It takes keys in pages, and tables of 32 bits.
struct Paged : One {
  static constexpr const char* kName = "paged";
  static constexpr uint64_t kFeatures = ATTN_FEATURE_PAGED | ATTN_FEATURE_INDEX32 | ATTN_FEATURE_RAGGED;
};

}  // namespace attnfuzz
