// A target in this process whose kernel is right, or wrong on purpose.
//
// The kernel is plain host attention in fp32, split over keys. It is written only from
// attention.h, and to be read. It honours every feature of the contract, so every
// property must pass on it. Each flaw is the smallest change that makes one class of
// bug, so that tests can show that every property catches something.
//
//   FakeTarget target;                       // right
//   FakeTarget broken(Flaw::kDropsLastKey);  // attention without the last key of a partial tile
//   Verdict v = judge(c, *find_property("reference"), broken, documented());
#pragma once

#include <array>

#include "properties/judge/target/target.h"

namespace attnfuzz {

enum class Flaw {
  kNone,
  kHiddenTimesZero,  // no flaw either: V of hidden keys is multiplied by 0, and the plan declares that
  kTextbook,         // nor is this: P is divided by its sum and rounded to the input's format, as the plan declares
  kTextbookOpen,     // the same, but the plan does not tell when P is rounded
  // Numbers.
  kDropsLastKey,   // the last key of a partial tile is dropped
  kWholeTileLost,  // a last tile with one key is never visited
  kHeadMap,        // kv head = h mod heads_kv
  kBatchScale,     // odd batch entries use another scale
  kSoftcapIgnored,
  kWindowExclusive,  // the left side of the window is exclusive
  kWindowOverflow,   // diagonal + window_right wraps in 64 bits
  kAlignIgnored,     // always top-left
  kLengthIgnored,    // the lengths of batch entries after the first are ignored
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
  kFlushesP,              // kTextbook, but in fp16 weights below 2^-22, 8 times what rounds to 0, are 0
  kFirstKeyTwice,         // key 0 counts twice in sum and product
  kReductionCountsTwice,  // partial O is multiplied by its own sum again
  kReductionTrustsFirst,  // LSE of split 0 is taken as the largest, others are clipped to it
  kSplitsWeighed,         // all but the first count 12 % too much in O; the LSE is right
  kPartialLseWrong,       // the partial LSE of the last split is wrong; the reduction corrects it
  // Bits: within every bound, but not the promised bits.
  kBatchRounds,      // sums run backwards in odd batch entries
  kHeadRounds,       // sums run backwards in odd heads
  kHiddenKeyRounds,  // the order of sums depends on the content of K beyond the last visible key
  kLayoutRounds,     // the order of sums depends on whether K's rows are contiguous
  kScaleRounds,      // a score is rounded after adding 2^-12
  kHeadsAligned,     // O is written by 16 bytes if its rows allow it, without a check of its heads and batch
                     // entries
  // State and memory.
  kWorkspaceTrusted,  // the content of a used workspace changes the result
  kKeepsPartials,     // partials in the workspace are used, even if another call left them
  kCountsCalls,       // from the second call on the last bit of O differs
  kStreamMatters,
  kWritesPast,         // one element behind O
  kSkipsLastRow,       // the last row of O is not written
  kSkipsLse,           // the LSE of the last row is not written
  kWritesInput,        // scales Q in place
  kReadsBeyondLength,  // adds 0 * the first value beyond the length
  kNanLeaksBatch,      // adds 0 * the value of the batch entry before
  kNanSwallowed,       // a NaN value counts as 0
  // Contract.
  kRefusesSilently,  // refuses dim_qk above 64 without a reason
  kRefusesLate,      // refuses dim_qk above 64 in run()
  kAcceptsDims,      // accepts dims above 256
  kAcceptsNanScale,
  kPlanNonsense,     // tile_k = 0
  kPlansIn32Bits,    // the workspace's bytes are computed in 32 bits
  kLeavesForNoKeys,  // returns without writing O if there are no keys
  kIgnoresVariant,   // ignores the choice among its two variants
  kCrashes,          // pretends to crash if seq_k is 1 more than a multiple of the tile
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
  // Declares features that the kernel does not have: it treats such problems as ordinary ones.
  void take_features(uint64_t bits) { info_.features |= bits; }
  // Declares inputs in fp32, which the kernel can read.
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
