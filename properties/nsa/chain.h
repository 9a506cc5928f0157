// Native sparse attention from end to end, on kernels of its stages. Each call is judged by its oracle at the
// inputs that it got, so an error in one does not excuse another.
//
//   K, V        compress -> K_cmp, V_cmp
//   Q           attention over these (ATTN_FEATURE_KEY_STEP) -> O_1
//   Q, K_cmp    scores, on the host -> choose -> lists -> attention over listed blocks -> O_2
//   Q, K, V     attention within a window -> O_3
//   gates       combine O_1, O_2, O_3 -> O
//
//   const Pass prefill = run_pass(sizes, inputs, tokens, /*decode=*/false, kernels);
//   if (prefill.failure) puts(prefill.failure->message.c_str());
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "properties/judge/given_call.h"
#include "properties/nsa/sizes.h"

namespace attnfuzz::nsa {

enum class Stage : uint8_t { kCompress, kCompressed, kChoose, kListed, kWindow, kCombine };
inline constexpr size_t kStages = 6;
const char* name_of(Stage stage);
// The bits of attn_kernel.features that a kernel of the stage has; a forward pass needs none.
uint64_t needs_of(Stage stage);

struct StageKernel {
  Target* target = nullptr;
  const Calibration* calibration = nullptr;
};
using Kernels = std::array<StageKernel, kStages>;

// A call that went wrong.
struct ChainFailure {
  Stage stage;
  std::string message;  // one line for people
  Verdict verdict;
  Case c;                          // its fills are like the call's numbers, not equal to them
  std::vector<GivenInput> inputs;  // the call's numbers
};

// The queries of all tokens in one call, from the first on; or a decode, with a batch entry for each query and
// as many keys as that query's token comes after, itself included.
struct Pass {
  std::string refused;  // why a kernel did not take its call, or it could not be judged; empty: all were judged
  std::optional<ChainFailure> failure;
  std::array<GivenCall, kStages> calls;
  double worst = 0;  // the largest error/bound of a call

  bool complete() const { return refused.empty() && !failure; }
};

// The problem of a stage in a pass: `tokens` are the tokens whose queries are asked, which is all of them in a
// prefill.
Case case_of(Stage stage, const Sizes& sizes, std::span<const int64_t> tokens, bool decode);

Pass run_pass(const Sizes& sizes, const Inputs& inputs, std::span<const int64_t> tokens, bool decode,
              const Kernels& kernels);

// The sum over the heads of a group of what their queries' weights give to each chosen block, by the share of a
// compressed block that lies in it: s_j = sum_h sum_i |[i d, i d + l) n [j l', (j + 1) l')| / d p_hi. Worked
// out in double, of the compressed keys as they are; NaN for blocks that begin behind the query. By (batch
// entry, KV head, query, block).
std::vector<float> scores_of(const Sizes& sizes, const Problem& compressed, std::span<const float> q,
                             std::span<const float> k_cmp);

}  // namespace attnfuzz::nsa
