// Answers questions about a failure that separate the classes of attention bugs. The rules of fault_rules.cc
// ask them. The answers come from data; only errors of CUDA and of host code are recognised by their message.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "properties/case/features/domain.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/pages.h"
#include "properties/case/words.h"
#include "properties/data/recipe.h"
#include "properties/data/tiles.h"
#include "properties/explain/fault_class.h"

namespace attnfuzz {

class Evidence {
 public:
  explicit Evidence(const FaultQuestion& q)
      : c(q.c),
        p(q.c.problem),
        v(q.verdict),
        build_kind(q.build_kind),
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
  const std::string_view build_kind;
  const Clues& clues;
  const FaultClass traced;
  int64_t tile_q = 64, tile_k = 64;
  bool tile_unseen = false;  // in the failing head, some row sees no key of some tile
  bool row_unseen = false;   // some tile has no key that the failing (or first) row sees
  bool dead_row = false;     // that row sees no key at all

  bool reduced() const { return !needs_.empty(); }
  bool kind(std::initializer_list<Kind> kinds) const { return std::ranges::count(kinds, v.kind) > 0; }
  bool report(std::initializer_list<attn_report_kind> kinds) const {
    return v.fault && std::ranges::count(kinds, v.fault->kind) > 0;
  }
  // True if an error of the CUDA runtime or driver was reported, and its message has these words. An exception
  // of host code is reported in the same way, but has other words.
  bool device_says(std::string_view words) const {
    return report({ATTN_REPORT_DEVICE}) && v.fault->message.find(words) != std::string::npos;
  }
  bool detail(Fault::Detail detail) const { return v.fault && v.fault->detail == detail; }
  bool shape(ShapeKind kind) const { return std::ranges::count(v.shapes, kind, &Shape::kind) > 0; }
  bool wrong() const { return kind({Kind::kWrong, Kind::kRelation}); }
  bool non_finite() const { return v.kind == Kind::kNonFinite; }
  // True if the executor uses a device's roundings, and the error is within its bound or hardly outside.
  bool other_bits() const {
    constexpr double kHardly = 2;  // error/bound
    return c.env.arithmetic != ATTN_ARITHMETIC_ANY &&
           ((v.kind == Kind::kRelation && v.property == "bit_exact") ||
            (v.kind == Kind::kWrong && v.worst <= kHardly));
  }
  // The failure lies in an output that is a logarithm (the LSE), or in the main one.
  bool in_logarithm() const {
    const Operation& operation = operation_of(c.problem.features);
    return v.where && operation.has(v.where->tensor) && spec_of(v.where->tensor).role == Role::kOutput &&
           operation.output(v.where->tensor).logarithm;
  }
  bool in_main_output() const { return v.where && v.where->tensor == operation_of(c.problem.features).main(); }
  bool only_lse() const { return wrong() && in_logarithm(); }

  // Returns the need for a part; null if there is none, or if it says nothing. It says nothing if the kernel refuses
  // the case without the part or with smaller values, or if most values satisfy it.
  const Need* need(std::string_view part) const {
    const auto it = std::ranges::find_if(needs_, [&](const Need& n) {
      return n.part == part && !n.refused && n.relation != Relation::kOtherThan && !least_taken(n);
    });
    return it == needs_.end() ? nullptr : &*it;
  }
  // True if the failure needs any of the parts. Without a reduction: if the case has the feature.
  bool hangs_on(bool present, std::initializer_list<std::string_view> parts) const {
    if (!reduced()) return present;
    return std::ranges::any_of(parts, [&](std::string_view part) { return need(part) != nullptr; });
  }
  bool at_least(std::string_view part, int64_t value) const {
    const Need* n = need(part);
    return n != nullptr && n->value >= value;
  }

  bool needs_pages() const { return p.paging.has_value() && hangs_on(true, {"pages"}); }
  bool needs_narrow() const { return p.kv8.has_value() && hangs_on(true, {"K and V in 8 bits"}); }
  // The failure needs scales of 8-bit K or V that differ between entries, heads, keys or pages.
  bool needs_many_scales() const {
    if (!p.kv8) return false;
    const auto many = [](const KvScales& s) { return s.entries || s.heads || s.keys || s.page > 0; };
    return hangs_on(many(p.kv8->k), {"scales of K by entry", "scales of K by head", "scales of K by key",
                                     "scales of K by page"}) ||
           hangs_on(many(p.kv8->v), {"scales of V by entry", "scales of V by head", "scales of V by key",
                                     "scales of V by page"});
  }
  // Each entry has one page at most, and some page is not full.
  bool one_page_is_not_full() const {
    bool one = true, gap = false;
    for (int64_t b = 0; b < p.batch; ++b) {
      const int64_t keys = paged_keys(p, b);
      one = one && keys <= p.paging->size;
      gap = gap || (keys > 0 && keys < p.paging->size);
    }
    return one && gap;
  }

  // The operation writes a cache, and has nothing to compute.
  bool writes_cache() const { return attnfuzz::writes_cache(p.features); }
  // New rows of an entry do not fit its cache. In a reduced case the failure needs it.
  bool exceeds_capacity() const {
    for (int64_t b = 0; b < p.batch; ++b) {
      if (new_rows(p, b) > 0 && held_keys(p, b) + new_rows(p, b) > p.seq_k) return true;
    }
    return false;
  }

  bool hangs_on_layout() const {
    if (!reduced()) {
      return c.once != StoredOnce{} ||
             std::ranges::any_of(c.layout, [](const TensorLayout& l) { return l != TensorLayout{}; });
    }
    return std::ranges::any_of(shrink_toggles(), [&](const ShrinkToggle& s) {
      const bool layout = s.trait == Trait::kLayout || s.trait == Trait::kInputLayout;
      return layout &&
             std::ranges::any_of(needs_, [&](const Need& n) { return !n.refused && n.part == s.name; });
    });
  }
  // True if the failure needs a spread beyond 31 bits, and no smaller one satisfied the need.
  bool hangs_on_far_offsets() const {
    // With many pages, a smaller stride from page to page reaches as far.
    const int64_t steps = p.paging ? std::max<int64_t>(page_count(p) - 1, 1) : 1;
    const bool far =
        std::ranges::any_of(c.layout, [&](const TensorLayout& l) { return l.spread > (int64_t{1} << 30) / steps; });
    return (far && hangs_on_layout()) || largest_dense_offset() > 0x1p31;
  }
  bool zero_length() const {
    int64_t least = std::min({p.seq_q, p.seq_k, p.batch});
    if (p.key_lengths) {
      for (const int64_t length : *p.key_lengths) least = std::min(least, std::max<int64_t>(length, 0));
    }
    for (const auto* side : {&p.packed_q, &p.packed_k}) {
      if (!*side) continue;
      for (const int64_t length : (*side)->lengths) least = std::min(least, std::max<int64_t>(length, 0));
    }
    if (least != 0 || !reduced()) return least == 0;
    const auto at_zero = [&](std::string_view part) {
      const Need* n = need(part);
      return n != nullptr && n->relation == Relation::kExactly && n->value == 0;
    };
    return at_zero("seq_k") || at_zero("seq_q") || at_zero("batch") || at_zero("the longest key length") ||
           (need("key lengths") != nullptr && p.seq_k > 0) || empty_packed_entry();
  }
  // The failure needs packed entries, and one of them has no query or no key.
  bool empty_packed_entry() const {
    const auto empty = [](const std::optional<Packing>& side) {
      return side && std::ranges::any_of(side->lengths, [](int64_t n) { return n <= 0; });
    };
    return (empty(p.packed_q) && hangs_on(true, {"packed entries", "packed queries"})) ||
           (empty(p.packed_k) && hangs_on(true, {"packed entries", "packed keys"}));
  }
  bool length_beyond_capacity() const {
    const int64_t most = most_positions(p, p.seq_k);
    return p.key_lengths && std::ranges::any_of(*p.key_lengths, [&](int64_t n) { return n > most; }) &&
           hangs_on(true, {"key lengths", "the longest key length"});
  }
  bool hides_keys() const {
    return hangs_on(p.causal, {"causal"}) ||
           hangs_on(p.window_left >= 0 || p.window_right >= 0,
                    {"a window to the left", "a window to the right", "window_left", "window_right"}) ||
           hangs_on(false, {"alignment"}) || hangs_on(p.mask.has_value(), {"mask", "the mask's parameter"}) ||
           hangs_on(p.bias.has_value(), {"bias", "the bias's parameter"}) ||
           hangs_on(p.key_lengths.has_value(), {"key lengths", "the longest key length"}) ||
           hangs_on(has_key_blocks(p), {"keys of blocks", "blocks some keys apart", "blocks of several keys",
                                        "the keys from a block to the next", "the keys of a block less 1"}) ||
           hangs_on(p.selects(), {"listed blocks", "the blocks that are listed", "-1 in lists", "empty lists",
                                  "the length of lists", "the keys of a block"});
  }
  // A bias that changes or hides a score: it is not zero everywhere.
  bool bias_tells() const {
    return p.bias && (p.bias->kind != BiasKind::kZero || p.bias->finite.kind != PatternKind::kAll);
  }
  // One finite value is added to one score. No other value could be read in its place, and there is no key to
  // hide.
  bool one_biased_score() const {
    const bool one = p.batch == 1 && p.heads_q == 1 && p.heads_kv == 1 && p.seq_q == 1 && p.seq_k == 1;
    return one && need("bias") != nullptr && p.bias && p.bias->finite.kind == PatternKind::kAll;
  }
  bool splits() const { return hangs_on(p.num_splits > 1, {"num_splits"}); }
  // True if the failure needs distinct values in this tensor; otherwise the reducer would have left a constant.
  // A need for "other than zero, constant" counts only if the kernel's intermediates are not known.
  bool values_differ(std::string_view part, const Fill& fill) const {
    return fill.kind >= FillKind::kOneHot && std::ranges::any_of(needs_, [&](const Need& n) {
             const bool tells = n.relation != Relation::kOtherThan || clues.probed == Clues::Probed::kNot;
             return !n.refused && n.part == part && tells;
           });
  }
  bool scores_differ() const { return values_differ("values of q", c.q) || values_differ("values of k", c.k); }
  // Wrong numbers in the first or only tile, without known intermediates.
  bool in_one_tile() const {
    return wrong() && reduced() && plain() && !second_tile() && clues.probed == Clues::Probed::kNot;
  }
  bool large_values() const {
    return std::ranges::any_of(std::initializer_list<const Fill*>{&c.q, &c.k, &c.v}, [](const Fill* f) {
      return f->kind == FillKind::kHuge || f->kind == FillKind::kSubnormal || std::abs(f->exponent) >= 4;
    });
  }
  // True if the kernel's first wrong intermediate is one of these.
  bool first_wrong(std::initializer_list<attn_probe_tag> tags) const {
    return clues.probed == Clues::Probed::kFirstWrong && std::ranges::count(tags, clues.first_wrong) > 0;
  }
  bool all_right() const { return clues.probed == Clues::Probed::kAllRight; }
  // The first wrong intermediate is off by no more than rounding to 16 bits.
  bool by_rounding() const {
    return clues.probed == Clues::Probed::kFirstWrong && clues.off > 0 && clues.off < 0x1p-7;
  }
  // The first wrong value is off by little. A weight that is missing or counted twice is off by more.
  bool hardly_off() const {
    if (!wrong() || !v.where) return false;
    const double off = std::fabs(v.where->got - v.where->expected);
    return off > 0 && off < 0x1p-7 * std::fabs(v.where->expected);
  }
  // The accumulator is right until a second tile with other scores is added to it.
  bool rescaled() const {
    return first_wrong({ATTN_PROBE_O}) && clues.first_wrong_tile > 0 && second_tile() && plain() &&
           scores_differ();
  }
  // A wrong set of keys shows in the scores.
  bool may_be_mask() const { return clues.probed == Clues::Probed::kNot || first_wrong({ATTN_PROBE_S}); }
  // The failing row sees every tile, and the recorded softmax is right, so no -inf met another.
  bool sound_softmax() const { return all_right() && v.where && !row_unseen && !splits(); }
  bool of_many_rows() const { return at_least("seq_q", 2); }
  // The failure needs rows of 16 bytes, one vector. So it lies in the copy of rows, not in an instantiation.
  bool one_vector() const {
    const auto is_one = [&](std::string_view part) {
      const Need* n = need(part);
      return n != nullptr && n->relation == Relation::kAtLeast && n->value == 8;
    };
    return is_one("dim_v") || is_one("dim_qk");
  }
  // Full tiles of keys pass and another partial tile fails, so the tail is wrong, not a length beyond some
  // border.
  bool tail_of_keys() const {
    return plain() && p.seq_k > 0 && clues.whole_tiles == Clues::Answer::kPasses &&
           clues.other_tail == Clues::Answer::kFails;
  }
  // An exception or a failed assertion of host code, or an exception in Python. Its text says more than a
  // guess.
  bool thrown() const {
    const auto says = [](const std::string& text, std::initializer_list<std::string_view> some) {
      return std::ranges::any_of(some, [&](std::string_view s) { return text.find(s) != std::string::npos; });
    };
    if (v.kind == Kind::kCrash)
      return says(v.message, {"terminate called after throwing", "terminating due to uncaught", "Assertion `"});
    return report({ATTN_REPORT_DEVICE}) && says(v.fault->message, {"it threw", "raised "}) &&
           !says(v.fault->message, {"CUDA error"});
  }
  bool second_tile() const { return need("seq_k") != nullptr && p.seq_k > tile_k; }
  bool plain() const { return mask_words(p).empty() && p.num_splits <= 1; }
  bool dims() const {
    // Random data may need particular head dimensions.
    if (need("values of q") != nullptr || need("values of k") != nullptr || splits()) return false;
    return p.dim_qk != p.dim_v && !one_vector() && hangs_on(false, {"dim_qk", "dim_v", "head dims"});
  }
  // The number of keys that the LSE counts if all scores are 0; 0 if that is not known.
  double keys_counted() const {
    if (!only_lse() || (c.q.kind != FillKind::kZero && c.k.kind != FillKind::kZero)) return 0;
    const double keys = std::exp(v.where->got);
    const bool whole = std::fabs(keys - std::round(keys)) < 0.01;
    return whole && keys > 1.01 * std::exp(v.where->expected) && keys < 1e9 ? keys : 0;
  }
  // Tries tiles of the plan's size and of usual sizes, because a plan may not name the tile of every path.
  bool counts_a_whole_tile() const {
    const double due = std::exp(v.where ? v.where->expected : 0), counted = keys_counted();
    return std::ranges::any_of(std::array<int64_t, 5>{tile_k, 16, 32, 64, 128}, [&](int64_t size) {
      const auto tile = static_cast<double>(size);
      return std::fabs(counted - std::ceil(due / tile) * tile) < 0.5;
    });
  }
  // The LSE counts whole tiles and leaves out the keys of the last, partial one.
  bool counts_no_tail() const {
    constexpr double kLeastTile = 16, kMostTile = 256;
    if (!only_lse() || (c.q.kind != FillKind::kZero && c.k.kind != FillKind::kZero)) return false;
    const double keys = std::exp(v.where->got), lost = std::exp(v.where->expected) - keys;
    const double beyond = std::fmod(std::round(keys), kLeastTile);
    const bool tail = std::fmod(std::round(keys + lost), kLeastTile) != 0;
    return beyond == 0 && tail && std::fabs(keys - std::round(keys)) < 0.1 && keys > 0.5 && lost > 0.5 &&
           lost < kMostTile;
  }
  // The LSE says that a row sees no key, although it does; all its scores are very low.
  bool low_row_counts_as_dead() const {
    constexpr double kLow = -1000;
    return in_logarithm() && v.where->expected < kLow && std::isfinite(v.where->expected) &&
           v.where->got == operation_of(c.problem.features).output(v.where->tensor).dead;
  }

 private:
  // The kernel takes no smaller value.
  bool least_taken(const Need& n) const {
    if (!clues.domain || n.relation != Relation::kAtLeast) return false;
    const attn_domain& d = *clues.domain;
    for (const auto& [part, sizes] : {std::pair{"dim_qk", &d.dim_qk},
                                      {"dim_v", &d.dim_v},
                                      {"seq_q", &d.seq_q},
                                      {"seq_k", &d.seq_k},
                                      {"batch", &d.batch},
                                      {"heads_q / heads_kv", &d.group}}) {
      if (n.part == part) return n.value > 1 && n.value <= nearest(*sizes, 0);
    }
    return false;
  }
  void look_at_tiles() {
    constexpr int64_t kMostPairs = int64_t{1} << 20;
    if (!attends(p.features)) {
      const bool row = v.where.has_value();
      const int64_t b = row ? v.where->b : 0, h = row ? v.where->h : 0, i = row ? v.where->q : 0;
      dead_row = !saw_keys(c, TensorId::kO1, b, h, i) && !saw_keys(c, TensorId::kO2, b, h, i);
      if (p.compresses()) dead_row = i * p.key_step + p.key_offset >= key_length(p, b);
      return;
    }
    if (v.where && of_keys(spec_of(v.where->tensor))) return;  // the place is that of a key, not of a query
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

}  // namespace attnfuzz
