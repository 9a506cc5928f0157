// A target in this process whose kernel is right, and can be made wrong on purpose.
//
// The kernel is a plain host attention in fp32, split over keys, written from
// attention.h alone and for reading. It honours every feature of the contract,
// so that every property must pass on it; and it has flaws to switch on, each
// the smallest change that makes one class of bug, so that every property can be
// shown to catch something.
//
//   FakeTarget target;                       // right
//   FakeTarget broken(Flaw::kDropsLastKey);  // attention without the last key of a partial tile
//   Verdict v = judge(c, *find_property("reference"), broken, documented());
#pragma once

#include <array>

#include "properties/judge/target.h"

namespace attnfuzz {

enum class Flaw {
  kNone,
  kHiddenTimesZero,  // none either: V of keys that a row may not see enters times 0, and the plan says so
  // Numbers.
  kDropsLastKey,   // of a partial tile
  kWholeTileLost,  // a last tile with one key is never visited
  kHeadMap,        // kv head = h mod heads_kv
  kBatchScale,     // odd batch entries use another scale
  kSoftcapIgnored,
  kWindowExclusive,  // the left side
  kWindowOverflow,   // diagonal + window_right wraps in 64 bits
  kAlignIgnored,     // always top-left
  kLengthIgnored,    // of batch entries after the first
  kMaskBroadcast,    // a mask is read as if it had one head
  kBiasClipped,      // a bias below -1e4 hides the key
  kStrideOfV,        // K is walked with V's sequence stride
  kLseBase,          // log2 instead of ln
  kNanOnDeadRow,
  kDeadRowDisturbs,       // a dead row changes the last bit of the LSE below
  kConstantAdded,         // 2^-6 on every element of O
  kVClipped,              // |V| above 2 is 2
  kNoMaximum,             // scores are not shifted by their maximum
  kScoresClipped,         // |score| above 8 is 8
  kScaleRounded,          // the scale is rounded to 4 bits upwards of 1
  kFirstKeyTwice,         // key 0 counts twice in sum and product
  kReductionCountsTwice,  // partial O is multiplied by its own sum again
  kReductionTrustsFirst,  // LSE of split 0 is taken as the largest, others are clipped to it
  kSplitsWeighed,         // all but the first count 12 % too much in O; the LSE is right
  kPartialLseWrong,       // of the last split; the reduction makes up for it
  // Bits: within every bound, yet not what is promised.
  kBatchRounds,      // sums run backwards in odd batch entries
  kHeadRounds,       // and in odd heads
  kHiddenKeyRounds,  // the order of sums depends on what lies in K beyond the last seen key
  kLayoutRounds,     // and on whether K's rows are contiguous
  kScaleRounds,      // a score is rounded after adding 2^-12
  kHeadsAligned,  // O is written by 16 bytes where its rows allow, wherever its heads and batch entries begin
  // State and memory.
  kWorkspaceTrusted,  // what a used workspace holds changes the result
  kKeepsPartials,     // that it finds in the workspace, whoever left them
  kCountsCalls,       // from the second call on the last bit of O differs
  kStreamMatters,
  kWritesPast,         // one element behind O
  kSkipsLastRow,       // of O
  kSkipsLse,           // of the last row
  kWritesInput,        // scales Q in place
  kReadsBeyondLength,  // adds 0 * the first value beyond the length
  kNanLeaksBatch,      // adds 0 * the value of the batch entry before
  kNanSwallowed,       // a NaN value counts as 0
  // Contract.
  kRefusesSilently,  // dim_qk above 64, without a reason
  kRefusesLate,      // dim_qk above 64, in run()
  kAcceptsDims,      // dims above 256
  kAcceptsNanScale,
  kPlanNonsense,     // tile_k = 0
  kPlansIn32Bits,    // the workspace's bytes
  kLeavesForNoKeys,  // before it has looked at O
  kIgnoresVariant,   // of two that it says it has
  kCrashes,          // pretends to, where seq_k is 1 more than a multiple of the tile
  kHangs,
  kFaults,
};

const char* to_string(Flaw flaw);

// True unless O's rows are 16 bytes apart and its heads or batch entries are not.
bool fake_o_is_aligned(const attn_problem& p, const attn_tensors& t);

class FakeTarget : public Target {
 public:
  static constexpr int64_t kTileQ = 16, kTileK = 16;

  explicit FakeTarget(Flaw flaw = Flaw::kNone, bool stages = true);
  // From now on it takes inputs in fp32 too, and says so.
  // Other kinds of problem than it knows: it answers them as if they were ordinary, and so ignores what they
  // ask.
  void take_features(uint64_t bits) { info_.features |= bits; }
  void take_fp32() { info_.features |= ATTN_FEATURE_F32; }
  const KernelInfo& info() const override { return info_; }
  Arena& arena() override { return arena_; }
  PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override;
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override;
  std::optional<attn_partials> partials(const attn_problem& problem, const attn_plan& plan,
                                        std::string* why) override;

 private:
  const Flaw flaw_;
  KernelInfo info_;
  Arena arena_;
  int calls_ = 0;
};

}  // namespace attnfuzz
