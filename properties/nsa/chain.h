// Runs native sparse attention from end to end on kernels of its stages. The oracle judges each call on the
// inputs that the call got, so an error in one call does not excuse an error in the next.
//
//   K, V        compress -> K_cmp, V_cmp
//   Q           attention over these (ATTN_FEATURE_KEY_STEP) -> O_1
//   Q, K_cmp, LSE of O_1    scores and choice -> lists -> attention over listed blocks -> O_2
//   Q, K, V     attention within a window -> O_3
//   gates       combine O_1, O_2, O_3 -> O
//
// A kernel of the operation nsa_score scores and chooses in one call. Without one, scores_of() computes the
// scores on the host, and a kernel of nsa_select chooses.
//
//   const Pass prefill = run_pass(sizes, inputs, tokens, PassKind::kPrefill, kernels);
//   if (prefill.failure) puts(prefill.failure->message.c_str());
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "properties/judge/given_call.h"
#include "properties/nsa/sizes.h"

namespace attnfuzz::nsa {

enum class Stage : uint8_t { kCompress, kCompressed, kScore, kChoose, kListed, kWindow, kCombine };
inline constexpr size_t kStages = 7;
// A kernel that scores also chooses: one of these two runs.
inline constexpr std::pair<size_t, size_t> kEither = {static_cast<size_t>(Stage::kScore),
                                                      static_cast<size_t>(Stage::kChoose)};
const char* name_of(Stage stage);
// True if a kernel with these features (attn_kernel.features) does the stage.
bool does(uint64_t features, Stage stage);

struct StageKernel {
  Target* target = nullptr;
  const Calibration* calibration = nullptr;
};
// A kernel for each stage. One of kScore and kChoose is enough; if both have a kernel, that of kScore runs.
using Kernels = std::array<StageKernel, kStages>;
// The stage that makes the lists: kScore if it has a kernel, else kChoose.
Stage choosing(const Kernels& kernels);

// Moves format, heads and columns into the domains of the kernels. If no sizes lie in all domains, some kernel
// will refuse them.
void fit_domains(const Kernels& kernels, Sizes* sizes);

// The kind of a pass says how the tokens become batch entries.
enum class PassKind : uint8_t {
  kPrefill,  // one entry with the queries of all tokens
  kDecode,   // each query is an entry, with the keys of its own token and of all tokens before it
  kPacked    // each sequence of Sizes::packed is an entry, of queries and of keys. The combination, which does
             // not know of entries, gets the rows of all tokens, as in a prefill.
};
const char* name_of(PassKind kind);

// Names the first kernel that runs in a packed pass but takes no packed entries, with its stage. Empty if there
// is none.
std::string takes_no_packed(const Kernels& kernels);

// A call that went wrong.
struct ChainFailure {
  Stage stage;
  std::string message;  // one line for people
  Verdict verdict;
  Case c;                          // its fills only resemble the call's inputs
  std::vector<GivenInput> inputs;  // the call's inputs
};

struct Pass {
  std::string refused;  // why a call was refused or could not be judged; empty if all calls were judged
  std::optional<ChainFailure> failure;
  Stage chooses = Stage::kChoose;  // choosing()
  std::array<GivenCall, kStages> calls;
  double worst = 0;  // the largest error/bound of a call

  bool complete() const { return refused.empty() && !failure; }
  const std::vector<int64_t>& lists() const {
    return calls[static_cast<size_t>(chooses)].outputs.integers(TensorId::kChosen);
  }
};

// The problem of a stage in a pass. `tokens` are the tokens whose queries attend; except in a decode these are
// all tokens.
Case case_of(Stage stage, const Sizes& sizes, std::span<const int64_t> tokens, PassKind kind);

Pass run_pass(const Sizes& sizes, const Inputs& inputs, std::span<const int64_t> tokens, PassKind kind,
              const Kernels& kernels);

// The scores from which blocks are chosen, indexed by (batch entry, KV head, query, block). All entries have
// the blocks of the longest; rows of queries that a packed entry does not have are 0. The score of block j is
//
//   s_j = sum_h sum_i |[i d, i d + l) n [j l', (j + 1) l')| / d p_hi
//
// Here h runs over the heads of the group, i over the compressed blocks, p_hi is the weight of block i in head
// h, and n is the intersection of key ranges. Computed in double from the given compressed keys; NaN for blocks
// that begin behind the query.
std::vector<float> scores_of(const Sizes& sizes, const Problem& compressed, std::span<const float> q,
                             std::span<const float> k_cmp);

}  // namespace attnfuzz::nsa
