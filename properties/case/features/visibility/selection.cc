// The lists of blocks that queries attend over (ATTN_FEATURE_SELECTED, and ATTN_FEATURE_SELECTED_BACKWARD for its
// gradients), and the choice of blocks by scores that are given (ATTN_FEATURE_NSA_SELECT) or computed
// (ATTN_FEATURE_NSA_SCORE).
#include "properties/case/places/selection.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kSelectionFields = [](auto& c) { return std::tie(c.problem.selection); };

constexpr int64_t kMostSelect = int64_t{1} << 20, kMostBlock = int64_t{1} << 31, kMostStep = int64_t{1} << 16;

bool has_selection(const Case& c) { return c.problem.selects(); }
bool chooses(const Case& c) { return c.problem.chooses(); }
bool either(const Case& c) { return has_selection(c) || chooses(c); }

template <auto kMember>
bool has_own_selection(const Case& c) {
  return c.problem.selection.*kMember != Selection{}.*kMember;
}
template <auto kMember>
void give_up_selection(Case& c) {
  c.problem.selection.*kMember = Selection{}.*kMember;
}
// A member of Selection, as found.
template <auto kMember>
constexpr ShrinkToggle selection_toggle(const char* name, Trait trait = Trait::kOwn) {
  return {name, has_own_selection<kMember>, give_up_selection<kMember>,
          [](Case& to, const Case& from, int choice) {
            to.problem.selection.*kMember = from.problem.selection.*kMember;
            return choice == 0;
          },
          trait};
}

template <auto kMember, bool (*kThere)(const Case&) = has_selection>
constexpr ShrinkInteger selection_integer(const char* name, int64_t least) {
  return {name,
          IntegerKind::kParameter,
          least,
          [](const Case& c) { return c.problem.selection.*kMember; },
          [](Case& c, int64_t n) { c.problem.selection.*kMember = n; },
          kThere};
}

// Changes one number of a choice.
bool step_choice(const DrawContext& context, Case& c) {
  if (!chooses(c)) return false;
  Rng& rng = context.rng;
  Selection& selection = c.problem.selection;
  selection.select = std::max<int64_t>(std::min<int64_t>(rng.range(1, 64), c.problem.blocks() + 2), 1);
  selection.first = rng.range(0, std::min<int64_t>(selection.select, 2));
  selection.last = rng.range(0, std::min<int64_t>(selection.select - selection.first, 3));
  if (rng.coin()) selection.block = rng.pick<int64_t>({1, 2, 16, 64});
  return true;
}

// Changes one thing of the lists.
bool mutate_selection(const DrawContext& context, Case& c) {
  if (!has_selection(c)) return step_choice(context, c);
  Rng& rng = context.rng;
  Selection& selection = c.problem.selection;
  switch (rng.range(0, 5)) {
    case 0:
      selection.kind = static_cast<SelectionKind>(rng.range(0, kSelectionKinds - 1));
      break;
    case 1:
      selection.order = rng.range(0, 40);
      break;
    case 2:
      selection.holes = rng.coin() ? 0 : rng.range(1, 15);
      selection.leading = rng.coin();
      break;
    case 3:
      selection.empty = rng.coin() ? 0 : rng.range(1, 4);
      break;
    case 4:
      selection.block = rng.pick<int64_t>({1, 2, 16, 32, 64});
      selection.select = std::max<int64_t>(std::min(selection.select, c.problem.blocks()), 1);
      break;
    default:
      selection.select = std::max<int64_t>(std::min<int64_t>(rng.range(1, 64), c.problem.blocks()), 1);
  }
  return true;
}

void say_choice(const Case& c, Sentence& words) {
  const Selection& selection = c.problem.selection;
  std::string text = cat(c.problem.seq_k, c.problem.scores_blocks() ? " compressed" : "",
                         c.problem.seq_k == 1 ? " key" : " keys", ", choice of ");
  text += selection.select == 0 ? std::string("all") : cat(selection.select);
  text += cat(" blocks of ", selection.block, selection.block == 1 ? " key" : " keys");
  if (selection.first > 0) text += cat(", the first ", selection.first);
  if (selection.last > 0) text += cat(", the last ", selection.last);
  words.push_back(text);
}

void say_lists(const Case& c, Sentence& words) {
  if (chooses(c)) return say_choice(c, words);
  if (!has_selection(c)) return;
  constexpr const char* kKinds[] = {
      "the first", "the most recent", "spread", "the first and the most recent", "few, repeated", "any"};
  const Selection& selection = c.problem.selection;
  std::string text = "lists of ";
  text += selection.select == 0 ? std::string("all") : cat(selection.select);
  text += cat(" blocks of ", selection.block, selection.block == 1 ? " key" : " keys");
  if (selection.tokens) text += ", key by key";
  if (selection.kind != SelectionKind::kFirst) text += cat(": ", kKinds[static_cast<size_t>(selection.kind)]);
  if (selection.order != 0) text += selection.order == 1 ? ", ascending" : ", shuffled";
  if (selection.holes > 0)
    text += cat(", ", selection.holes, " of 16 are -1", selection.leading ? ", at the front" : "");
  if (selection.holes == 0 && selection.leading) text += ", -1 at the front";
  if (selection.empty > 0) text += cat(", one query in ", selection.empty, " has none");
  if (selection.seed != 0) text += cat(" (seed ", selection.seed, ")");
  words.push_back(text);
}

void selection_cost(const Case& c, Cost& cost) {
  const Selection &selection = c.problem.selection, usual;
  if (!either(c)) return;
  const int parts = int{selection.kind != usual.kind} + int{selection.order != 0} + int{selection.holes > 0} +
                    int{selection.leading} + int{selection.empty > 0} + int{selection.block != 1} +
                    int{selection.select != 0} + int{selection.tokens} + int{selection.first > 0} +
                    int{selection.last > 0};
  cost.count(parts);
  cost.at(Rank::kMaskForm).add(static_cast<int64_t>(selection.kind));
  cost.add(selection.holes), cost.add(selection.leading), cost.add(selection.empty), cost.add(selection.tokens);
  cost.distance(selection.block, 1), cost.distance(selection.select, 0);
  cost.bits(selection.order), cost.bits(selection.seed);
  cost.add(selection.first), cost.add(selection.last);
}

bool is_random(const Selection& selection) {
  return selection.holes > 0 || selection.empty > 1 || selection.order > 1 ||
         (selection.kind != SelectionKind::kFirst && selection.kind != SelectionKind::kRecent);
}

// True if x plants a NaN as the score of a candidate; such a score must be a number or an infinity.
bool is_nan_of_candidate(const Case& c, const Planted& x) {
  if (x.tensor != TensorId::kScores || (x.bits & 0x7fffffff) <= 0x7f800000) return false;
  const Problem& p = c.problem;
  const bool inside = x.b >= 0 && x.b < p.batch && (!p.key_lengths || x.b < std::ssize(*p.key_lengths));
  return c.remap != Remap{} || !inside || x.d <= own_block(p, x.b, x.s);
}

void tidy_choice(Case& c) {
  Problem& p = c.problem;
  Selection& selection = p.selection;
  Problem kept;
  kept.batch = p.batch, kept.heads_q = kept.heads_kv = p.heads_kv, kept.seq_q = p.seq_q, kept.seq_k = p.seq_k;
  kept.causal = p.causal, kept.align = p.align, kept.key_lengths = p.key_lengths;
  kept.packed_q = p.packed_q, kept.packed_k = p.packed_k;
  kept.index_dtype = p.index_dtype, kept.features = p.features;
  if (p.scores_blocks()) {
    kept.dtype = p.dtype, kept.heads_q = p.heads_q, kept.dim_qk = p.dim_qk, kept.scale = p.scale;
    kept.key_step = std::clamp<int64_t>(p.key_step, 1, kMostStep);
    kept.key_offset = std::clamp<int64_t>(p.key_offset, 0, kMostStep);
  }
  kept.selection = {.block = std::max<int64_t>(selection.block, 1),
                    .select = std::max<int64_t>(selection.select, 0)};
  const int64_t select = std::max<int64_t>(kept.listed(), 1);
  kept.selection.first = std::clamp<int64_t>(selection.first, 0, select);
  kept.selection.last = std::clamp<int64_t>(selection.last, 0, select - kept.selection.first);
  p = kept;
}

// Fields that the operation does not use are removed.
void tidy_selection(Case& c) {
  Problem& p = c.problem;
  Selection& selection = p.selection;
  if (!chooses(c) || p.scores_blocks()) c.scores = Fill{};
  if (chooses(c)) {
    tidy_choice(c);
    std::erase_if(c.planted, [&c](const Planted& x) { return is_nan_of_candidate(c, x); });
    return;
  }
  if (!has_selection(c)) {
    selection = {};
    return;
  }
  selection.first = selection.last = 0;
  p.window_left = p.window_right = -1;
  p.bias.reset(), p.mask.reset(), p.sink.reset(), p.slopes.reset();
  p.latent = false;
  p.num_splits = 0;
  selection.block = std::max<int64_t>(selection.block, 1);
  selection.select = std::max<int64_t>(selection.select, 0);
  selection.holes = std::clamp<int64_t>(selection.holes, 0, 16);
  selection.empty = std::max<int64_t>(selection.empty, 0);
  if (!is_random(selection)) selection.seed = 0;
}

Complaint illegal_sizes(const Problem& p) {
  const Selection& selection = p.selection;
  if (auto why = outside("selection.block", selection.block, 1, kMostBlock)) return why;
  if (auto why = outside("selection.select", selection.select, 0, kMostSelect)) return why;
  if (auto why = outside("the blocks of a list", p.listed(), 1, kMostSelect)) return why;
  if (auto why = outside("the indices of a list", p.select(), 1, kMostSelect)) return why;
  return outside("the blocks", p.blocks(), 0, std::numeric_limits<int32_t>::max());
}

Complaint illegal_choice(const Case& c) {
  const Problem& p = c.problem;
  const Selection& selection = p.selection;
  if (!std::has_single_bit(p.features & kOperations)) return "the problem asks for two operations";
  if (p.scores_blocks()) {
    if (auto why = outside("key_step", p.key_step, 1, kMostStep)) return why;
    if (auto why = outside("key_offset", p.key_offset, 0, kMostStep)) return why;
  }
  Case plain = c;
  tidy_choice(plain);
  if (auto why = illegal_sizes(p)) return why;
  if (auto why = outside("selection.first", selection.first, 0, p.select())) return why;
  if (auto why = outside("selection.last", selection.last, 0, p.select() - selection.first)) return why;
  if (plain.problem != p && p.scores_blocks())
    return "a choice by computed scores has batch, heads_q, heads_kv, seq_q, seq_k, dim_qk, dim_v = 1, a format, "
           "scale, causal, align, key_lengths, packed_q, packed_k, index_dtype, key_step, key_offset, and "
           "selection.block, select, first and last; another field of the problem is set";
  if (plain.problem != p)
    return "a choice of blocks has batch, heads_q = heads_kv, seq_q, seq_k, causal, align, key_lengths, packed_q, "
           "packed_k, index_dtype, and selection.block, select, first and last; another field of the problem is set";
  if (std::ranges::any_of(c.planted, [&c](const Planted& x) { return is_nan_of_candidate(c, x); }))
    return "planted has a NaN as the score of a block that the query may choose";
  return std::nullopt;
}

Complaint illegal_selection(const Case& c) {
  const Problem& p = c.problem;
  const Selection& selection = p.selection;
  if ((!chooses(c) || p.scores_blocks()) && c.scores != Fill{})
    return "scores are set, but the problem does not ask for a choice of blocks by given scores";
  if (chooses(c)) return illegal_choice(c);
  if (!has_selection(c)) {
    if (selection != Selection{}) return "selection is set, but the problem does not ask for lists of blocks";
    return std::nullopt;
  }
  if (!std::has_single_bit(p.features & kOperations)) return "the problem asks for two operations";
  if (p.window_left >= 0 || p.window_right >= 0 || p.bias || p.mask || p.sink || p.slopes || p.latent ||
      p.num_splits != 0 || p.paging)
    return "attention over listed blocks has no window, bias, mask, sinks, slopes, latent V, splits or pages";
  if (auto why = outside("selection.holes", selection.holes, 0, 16)) return why;
  if (auto why = outside("selection.empty", selection.empty, 0, kMaxSize)) return why;
  if (selection.first != 0 || selection.last != 0)
    return "selection.first or last is set, but the problem asks for no choice of blocks";
  return illegal_sizes(p);
}

bool repeats(const Case& c) {
  const SelectionKind kind = c.problem.selection.kind;
  return has_selection(c) && (kind == SelectionKind::kRepeated || kind == SelectionKind::kAnywhere);
}

}  // namespace

extern constinit const Feature selection = checked({
    // kDraw: operations/selected/operation.cc turns a drawn case into such a problem
    // kRefusals: a kernel that does not know lists never gets them
    .without = {kAlternatives, kDraw, kCrossoverGroups, kNumbers, kRefusals},
    .shrink_toggles = {11,
                       {{"listed blocks", is_set<kSelectionFields>, unset<kSelectionFields>,
                         [](Case& to, const Case& from, int choice) {
                           take<kSelectionFields>(to, from);
                           Selection& made = to.problem.selection;
                           if (choice == 0) made = {.block = made.block};
                           if (choice == 1) made = {.block = made.block, .select = 1};
                           return choice < 3;
                         },
                         Trait::kHidesKeys},
                        selection_toggle<&Selection::kind>("the blocks that are listed", Trait::kHidesKeys),
                        selection_toggle<&Selection::holes>("-1 in lists", Trait::kHidesKeys),
                        selection_toggle<&Selection::leading>("-1 at the front of lists"),
                        selection_toggle<&Selection::empty>("empty lists", Trait::kHidesKeys),
                        selection_toggle<&Selection::order>("the order of lists"),
                        selection_toggle<&Selection::tokens>("lists of keys"),
                        selection_toggle<&Selection::select>("the length of lists", Trait::kHidesKeys),
                        selection_toggle<&Selection::first>("first blocks always chosen"),
                        selection_toggle<&Selection::last>("last blocks always chosen")}},
    .shrink_integers = {selection_integer<&Selection::block, either>("the keys of a block", 1),
                        selection_integer<&Selection::select, either>("the length of lists", 0),
                        selection_integer<&Selection::first, chooses>("the first blocks that are always chosen",
                                                                      0),
                        selection_integer<&Selection::last, chooses>("the last blocks that are always chosen",
                                                                     0),
                        selection_integer<&Selection::holes>("the share of -1 in lists", 0),
                        selection_integer<&Selection::empty>("the queries for each empty list", 0)},
    .cost = selection_cost,
    .canonical_seeds =
        [](int64_t, auto& seeds) {
          const auto form = [&](const Selection& lists) {
            seeds.push_back([=](Case& c) { c.problem.selection = lists; });
          };
          for (const int64_t empty : {1, 2}) form({.empty = empty});
          form({.select = 2});
          form({.holes = 8});
          form({.holes = 8, .leading = true});
          form({.kind = SelectionKind::kRepeated});
          form({.kind = SelectionKind::kAnywhere});
        },
    .mutations = {mutate_selection},
    .tags = {{"selected: blocks of one key",
              [](const Tiled& x) { return has_selection(x.c) && x.p.block() == 1; }},
             {"selected: -1 in lists",
              [](const Tiled& x) { return has_selection(x.c) && x.p.selection.holes > 0; }},
             {"selected: empty lists",
              [](const Tiled& x) { return has_selection(x.c) && x.p.selection.empty > 0; }},
             {"selected: blocks listed twice", [](const Tiled& x) { return repeats(x.c); }},
             {"choice: blocks always chosen",
              [](const Tiled& x) {
                return chooses(x.c) && x.c.problem.selection.first + x.c.problem.selection.last > 0;
              }},
             {"selected: an incomplete last block",
              [](const Tiled& x) {
                return has_selection(x.c) && x.p.seq_k % std::max<int64_t>(x.p.selection.block, 1) != 0;
              }}},
    .words = {{Section::kMask, 5, say_lists}},
    .tidy = tidy_selection,
    .illegal = illegal_selection,
});

}  // namespace attnfuzz::feature
