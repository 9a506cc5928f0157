// Which class of fault a failure points to: a table of rules, the most telling
// first. A rule reads data, never a message.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include "properties/case/switches.h"
#include "properties/case/words.h"
#include "properties/data/tiles.h"
#include "properties/explain/fault_class.h"

namespace attnfuzz {
namespace {

using Class = FaultClass;

// What a failure shows, in the terms in which attention bugs are told apart.
class Evidence {
 public:
  explicit Evidence(const FaultQuestion& q)
      : c(q.c),
        p(q.c.problem),
        v(q.verdict),
        lane(q.lane),
        clues(q.clues),
        traced(q.clues.traced),
        needs_(q.needs) {
    if (v.plan.tile_q > 0) tile_q = v.plan.tile_q;
    if (v.plan.tile_k > 0) tile_k = v.plan.tile_k;
    look_at_tiles();
  }

  const Case& c;
  const Problem& p;
  const Verdict& v;
  const std::string_view lane;
  const Clues& clues;
  const FaultClass traced;
  int64_t tile_q = 64, tile_k = 64;
  bool tile_unseen = false;  // in the failing head, some row sees no key of some tile
  bool row_unseen = false;   // of some tile the failing row itself, or the first, sees no key
  bool dead_row = false;     // and of none at all

  bool reduced() const { return !needs_.empty(); }
  bool kind(std::initializer_list<Kind> kinds) const { return std::ranges::count(kinds, v.kind) > 0; }
  bool report(std::initializer_list<attn_report_kind> kinds) const {
    return v.fault && std::ranges::count(kinds, v.fault->kind) > 0;
  }
  bool detail(Fault::Detail detail) const { return v.fault && v.fault->detail == detail; }
  bool shape(ShapeKind kind) const { return std::ranges::count(v.shapes, kind, &Shape::kind) > 0; }
  bool wrong() const { return kind({Kind::kWrong, Kind::kRelation}); }
  bool non_finite() const { return v.kind == Kind::kNonFinite; }
  bool only_lse() const { return wrong() && v.where && v.where->tensor == TensorId::kLse; }

  // The need for a part, if there is one that says something: not what the kernel
  // refuses to be without, nor what most values of it show.
  const Need* need(std::string_view part) const {
    const auto it = std::ranges::find_if(needs_, [&](const Need& n) {
      return n.part == part && !n.refused && n.relation != Relation::kOtherThan;
    });
    return it == needs_.end() ? nullptr : &*it;
  }
  // Whether it hangs on any of the parts; of a case that was not reduced, on what it has.
  bool hangs_on(bool present, std::initializer_list<std::string_view> parts) const {
    if (!reduced()) return present;
    return std::ranges::any_of(parts, [&](std::string_view part) { return need(part) != nullptr; });
  }
  bool at_least(std::string_view part, int64_t value) const {
    const Need* n = need(part);
    return n != nullptr && n->value >= value;
  }

  bool hangs_on_layout() const {
    if (!reduced()) {
      return std::ranges::any_of(c.layout, [](const TensorLayout& l) { return l != TensorLayout{}; });
    }
    return std::ranges::any_of(switches(), [&](const Switch& s) {
      const bool layout = s.trait == Trait::kLayout || s.trait == Trait::kInputLayout;
      return layout &&
             std::ranges::any_of(needs_, [&](const Need& n) { return !n.refused && n.part == s.name; });
    });
  }
  // A spread that 31 bits cannot hold, and whose need was not met by a smaller one.
  bool hangs_on_far_offsets() const {
    const bool far =
        std::ranges::any_of(c.layout, [](const TensorLayout& l) { return l.spread > int64_t{1} << 30; });
    return (far && hangs_on_layout()) || largest_dense_offset() > 0x1p31;
  }
  bool zero_length() const {
    int64_t least = std::min({p.seq_q, p.seq_k, p.batch});
    if (p.key_lengths) {
      for (const int64_t length : *p.key_lengths) least = std::min(least, std::max<int64_t>(length, 0));
    }
    if (least != 0 || !reduced()) return least == 0;
    const auto at_zero = [&](std::string_view part) {
      const Need* n = need(part);
      return n != nullptr && n->relation == Relation::kExactly && n->value == 0;
    };
    return at_zero("seq_k") || at_zero("seq_q") || at_zero("batch") || at_zero("the longest key length") ||
           (need("key lengths") != nullptr && p.seq_k > 0);
  }
  bool length_beyond_capacity() const {
    return p.key_lengths && std::ranges::any_of(*p.key_lengths, [&](int64_t n) { return n > p.seq_k; }) &&
           hangs_on(true, {"key lengths", "the longest key length"});
  }
  bool hides_keys() const {
    return hangs_on(p.causal, {"causal"}) ||
           hangs_on(p.window_left >= 0 || p.window_right >= 0,
                    {"a window to the left", "a window to the right", "window_left", "window_right"}) ||
           hangs_on(false, {"alignment"}) || hangs_on(p.mask.has_value(), {"mask", "the mask's parameter"}) ||
           hangs_on(p.bias.has_value(), {"bias", "the bias's parameter"}) ||
           hangs_on(p.key_lengths.has_value(), {"key lengths", "the longest key length"});
  }
  // A bias that takes part in a score, or hides it: not zeros everywhere.
  bool bias_tells() const {
    return p.bias && (p.bias->kind != BiasKind::kZero || p.bias->finite.kind != PatternKind::kAll);
  }
  // One finite value is added to one score: there is no other that could be read in its place, and no
  // key to hide.
  bool one_biased_score() const {
    const bool one = p.batch == 1 && p.heads_q == 1 && p.heads_kv == 1 && p.seq_q == 1 && p.seq_k == 1;
    return one && need("bias") != nullptr && p.bias && p.bias->finite.kind == PatternKind::kAll;
  }
  bool splits() const { return hangs_on(p.num_splits > 1, {"num_splits"}); }
  bool scores_differ() const {
    const auto random = [](const Fill& f) { return f.kind >= FillKind::kOneHot; };
    return hangs_on(false, {"values of q", "values of k"}) && (random(c.k) || random(c.q));
  }
  bool large_values() const {
    return std::ranges::any_of(std::initializer_list<const Fill*>{&c.q, &c.k, &c.v}, [](const Fill* f) {
      return f->kind == FillKind::kHuge || f->kind == FillKind::kSubnormal || std::abs(f->exponent) >= 4;
    });
  }
  // Of the kernel's intermediates, the first that is wrong.
  bool first_wrong(std::initializer_list<attn_probe_tag> tags) const {
    return clues.probed == Clues::Probed::kFirstWrong && std::ranges::count(tags, clues.first_wrong) > 0;
  }
  bool all_right() const { return clues.probed == Clues::Probed::kAllRight; }
  // No further off than 16 bits round.
  bool by_rounding() const {
    return clues.probed == Clues::Probed::kFirstWrong && clues.off > 0 && clues.off < 0x1p-7;
  }
  // The accumulator, right until a second tile of other scores is added to it.
  bool rescaled() const {
    return first_wrong({ATTN_PROBE_O}) && clues.first_wrong_tile > 0 && second_tile() && plain() &&
           scores_differ();
  }
  // A wrong set of keys shows in the scores.
  bool may_be_mask() const { return clues.probed == Clues::Probed::kNot || first_wrong({ATTN_PROBE_S}); }
  // The failing row sees every tile, and what was recorded of its softmax is right: no -inf met another.
  bool sound_softmax() const { return all_right() && v.where && !row_unseen && !splits(); }
  bool of_many_rows() const { return at_least("seq_q", 2); }
  // A row must hold a vector of 16 bytes: which says how it is copied, not which instantiation runs.
  bool one_vector() const {
    const auto is_one = [&](std::string_view part) {
      const Need* n = need(part);
      return n != nullptr && n->relation == Relation::kAtLeast && n->value == 8;
    };
    return is_one("dim_v") || is_one("dim_qk");
  }
  bool second_tile() const { return need("seq_k") != nullptr && p.seq_k > tile_k; }
  bool plain() const { return mask_words(p).empty() && p.num_splits <= 1; }
  bool dims() const {
    // Random data may need their dims to fall into place.
    if (need("values of q") != nullptr || need("values of k") != nullptr || splits()) return false;
    return p.dim_qk != p.dim_v && !one_vector() && hangs_on(false, {"dim_qk", "dim_v", "head dims"});
  }
  // How many keys the LSE counts where all scores are 0; 0 if that cannot be said.
  double keys_counted() const {
    if (!only_lse() || (c.q.kind != FillKind::kZero && c.k.kind != FillKind::kZero)) return 0;
    const double keys = std::exp(v.where->got);
    const bool whole = std::fabs(keys - std::round(keys)) < 0.01;
    return whole && keys > 1.01 * std::exp(v.where->expected) && keys < 1e9 ? keys : 0;
  }
  bool counts_a_whole_tile() const {
    const double due = std::exp(v.where ? v.where->expected : 0), tile = static_cast<double>(tile_k);
    const double padded = std::ceil(due / tile) * tile;
    return std::fabs(keys_counted() - padded) < 0.01 * padded;
  }

 private:
  void look_at_tiles() {
    constexpr int64_t kMostPairs = int64_t{1} << 20;
    if (p.seq_k < 1) dead_row = p.seq_q > 0;
    if (p.batch < 1 || p.seq_q < 1 || p.seq_k < 1 || p.seq_q > kMostPairs / p.seq_k) return;
    const auto inside = [](int64_t at, int64_t size) { return std::clamp<int64_t>(at, 0, size - 1); };
    const Where where = v.where.value_or(Where{});
    const VisibilityCache visible(c, inside(where.b, p.batch), inside(where.h, p.heads_q));
    for (const TileState state : tile_map(c, visible, tile_q, tile_k).states) {
      tile_unseen |= state == TileState::kRowDead || state == TileState::kDead;
    }
    bool any = false;
    for (int64_t first = 0; first < p.seq_k; first += tile_k) {
      bool of_tile = false;
      for (int64_t j = first; j < std::min(first + tile_k, p.seq_k) && !of_tile; ++j)
        of_tile = visible(inside(where.q, p.seq_q), j);
      row_unseen |= !of_tile;
      any |= of_tile;
    }
    dead_row = !any;
  }
  double largest_dense_offset() const {
    const auto product = [](auto... n) { return (static_cast<double>(n) * ...); };
    const double rows = product(p.batch, p.heads_q, p.seq_q);
    return std::max(product(rows, std::max(p.dim_qk, p.dim_v)), p.mask || p.bias ? product(rows, p.seq_k) : 0);
  }

  const std::span<const Need> needs_;
};

struct Rule {
  Class fault;
  bool (*holds)(const Evidence& e);
  const char* why;
};

using Answer = Clues::Answer;

constexpr Rule kRules[] = {
    // The back end's own word.
    {Class::kState, [](const Evidence& e) { return e.detail(Fault::Detail::kFreed); },
     "memory is used after it was given back"},
    {Class::kOverflow, [](const Evidence& e) { return e.detail(Fault::Detail::kArithmetic); },
     "an integer leaves its range"},
    {Class::kLayout,
     [](const Evidence& e) { return e.detail(Fault::Detail::kAlignment) || e.report({ATTN_REPORT_ALIGNMENT}); },
     "an address is not aligned as the operation needs"},
    {Class::kDispatch,
     [](const Evidence& e) {
       return (e.v.fault || e.kind({Kind::kGuard, Kind::kCrash, Kind::kAddress})) &&
              (e.at_least("dim_v", 17) || e.at_least("dim_qk", 17));
     },
     "only head dims past a size: the instantiation does not hold them"},
    {Class::kRace,
     [](const Evidence& e) {
       return e.report({ATTN_REPORT_DEADLOCK, ATTN_REPORT_DIVERGENCE, ATTN_REPORT_ASYNC,
                        ATTN_REPORT_DISAGREEMENT, ATTN_REPORT_RACE}) ||
              (e.v.fault && (e.lane == "tsan" || e.lane == "racecheck" || e.lane == "synccheck"));
     },
     "the back end reports threads that do not meet as they should"},
    {Class::kDispatch, [](const Evidence& e) { return e.v.death == Death::kArithmetic; },
     "an integer was divided by zero"},
    {Class::kTail,
     [](const Evidence& e) {
       return e.kind({Kind::kUninitialised}) && e.clues.whole_tiles == Answer::kPasses && e.p.seq_k > 0;
     },
     "with whole tiles nothing is used before it is written"},
    {Class::kState,
     [](const Evidence& e) { return e.kind({Kind::kUninitialised}) || e.report({ATTN_REPORT_UNINITIALISED}); },
     "what nothing has written is used"},
    // What a call leaves behind, and the order of threads.
    {Class::kState,
     [](const Evidence& e) {
       return e.v.kind == Kind::kDirty || e.v.kind == Kind::kInputChanged ||
              e.hangs_on(e.c.calls.size() > 1, {"more calls", "calls"}) ||
              e.hangs_on(std::ranges::any_of(e.c.calls, &Call::dirty_workspace), {"a dirty workspace"});
     },
     "it takes an earlier call, or what one left in the workspace"},
    {Class::kState, [](const Evidence& e) { return e.clues.alone == Answer::kPasses; },
     "what failed is right where nothing ran before it"},
    {Class::kSplit,
     [](const Evidence& e) {
       return e.splits() && e.clues.zeroed == Answer::kPasses && e.need("no LSE") != nullptr;
     },
     "splits need their LSE where nobody else wants it"},
    {Class::kState, [](const Evidence& e) { return e.clues.zeroed == Answer::kPasses; },
     "with a workspace of zeros it passes: what nothing has written there is read"},
    {Class::kRace,
     [](const Evidence& e) { return e.reduced() && e.hangs_on(false, {"the schedule", "schedule"}); },
     "it depends on the order in which threads run or copies arrive"},
    {Class::kRace,
     [](const Evidence& e) {
       return e.non_finite() && e.plain() && e.one_vector() && e.clues.broken_vectors != Answer::kFails &&
              e.clues.whole_vectors != Answer::kPasses && !e.hangs_on_layout() && !e.large_values();
     },
     "NaN only where whole vectors are copied asynchronously: used before they arrive"},
    {Class::kRace,
     [](const Evidence& e) {
       return e.wrong() && e.second_tile() && e.plain() && !e.scores_differ() &&
              e.first_wrong({ATTN_PROBE_S, ATTN_PROBE_O}) && e.clues.first_wrong_tile == 0;
     },
     "the first tile goes wrong because there is a second: its buffer is written while it is in use"},
    {Class::kOverflow,
     [](const Evidence& e) {
       return e.at_least("batch", 1 << 15) || e.at_least("heads_kv", 1 << 15) ||
              e.at_least("heads_q / heads_kv", 1 << 15) || e.at_least("seq_q", 1 << 15) ||
              e.at_least("seq_k", 1 << 15) || (!e.reduced() && e.p.batch * e.p.heads_q > 65535);
     },
     "it takes a number beyond 15 bits"},
    {Class::kOverflow, [](const Evidence& e) { return e.hangs_on_far_offsets(); },
     "it takes an offset beyond 31 bits"},
    {Class::kOverflow,
     [](const Evidence& e) {
       return e.kind({Kind::kUnwritten, Kind::kFault}) && e.hangs_on(false, {"shared memory limit"});
     },
     "a launch that the device refuses, and nobody looked"},
    {Class::kUnknown, [](const Evidence& e) { return e.traced != Class::kUnknown; },
     "one other reading of the problem explains every wrong value"},
    {Class::kLayout, [](const Evidence& e) { return e.reduced() && e.hangs_on_layout(); },
     "it depends on strides, gaps or offsets"},
    {Class::kLayout, [](const Evidence& e) { return e.clues.stored_whole == Answer::kPasses; },
     "with bias and mask stored whole it passes: strides of 0 are at fault"},
    {Class::kNumerics, [](const Evidence& e) { return e.splits() && e.large_values() && e.scores_differ(); },
     "it takes splits whose scores lie far apart: a weight leaves its range"},
    {Class::kSplit,
     [](const Evidence& e) { return e.non_finite() && e.v.where && e.v.where->tensor == TensorId::kLse; },
     "O is right, the LSE is no number"},
    {Class::kSplit, [](const Evidence& e) { return e.splits() && !e.hangs_on(false, {"dim_v", "dim_qk"}); },
     "it takes more than one split"},
    // No key for a row, or none in a tile.
    {Class::kSoftmax, [](const Evidence& e) { return e.non_finite() && e.tile_unseen && !e.sound_softmax(); },
     "NaN or infinity, and a query sees no key of a tile: exp(-inf - -inf)"},
    {Class::kSoftmax, [](const Evidence& e) { return e.non_finite() && e.dead_row; },
     "NaN or infinity in a row that sees no key: 0 / 0"},
    {Class::kSoftmax,
     [](const Evidence& e) {
       return e.shape(ShapeKind::kDeadRows) || (e.wrong() && e.dead_row && e.v.where && e.v.where->bound == 0 &&
                                                (e.v.where->expected == 0 || std::isinf(e.v.where->expected)));
     },
     "a row that sees no key has a result"},
    {Class::kZeroLength, [](const Evidence& e) { return e.zero_length() && !e.wrong(); },
     "it takes a length of 0"},
    {Class::kRace, [](const Evidence& e) { return e.v.kind == Kind::kHang; },
     "it hangs: a barrier or a wait that not everyone reaches"},
    // Memory.
    {Class::kLayout, [](const Evidence& e) { return e.hangs_on_layout(); },
     "it depends on strides, gaps or offsets"},
    {Class::kTail,
     [](const Evidence& e) {
       return (e.kind({Kind::kGuard, Kind::kCrash, Kind::kAddress}) && !e.splits()) ||
              e.report({ATTN_REPORT_SHARED, ATTN_REPORT_ADDRESS, ATTN_REPORT_DEVICE});
     },
     "memory outside an array is touched"},
    {Class::kTail,
     [](const Evidence& e) {
       return e.hangs_on(e.c.nan_beyond_lengths, {"NaN beyond the key lengths"}) || e.length_beyond_capacity();
     },
     "what lies beyond a length, or beyond the last key, is used"},
    // What the numbers are.
    {Class::kMask,
     [](const Evidence& e) {
       return e.need("softcap") != nullptr && e.need("bias") != nullptr && e.bias_tells();
     },
     "it takes a softcap and a bias: which of them comes first"},
    {Class::kNumerics, [](const Evidence& e) { return e.hangs_on(e.p.softcap != 0, {"softcap"}); },
     "it takes a softcap"},
    {Class::kNumerics, [](const Evidence& e) { return e.reduced() && e.hangs_on(false, {"the scale"}); },
     "it takes a scale other than 1"},
    {Class::kNumerics, [](const Evidence& e) { return e.large_values() && e.non_finite(); },
     "NaN or infinity from large scores or values"},
    {Class::kNumerics, [](const Evidence& e) { return e.wrong() && e.by_rounding() && !e.rescaled(); },
     "the first intermediate that is wrong is off by what 16 bits round"},
    {Class::kNumerics, [](const Evidence& e) { return e.wrong() && e.one_biased_score(); },
     "a bias of one score does it: what is added, not where it is read or what it hides"},
    // Which keys, which heads.
    {Class::kMask, [](const Evidence& e) { return e.hides_keys() && e.wrong() && e.may_be_mask(); },
     "it takes something that hides keys, and a wrong set of them is seen"},
    // Sums that count keys.
    {Class::kTail, [](const Evidence& e) { return e.keys_counted() > 0 && e.counts_a_whole_tile(); },
     "the LSE counts a whole tile of keys where there are fewer"},
    {Class::kTail,
     [](const Evidence& e) {
       return e.wrong() && e.plain() && e.clues.whole_tiles == Answer::kPasses && e.p.seq_k > 0 &&
              !e.of_many_rows() && !e.first_wrong({ATTN_PROBE_O});
     },
     "with whole tiles it passes: the last one, partly filled, is at fault"},
    {Class::kSplit, [](const Evidence& e) { return e.shape(ShapeKind::kLogBase); },
     "the error is that of a logarithm to another base"},
    {Class::kSplit,
     [](const Evidence& e) {
       return e.only_lse() && e.all_right() && e.of_many_rows() && e.at_least("heads_q / heads_kv", 2);
     },
     "all intermediates are right, but not where the LSE of packed heads goes"},
    {Class::kDispatch,
     [](const Evidence& e) {
       return e.hangs_on(e.p.heads_q != e.p.heads_kv, {"grouped heads"}) || e.at_least("heads_q / heads_kv", 2);
     },
     "it takes query heads that share a KV head"},
    {Class::kTail,
     [](const Evidence& e) {
       return e.wrong() && e.clues.whole_vectors == Answer::kPasses &&
              e.clues.broken_vectors != Answer::kPasses && !e.scores_differ();
     },
     "with head dims of whole vectors it passes: their last columns are at fault"},
    {Class::kDispatch,
     [](const Evidence& e) { return !e.splits() && (e.shape(ShapeKind::kColumnsFrom) || e.dims()); },
     "only some head dims, or columns from a border on"},
    {Class::kLayout,
     [](const Evidence& e) {
       return e.shape(ShapeKind::kOtherHead) || e.shape(ShapeKind::kOtherBatch) ||
              e.shape(ShapeKind::kOtherRow) || e.at_least("batch", 2) || e.at_least("heads_kv", 2) ||
              (e.reduced() && e.hangs_on(false, {"more KV heads"}));
     },
     "rows, heads or batch entries hold the results of others, or a second one is needed"},
    {Class::kDispatch,
     [](const Evidence& e) { return e.reduced() && e.hangs_on(false, {"the variant", "variant"}); },
     "only one instantiation does it"},
    {Class::kDispatch, [](const Evidence& e) { return e.report({ATTN_REPORT_LAUNCH}); },
     "run() launches what the device refuses, though plan() accepted it"},
    {Class::kDispatch, [](const Evidence& e) { return e.v.kind == Kind::kRefusal && e.v.plan.size > 0; },
     "run() does not do what plan() accepted"},
    {Class::kDispatch, [](const Evidence& e) { return e.v.kind == Kind::kRefusal; },
     "a legal case is refused, or an illegal one is not"},
    // Tiles.
    {Class::kSoftmax, [](const Evidence& e) { return e.second_tile() && e.plain() && e.scores_differ(); },
     "it takes keys of a second tile and scores that differ: what the first tile left is not rescaled"},
    {Class::kTail,
     [](const Evidence& e) {
       const Need* keys = e.need("seq_k");
       return e.shape(ShapeKind::kLastKeyMissing) ||
              (keys != nullptr && keys->relation == Relation::kRemainder) ||
              (keys != nullptr && e.p.seq_k % e.tile_k != 0 && e.non_finite() && !e.scores_differ() &&
               e.clues.whole_tiles != Answer::kFails);
     },
     "it takes a last tile that is partly filled"},
    {Class::kTail,
     [](const Evidence& e) {
       return e.v.kind == Kind::kUnwritten && (e.need("seq_q") != nullptr || e.need("seq_k") != nullptr);
     },
     "part of an output was never written"},
    // What comes of right scores.
    {Class::kSoftmax,
     [](const Evidence& e) {
       return e.wrong() && e.plain() && e.first_wrong({ATTN_PROBE_ROW_MAX, ATTN_PROBE_SCALE});
     },
     "scores are right, but not their running maximum or what rescales by it"},
    {Class::kRace,
     [](const Evidence& e) {
       return e.non_finite() && e.plain() && e.first_wrong({ATTN_PROBE_O}) && e.clues.first_wrong_tile == 0 &&
              !e.large_values() && e.clues.whole_tiles == Answer::kFails &&
              e.clues.whole_vectors == Answer::kFails;
     },
     "P is right, V is finite, their product is not, whatever the sizes: V is used before it arrives"},
    {Class::kRace,
     [](const Evidence& e) {
       return e.non_finite() && e.sound_softmax() && e.v.where->tensor == TensorId::kO && !e.large_values() &&
              e.clues.whole_tiles == Answer::kFails && e.clues.whole_vectors == Answer::kFails;
     },
     "scores, P and the row's sum are right, V is finite, O is not: V is used before it arrives"},
    {Class::kLayout,
     [](const Evidence& e) {
       return e.wrong() && e.plain() && e.first_wrong({ATTN_PROBE_O}) && e.clues.first_wrong_tile == 0 &&
              !e.second_tile() && !e.of_many_rows();
     },
     "P is right, and so is V, but not their product: elements of a fragment change places"},
    {Class::kLayout,
     [](const Evidence& e) {
       return e.wrong() && e.plain() && e.first_wrong({ATTN_PROBE_S}) && !e.second_tile() &&
              e.at_least("seq_k", 2);
     },
     "scores of other keys: what Q or K is read by does not fit how it lies"},
    {Class::kSoftmax,
     [](const Evidence& e) { return e.wrong() && e.plain() && e.all_right() && !e.of_many_rows(); },
     "all intermediates are right, but not what they add up to: the row's sum"},
    {Class::kSoftmax, [](const Evidence& e) { return e.keys_counted() > 0 && !e.of_many_rows(); },
     "the LSE counts keys that are not there"},
    {Class::kSplit, [](const Evidence& e) { return e.only_lse() && e.c.v.kind != FillKind::kZero; },
     "O is right, only the LSE is wrong"},
};

// Two rules of one class need not both be told.
const Rule* next(const Evidence& e, const Rule* from, Class besides) {
  return std::find_if(from, std::end(kRules),
                      [&](const Rule& rule) { return rule.fault != besides && rule.holds(e); });
}

}  // namespace

FaultGuess guess_fault(const FaultQuestion& question) {
  FaultGuess guess;
  if (question.verdict.outcome != Outcome::kFail) return guess;
  if (question.verdict.kind == Kind::kBadPlan) return guess;  // its message says what is wrong: nothing was run
  const Evidence evidence(question);
  const auto class_of = [&](const Rule& rule) {
    return rule.fault == Class::kUnknown ? evidence.traced : rule.fault;
  };
  const Rule* rule = std::ranges::find_if(kRules, [&](const Rule& r) { return r.holds(evidence); });
  if (rule == std::end(kRules)) return guess;
  guess.likely = class_of(*rule);
  guess.why = rule->why;
  const Rule* other = next(evidence, rule + 1, guess.likely);
  if (other != std::end(kRules)) guess.also = class_of(*other);
  return guess;
}

}  // namespace attnfuzz
