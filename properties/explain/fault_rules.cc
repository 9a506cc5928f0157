// The class of fault that a failure points to: a table of rules, the most telling first. A rule reads
// evidence.h, never a message.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "properties/explain/evidence.h"

namespace attnfuzz {
namespace {

using Class = FaultClass;

struct Rule {
  Class fault;
  bool (*holds)(const Evidence& e);
  const char* why;
};

using Answer = Clues::Answer;

// why_of() replaces these two by the words of the clue.
constexpr const char* kByOrder = "the order of threads";
constexpr const char* kByReading = "another reading";

constexpr Rule kRules[] = {
    // The back end's own report.
    {Class::kState, [](const Evidence& e) { return e.detail(Fault::Detail::kFreed); }, "freed memory is used"},
    {Class::kOverflow, [](const Evidence& e) { return e.detail(Fault::Detail::kArithmetic); },
     "an integer overflows"},
    {Class::kLayout,
     [](const Evidence& e) {
       return e.detail(Fault::Detail::kAlignment) || e.report({ATTN_REPORT_ALIGNMENT}) ||
              e.device_says("misaligned address");
     },
     "an address is not aligned as the operation needs"},
    {Class::kDispatch,
     [](const Evidence& e) {
       return (e.v.fault || e.kind({Kind::kRedzone, Kind::kCrash, Kind::kAddress, Kind::kUnwritten})) &&
              (e.at_least("dim_v", 17) || e.at_least("dim_qk", 17));
     },
     "only head dims above some size fail: the instantiation is too small for them"},
    {Class::kRace,
     [](const Evidence& e) {
       return e.report({ATTN_REPORT_DEADLOCK, ATTN_REPORT_DIVERGENCE, ATTN_REPORT_ASYNC,
                        ATTN_REPORT_DISAGREEMENT, ATTN_REPORT_RACE}) ||
              (e.v.fault && !e.report({ATTN_REPORT_DEVICE}) &&
               (e.build_kind == "tsan" || e.build_kind == "racecheck" || e.build_kind == "synccheck"));
     },
     "the back end reports threads that do not synchronise correctly"},
    {Class::kDispatch, [](const Evidence& e) { return e.v.exit_reason == ExitReason::kArithmetic; },
     "an integer was divided by zero"},
    {Class::kTail,
     [](const Evidence& e) {
       const bool filled = e.clues.whole_tiles == Answer::kPasses || e.clues.whole_rows == Answer::kPasses;
       return e.kind({Kind::kUninitialised}) && filled && e.p.seq_k > 0;
     },
     "with whole tiles nothing uninitialised is used"},
    {Class::kState,
     [](const Evidence& e) { return e.kind({Kind::kUninitialised}) || e.report({ATTN_REPORT_UNINITIALISED}); },
     "uninitialised memory is used"},
    // Bits.
    {Class::kNumerics, [](const Evidence& e) { return e.other_bits(); },
     "in a device's arithmetic it is off by one or two roundings, and does not match its plan"},
    // State that a call leaves behind, and the order of threads.
    {Class::kState,
     [](const Evidence& e) {
       return e.v.kind == Kind::kDirty || e.v.kind == Kind::kInputChanged ||
              e.hangs_on(e.c.calls.size() > 1, {"more calls", "calls"}) ||
              e.hangs_on(std::ranges::any_of(e.c.calls, &Call::dirty_workspace), {"a dirty workspace"});
     },
     "the failure needs an earlier call, or what one left in the workspace"},
    {Class::kState, [](const Evidence& e) { return e.clues.alone == Answer::kPasses; },
     "the failing case is right if nothing ran before it"},
    {Class::kSplit,
     [](const Evidence& e) {
       return e.splits() && e.clues.zeroed == Answer::kPasses && e.need("no LSE") != nullptr;
     },
     "splits need their LSE even if the caller does not want it"},
    {Class::kState, [](const Evidence& e) { return e.clues.zeroed == Answer::kPasses; },
     "with a workspace of zeros it passes: uninitialised workspace is read"},
    {Class::kRace,
     [](const Evidence& e) { return e.reduced() && e.hangs_on(false, {"the schedule", "schedule"}); },
     "it depends on the order in which threads run or copies arrive"},
    {Class::kRace, [](const Evidence& e) { return e.clues.orders > e.clues.orders_failed; }, kByOrder},
    {Class::kMask,
     [](const Evidence& e) {
       return e.non_finite() && e.reduced() && e.p.scale == 0 && e.hangs_on(false, {"the scale"}) &&
              !e.large_values();
     },
     "NaN from a scale of 0 with finite scores: hidden scores are scaled"},
    {Class::kRace,
     [](const Evidence& e) {
       return e.non_finite() && e.plain() && e.one_vector() && e.clues.broken_vectors != Answer::kFails &&
              e.clues.whole_vectors != Answer::kPasses && !e.hangs_on_layout() && !e.large_values();
     },
     "NaN only with asynchronous copies of whole vectors: they are used before they arrive"},
    {Class::kRace,
     [](const Evidence& e) {
       return e.wrong() && e.second_tile() && e.plain() && !e.scores_differ() &&
              e.first_wrong({ATTN_PROBE_S, ATTN_PROBE_O}) && e.clues.first_wrong_tile == 0;
     },
     "the first tile is wrong because there is a second one: its buffer is overwritten while in use"},
    {Class::kOverflow,
     [](const Evidence& e) {
       return e.at_least("batch", 1 << 15) || e.at_least("heads_kv", 1 << 15) ||
              e.at_least("heads_q / heads_kv", 1 << 15) || e.at_least("seq_q", 1 << 15) ||
              e.at_least("seq_k", 1 << 15) || (!e.reduced() && e.p.batch * e.p.heads_q > 65535);
     },
     "the failure needs a number beyond 15 bits"},
    {Class::kOverflow, [](const Evidence& e) { return e.clues.product_border > 0; },
     "with half the head dim it needs twice as many keys: an offset into K or V overflows"},
    {Class::kOverflow, [](const Evidence& e) { return e.hangs_on_far_offsets(); },
     "the failure needs an offset beyond 31 bits"},
    {Class::kOverflow, [](const Evidence& e) { return e.needs_pages() && page_count(e.p) > 1 << 15; },
     "the failure needs a page beyond 15 bits"},
    {Class::kOverflow,
     [](const Evidence& e) {
       return e.kind({Kind::kUnwritten, Kind::kFault}) && e.hangs_on(false, {"shared memory limit"});
     },
     "the device refused a launch, and the kernel did not check it"},
    {Class::kTail, [](const Evidence& e) { return e.writes_cache() && e.reduced() && e.exceeds_capacity(); },
     "rows past the capacity of a cache leave a trace"},
    {Class::kLayout, [](const Evidence& e) { return e.writes_cache(); },
     "nothing is computed: bytes of the cache are taken from, or go to, a wrong place"},
    {Class::kUnknown, [](const Evidence& e) { return e.traced != Class::kUnknown; }, kByReading},
    {Class::kTail, [](const Evidence& e) { return e.tail_of_keys() && (!e.wrong() || e.hangs_on_layout()); },
     "with a full last tile of keys it passes, with another partial one it fails"},
    {Class::kDispatch,
     [](const Evidence& e) {
       return e.shape(ShapeKind::kColumnsFrom) && (e.at_least("dim_v", 17) || e.at_least("dim_qk", 17));
     },
     "columns from a border on are wrong, for head dims above some size: the instantiation is too small for "
     "them"},
    {Class::kLayout, [](const Evidence& e) { return e.reduced() && e.hangs_on_layout(); },
     "it depends on strides, gaps or offsets"},
    {Class::kLayout, [](const Evidence& e) { return e.clues.stored_whole == Answer::kPasses; },
     "with bias and mask stored in full it passes: strides of 0 are at fault"},
    {Class::kNumerics, [](const Evidence& e) { return e.splits() && e.large_values() && e.scores_differ(); },
     "the failure needs splits whose scores lie far apart: a weight overflows or vanishes"},
    {Class::kSoftmax, [](const Evidence& e) { return e.low_row_counts_as_dead(); },
     "a row whose scores are all very low counts as one that sees no key: the running maximum starts above "
     "them"},
    {Class::kSplit, [](const Evidence& e) { return e.non_finite() && e.in_logarithm(); },
     "O is right, but the LSE is not a number"},
    {Class::kLayout,
     [](const Evidence& e) { return e.at_least("batch", 2) && e.at_least("heads_q / heads_kv", 2); },
     "the failure needs a second batch entry and grouped heads: they are confused"},
    {Class::kZeroLength, [](const Evidence& e) { return e.splits() && e.clues.full_splits == Answer::kPasses; },
     "if each split has keys it passes: an empty split is at fault"},
    {Class::kSplit, [](const Evidence& e) { return e.splits() && !e.hangs_on(false, {"dim_v", "dim_qk"}); },
     "the failure needs more than one split"},
    // Keys in pages.
    {Class::kTail,
     [](const Evidence& e) {
       return e.needs_pages() && e.non_finite() && e.one_page_is_not_full() && !e.at_least("batch", 2) &&
              !e.at_least("heads_kv", 2);
     },
     "no entry has more than one page, and one of these is not full: a slot without a key is used"},
    {Class::kLayout, [](const Evidence& e) { return e.needs_pages(); }, "the failure needs keys in pages"},
    // K and V in 8 bits.
    {Class::kLayout, [](const Evidence& e) { return e.needs_many_scales(); },
     "the failure needs scales of several batch entries, heads, keys or pages: one is taken for another"},
    // Rows or tiles without a visible key.
    {Class::kSoftmax, [](const Evidence& e) { return e.non_finite() && e.tile_unseen && !e.sound_softmax(); },
     "NaN or infinity, and a query sees no key of a tile: exp(-inf - -inf)"},
    {Class::kSoftmax, [](const Evidence& e) { return e.non_finite() && e.dead_row; },
     "NaN or infinity in a row that sees no key: 0 / 0"},
    {Class::kSoftmax,
     [](const Evidence& e) {
       return e.shape(ShapeKind::kDeadRows) ||
              (e.wrong() && e.dead_row && e.v.where && e.v.where->bound == 0 && e.v.where->expected == 0);
     },
     "a row that sees no key has a result"},
    {Class::kZeroLength, [](const Evidence& e) { return e.zero_length() && !e.wrong(); },
     "it takes a length of 0"},
    {Class::kRace, [](const Evidence& e) { return e.v.kind == Kind::kHang; },
     "it hangs: some thread does not reach a barrier or a wait"},
    // Memory.
    {Class::kLayout, [](const Evidence& e) { return e.hangs_on_layout(); },
     "it depends on strides, gaps or offsets"},
    {Class::kTail,
     [](const Evidence& e) {
       return (e.kind({Kind::kRedzone, Kind::kCrash, Kind::kAddress}) && !e.splits()) ||
              e.report({ATTN_REPORT_SHARED, ATTN_REPORT_ADDRESS}) || e.device_says("illegal memory access") ||
              e.device_says("unspecified launch failure");
     },
     "memory outside an array is accessed"},
    {Class::kTail,
     [](const Evidence& e) {
       return e.hangs_on(e.c.nan_beyond_lengths, {"NaN beyond the key lengths"}) || e.length_beyond_capacity();
     },
     "data beyond a length, or beyond the last key, is used"},
    // The values.
    {Class::kMask,
     [](const Evidence& e) {
       return e.need("softcap") != nullptr && e.need("bias") != nullptr && e.bias_tells();
     },
     "the failure needs a softcap and a bias: their order may be wrong"},
    {Class::kNumerics, [](const Evidence& e) { return e.hangs_on(e.p.softcap != 0, {"softcap"}); },
     "it takes a softcap"},
    {Class::kNumerics, [](const Evidence& e) { return e.reduced() && e.hangs_on(false, {"the scale"}); },
     "the failure needs a scale other than 1"},
    {Class::kNumerics, [](const Evidence& e) { return e.large_values() && e.non_finite(); },
     "NaN or infinity from large scores or values"},
    {Class::kNumerics, [](const Evidence& e) { return e.wrong() && e.by_rounding() && !e.rescaled(); },
     "the first wrong intermediate is off by a rounding to 16 bits"},
    {Class::kNumerics, [](const Evidence& e) { return e.wrong() && e.one_biased_score(); },
     "a bias of a single score suffices: the added value is wrong, not its place or what it hides"},
    // Visible keys and heads.
    {Class::kMask, [](const Evidence& e) { return e.hides_keys() && e.wrong() && e.may_be_mask(); },
     "the failure needs a feature that hides keys, and a wrong set of keys is seen"},
    // Sums that count keys.
    {Class::kTail, [](const Evidence& e) { return e.keys_counted() > 0 && e.counts_a_whole_tile(); },
     "the LSE counts a whole tile of keys although there are fewer"},
    {Class::kTail, [](const Evidence& e) { return e.counts_no_tail(); },
     "the LSE counts the keys of whole tiles only: the last, partial one is left out"},
    {Class::kTail,
     [](const Evidence& e) {
       const bool filled = e.clues.whole_tiles == Answer::kPasses && e.clues.other_tail != Answer::kPasses;
       return e.wrong() && e.plain() && filled && e.p.seq_k > 0 && (!e.of_many_rows() || e.tail_of_keys()) &&
              !e.first_wrong({ATTN_PROBE_O});
     },
     "with whole tiles it passes: the last, partial tile is at fault"},
    {Class::kSplit, [](const Evidence& e) { return e.shape(ShapeKind::kLogBase); },
     "the error is that of a logarithm to another base"},
    {Class::kSplit,
     [](const Evidence& e) {
       return e.only_lse() && e.all_right() && e.of_many_rows() && e.at_least("heads_q / heads_kv", 2);
     },
     "all intermediates are right, but the LSE of packed heads goes to the wrong place"},
    {Class::kDispatch,
     [](const Evidence& e) {
       return e.hangs_on(e.p.heads_q != e.p.heads_kv, {"grouped heads"}) || e.at_least("heads_q / heads_kv", 2);
     },
     "the failure needs query heads that share a KV head"},
    {Class::kTail,
     [](const Evidence& e) {
       return e.wrong() && e.clues.whole_vectors == Answer::kPasses &&
              e.clues.broken_vectors != Answer::kPasses && !e.scores_differ();
     },
     "with head dims of whole vectors it passes: their last columns are at fault"},
    {Class::kNumerics, [](const Evidence& e) { return e.needs_narrow(); }, "the failure needs K and V in 8 bits"},
    {Class::kDispatch,
     [](const Evidence& e) { return !e.splits() && (e.shape(ShapeKind::kColumnsFrom) || e.dims()); },
     "only some head dims, or columns from a border on"},
    {Class::kLayout,
     [](const Evidence& e) {
       return e.shape(ShapeKind::kOtherHead) || e.shape(ShapeKind::kOtherBatch) ||
              e.shape(ShapeKind::kOtherRow) || e.at_least("batch", 2) || e.at_least("heads_kv", 2) ||
              (e.reduced() && e.hangs_on(false, {"more KV heads"}));
     },
     "rows, heads or batch entries hold the results of others, or the failure needs a second one"},
    {Class::kDispatch,
     [](const Evidence& e) { return e.reduced() && e.hangs_on(false, {"the variant", "variant"}); },
     "only one instantiation fails"},
    {Class::kDispatch, [](const Evidence& e) { return e.report({ATTN_REPORT_LAUNCH}); },
     "run() launches something that the device refuses, although plan() accepted it"},
    {Class::kDispatch, [](const Evidence& e) { return e.v.kind == Kind::kRefusal && e.v.plan.size > 0; },
     "run() does not do what plan() accepted"},
    {Class::kDispatch, [](const Evidence& e) { return e.v.kind == Kind::kRefusal; },
     "a legal case is refused, or an illegal one is not"},
    // Tiles.
    {Class::kSoftmax,
     [](const Evidence& e) {
       return e.second_tile() && e.plain() && e.scores_differ() && (!e.hardly_off() || e.rescaled());
     },
     "the failure needs keys of a second tile and different scores: the first tile's result is not rescaled"},
    {Class::kTail,
     [](const Evidence& e) {
       const Need* keys = e.need("seq_k");
       const bool full = keys != nullptr && keys->relation == Relation::kRemainder && e.p.seq_k % e.tile_k == 0;
       if (full) return true;
       if (e.clues.whole_tiles == Answer::kFails || e.clues.other_tail == Answer::kPasses) return false;
       return e.shape(ShapeKind::kLastKeyMissing) ||
              (keys != nullptr && keys->relation == Relation::kRemainder) ||
              (keys != nullptr && e.p.seq_k % e.tile_k != 0 && e.non_finite() && !e.scores_differ());
     },
     "the failure needs a partial last tile, or a full one"},
    {Class::kTail,
     [](const Evidence& e) {
       return e.v.kind == Kind::kUnwritten && (e.need("seq_q") != nullptr || e.need("seq_k") != nullptr);
     },
     "part of an output was never written"},
    // Right scores, wrong results.
    {Class::kSoftmax,
     [](const Evidence& e) {
       return e.wrong() && e.plain() && e.first_wrong({ATTN_PROBE_ROW_MAX, ATTN_PROBE_SCALE});
     },
     "scores are right, but their running maximum or the rescaling by it is wrong"},
    {Class::kRace,
     [](const Evidence& e) {
       return e.non_finite() && e.plain() && e.first_wrong({ATTN_PROBE_O}) && e.clues.first_wrong_tile == 0 &&
              !e.large_values() && e.clues.whole_tiles == Answer::kFails &&
              e.clues.whole_vectors == Answer::kFails;
     },
     "P is right and V is finite, but their product is not, for any sizes: V is used before it arrives"},
    {Class::kRace,
     [](const Evidence& e) {
       return e.non_finite() && e.sound_softmax() && e.in_main_output() && !e.large_values() &&
              e.clues.whole_tiles == Answer::kFails && e.clues.whole_vectors == Answer::kFails;
     },
     "scores, P and the row's sum are right and V is finite, but O is not: V is used before it arrives"},
    {Class::kLayout,
     [](const Evidence& e) {
       return e.wrong() && e.plain() && e.first_wrong({ATTN_PROBE_O}) && e.clues.first_wrong_tile == 0 &&
              !e.second_tile() && !e.of_many_rows();
     },
     "P and V are right, but their product is not: elements of a fragment are exchanged"},
    {Class::kLayout,
     [](const Evidence& e) {
       return e.wrong() && e.plain() && e.first_wrong({ATTN_PROBE_S}) && !e.second_tile() &&
              e.at_least("seq_k", 2);
     },
     "scores belong to other keys: Q or K is read with a wrong layout"},
    {Class::kSplit, [](const Evidence& e) { return e.all_right() && e.v.plan.num_splits > 1 && !e.splits(); },
     "each split's intermediates are right, but their merge is not"},
    {Class::kSoftmax,
     [](const Evidence& e) {
       return e.wrong() && e.plain() && e.all_right() && !e.of_many_rows() && !e.hardly_off();
     },
     "all intermediates are right, but the row's sum is not"},
    {Class::kSoftmax, [](const Evidence& e) { return e.keys_counted() > 0 && !e.of_many_rows(); },
     "the LSE counts keys that do not exist"},
    {Class::kSplit, [](const Evidence& e) { return e.only_lse() && e.c.v.kind != FillKind::kZero; },
     "O is right, only the LSE is wrong"},
    // Kernels that record no intermediates.
    {Class::kMask,
     [](const Evidence& e) {
       return e.non_finite() && e.p.causal && e.need("causal") != nullptr && !e.dead_row && !e.tile_unseen;
     },
     "NaN or infinity with only the causal mask, although it hides no tile and no row: it hides too much"},
    {Class::kNumerics, [](const Evidence& e) { return e.in_one_tile() && e.hardly_off(); },
     "in one tile it is off by less than a hundredth: something is rounded to fewer bits, or a function is "
     "coarse"},
    {Class::kLayout,
     [](const Evidence& e) {
       return e.in_one_tile() && e.scores_differ() && e.values_differ("values of v", e.c.v) &&
              e.at_least("seq_k", 2);
     },
     "in one tile keys have the weights of others: Q or K is read with a wrong layout"},
    {Class::kLayout,
     [](const Evidence& e) {
       constexpr int64_t kFew = 1024;  // keys; beyond, an offset may overflow as well
       return e.wrong() && e.plain() && e.clues.probed == Clues::Probed::kNot && e.p.seq_k <= kFew &&
              e.c.q.kind == FillKind::kZero && e.c.k.kind == FillKind::kZero && e.at_least("seq_k", 2) &&
              e.values_differ("values of v", e.c.v);
     },
     "scores are equal, and a constant V would hide the fault: V is read at wrong places"},
};

std::string why_of(const Rule& rule, const Evidence& e) {
  const Clues& clues = e.clues;
  if (rule.why == kByOrder) {
    const std::string some = std::to_string(clues.orders), failed = std::to_string(clues.orders_failed);
    return "it fails in the executor's own order of threads, and in " +
           (clues.orders_failed ? failed : "none") + " of " + some + " random ones; --build tsan says where";
  }
  if (rule.why != kByReading) return rule.why;
  std::string why = "every wrong value is explained if " + clues.traced_as;
  if (clues.traced_as.find("top-left") != std::string::npos)
    why += "; if that is meant, declare align = ATTN_TOP_LEFT (in Python align=\"top_left\")";
  if (clues.traced_as.find("bottom-right") != std::string::npos)
    why += "; if that is meant, declare align = ATTN_BOTTOM_RIGHT (in Python align=\"bottom_right\")";
  return why;
}

// Finds the next rule that holds and has another class than `besides`.
const Rule* next(const Evidence& e, const Rule* from, Class besides) {
  return std::find_if(from, std::end(kRules),
                      [&](const Rule& rule) { return rule.fault != besides && rule.holds(e); });
}

}  // namespace

FaultGuess guess_fault(const FaultQuestion& question) {
  FaultGuess guess;
  if (question.verdict.outcome != Outcome::kFail) return guess;
  // For these kinds the message already says all that is known.
  if (question.verdict.kind == Kind::kBadPlan || question.verdict.kind == Kind::kBits ||
      question.verdict.kind == Kind::kSlow)
    return guess;
  const Evidence evidence(question);
  if (evidence.thrown()) return guess;
  const auto class_of = [&](const Rule& rule) {
    return rule.fault == Class::kUnknown ? evidence.traced : rule.fault;
  };
  const Rule* rule = std::ranges::find_if(kRules, [&](const Rule& r) { return r.holds(evidence); });
  if (rule == std::end(kRules)) return guess;
  guess.likely = class_of(*rule);
  guess.why = why_of(*rule, evidence);
  const Rule* other = next(evidence, rule + 1, guess.likely);
  if (other != std::end(kRules)) guess.also = class_of(*other);
  return guess;
}

}  // namespace attnfuzz
