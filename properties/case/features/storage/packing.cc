// Packed batch entries: sequences of unlike lengths, one behind the other (attn_problem.ragged). With them come
// lengths and offsets of 32 bits (attn_problem.index_dtype).
#include <algorithm>
#include <limits>

#include "properties/case/features/domain.h"
#include "properties/case/features/feature.h"
#include "properties/case/features/length_places.h"
#include "properties/case/features/storage/entries.h"
#include "properties/case/places/far_blocks.h"
#include "properties/case/places/geometry.h"
#include "properties/case/places/packed.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kPackingFields = [](auto& c) { return std::tie(c.problem.packed_q, c.problem.packed_k); };
constexpr auto kIndex = [](auto& c) { return std::tie(c.problem.index_dtype); };

// The share of cases with packed entries, for a kernel that knows them.
constexpr int64_t kPackingPercent = 30;
// The share of packed keys with key lengths whose lengths lie around the entries' own numbers of keys.
constexpr int64_t kLengthsWithinPercent = 75;
// The percentages of packed cases whose rows lie far apart, on a CPU and if a GPU judges batches. Each such row takes
// memory of its own.
constexpr int64_t kPercentFar = 32, kPercentFarOnDevice = 2;
// The most slack of those that a batch takes.
constexpr int64_t kMostSlack = 3;

enum class Spread { kAny, kBorders, kEqual, kOneLong, kNothing, kWhole };

// The lengths of the entries. `longest`: their maximum.
std::vector<int64_t> draw_lengths(Rng& rng, Spread spread, int64_t batch, int64_t tile, int64_t longest) {
  std::vector<int64_t> lengths;
  const auto near_border = [&] {
    return std::clamp<int64_t>(rng.pick<int64_t>({0, 1, 2}) * tile + rng.range(-1, 1), 0, longest);
  };
  const int64_t equal = rng.range(0, longest), small = std::min<int64_t>(longest, rng.range(0, 3));
  for (int64_t b = 0; b < batch; ++b) {
    switch (spread) {
      case Spread::kAny:
        lengths.push_back(rng.percent(15) ? 0 : rng.range(0, longest));
        break;
      case Spread::kBorders:
        lengths.push_back(near_border());
        break;
      case Spread::kEqual:
        lengths.push_back(equal);
        break;
      case Spread::kOneLong:
        lengths.push_back(small);
        break;
      case Spread::kNothing:
        lengths.push_back(0);
        break;
      case Spread::kWhole:
        lengths.push_back(longest);
        break;
    }
  }
  if (spread == Spread::kOneLong && batch > 0) lengths[static_cast<size_t>(rng.range(0, batch - 1))] = longest;
  return lengths;
}

Packing draw_packing_side(Rng& rng, int64_t batch, int64_t tile, int64_t longest) {
  const auto spread = rng.weighted<Spread>({{34, Spread::kAny},
                                            {28, Spread::kBorders},
                                            {8, Spread::kEqual},
                                            {16, Spread::kOneLong},
                                            {4, Spread::kNothing},
                                            {10, Spread::kWhole}});
  Packing packing;
  packing.lengths = draw_lengths(rng, spread, batch, tile, longest);
  packing.slack = rng.weighted<int64_t>({{40, 0}, {30, rng.range(1, 3)}, {30, rng.range(1, tile + 1)}});
  packing.numbers = packing.slack > 0 && rng.percent(15);
  return packing;
}

// Shortens entries of packed keys to `most` keys. A key length at the end of its entry, or beyond, moves with
// this end.
void shorten_keys(Problem& p, int64_t most) {
  for (size_t b = 0; b < p.packed_k->lengths.size(); ++b) {
    int64_t& keys = p.packed_k->lengths[b];
    const int64_t before = keys;
    keys = std::min(keys, most);
    if (!p.key_lengths || b >= p.key_lengths->size()) continue;
    int64_t& length = (*p.key_lengths)[b];
    length = length >= before - 1 ? length - (before - keys) : std::min(length, keys);
  }
}

// Puts the rows of one packed tensor so far apart that the last entry begins 2^31 elements or more behind the
// first. Long entries become shorter, as each row touches two pages. On a GPU nearly all of these cases have as few rows
// as a batch has room for.
void draw_far_rows(const DrawContext& context, Case& c) {
  Rng& rng = context.rng;
  const bool few = context.config.in_batches && !rng.percent(kPercentOfMoreFarBlocks);
  const int64_t most_rows = few ? kMostFarBlocks - kMostSlack : 512;
  Problem& p = c.problem;
  const bool queries = p.packed_q && (!p.packed_k || rng.percent(40));
  const TensorId t = queries ? rng.pick<TensorId>({TensorId::kQ, TensorId::kO})
                             : rng.pick<TensorId>({TensorId::kK, TensorId::kV});
  Packing& packing = *(queries ? p.packed_q : p.packed_k);
  std::vector<int64_t>& lengths = packing.lengths;
  const int64_t heads = stored_size(p, t)[1], most = most_rows / std::max<int64_t>((few ? 1 : heads) * p.batch, 1);
  if (lengths.size() < 2 || most == 0 || (queries ? p.seq_q : p.seq_k) == 0 || !is_present(c, t)) return;
  const Packing packing_before = packing;
  const std::optional<std::vector<int64_t>> key_lengths_before = p.key_lengths;
  if (queries) {
    for (int64_t& length : lengths) length = std::min(length, most);
  } else {
    shorten_keys(p, most);
  }
  for (int64_t* length : {&lengths.front(), &lengths.back()}) *length = std::max<int64_t>(*length, 1);
  if (few) packing.slack = std::min(packing.slack, kMostSlack);
  const PackedCase packed(p);
  const int64_t first = (queries ? packed.borders_q() : packed.borders_k()).rbegin()[1];
  TensorLayout& layout = layout_of(c, t);
  const TensorLayout before = layout;
  layout = {.order = {2, 0, 1}, .spread = (int64_t{1} << 31) / first + 8};
  if (geometry(c, t)) return;
  layout = before;
  packing = packing_before;
  p.key_lengths = key_lengths_before;
}

// Key lengths that were drawn for the longest entry mostly exceed a packed entry's keys, and then hide none of
// them.
void draw_lengths_within(Rng& rng, Problem& p) {
  if (!p.packed_k || !p.key_lengths || !rng.percent(kLengthsWithinPercent)) return;
  p.key_lengths->clear();
  for (const int64_t keys : p.packed_k->lengths) {
    p.key_lengths->push_back(std::max<int64_t>(
        rng.weighted<int64_t>(
            {{14, 0}, {8, 1}, {14, keys - 1}, {10, keys}, {8, keys + 1}, {46, rng.range(0, keys)}}),
        0));
  }
}

void draw_packing(const DrawContext& context, Case& c) {
  Rng& rng = context.rng;
  Problem& p = c.problem;
  const bool narrow = (context.config.features & ATTN_FEATURE_INDEX32) != 0;
  if (narrow && rng.percent(50) && (p.features & kOperations) == 0 && p.key_lengths)
    p.index_dtype = ATTN_INDEX_32;
  if ((context.config.features & ATTN_FEATURE_RAGGED) == 0 || !rng.percent(kPackingPercent)) return;
  if ((p.features & kOperations) != 0 || std::max(p.seq_q, p.seq_k) > most_rows_of_entries(context.config) ||
      has_many_heads(p))
    return;
  draw_batch(context, p);
  const bool free_sizes = !context.config.domain && !context.config.refused.sizes;
  const int which = rng.weighted<int>({{70, 3}, {15, 1}, {15, 2}});
  if ((which & 1) != 0) p.packed_q = draw_packing_side(rng, p.batch, context.tile_q, p.seq_q);
  if ((which & 2) != 0) p.packed_k = draw_packing_side(rng, p.batch, context.tile_k, p.seq_k);
  // Self-attention: each entry has as many keys as queries.
  if (which == 3 && rng.percent(40)) {
    if (free_sizes) {
      p.seq_q = p.seq_k = std::max(p.seq_q, p.seq_k);
      if (work_of(p) > static_cast<double>(context.config.work))
        p.seq_q = p.seq_k = std::min<int64_t>(p.seq_q, 130);
    }
    p.packed_q = draw_packing_side(rng, p.batch, context.tile_q, p.seq_q);
    p.packed_k->lengths = p.packed_q->lengths;
    if (p.seq_k < p.seq_q)
      p.packed_q->lengths = p.packed_k->lengths =
          draw_packing_side(rng, p.batch, context.tile_k, p.seq_k).lengths;
  }
  const auto stay_within = [&] {
    if (context.config.domain) entries_within(*context.config.domain, p);
  };
  stay_within();
  draw_lengths_within(rng, p);
  align_within(context, p);
  if (narrow) p.index_dtype = rng.coin() ? ATTN_INDEX_32 : ATTN_INDEX_64;
  if (rng.percent(context.config.in_batches ? kPercentFarOnDevice : kPercentFar)) draw_far_rows(context, c);
  stay_within();
}

// Moves the length of one entry, or the slack.
bool mutate_packing(const DrawContext& context, Case& c) {
  Rng& rng = context.rng;
  Problem& p = c.problem;
  if (!p.packed_q && !p.packed_k) return false;
  const bool queries = p.packed_q && (!p.packed_k || rng.coin());
  Packing& packing = queries ? *p.packed_q : *p.packed_k;
  const int64_t tile = queries ? context.tile_q : context.tile_k, longest = queries ? p.seq_q : p.seq_k;
  if (packing.lengths.empty() || rng.percent(20)) {
    packing.slack = rng.range(0, tile + 1);
    return true;
  }
  int64_t& length =
      packing.lengths[static_cast<size_t>(rng.range(0, static_cast<int64_t>(packing.lengths.size()) - 1))];
  length = std::clamp<int64_t>(moved(length, 0, tile, longest, rng), 0, longest);
  return true;
}

// A side that is no longer packed becomes dense, with entries of the longest length.
template <std::optional<Packing> Problem::* kSide>
constexpr ShrinkToggle packing_side_toggle(const char* name) {
  return {name, [](const Case& c) { return (c.problem.*kSide).has_value(); },
          [](Case& c) { (c.problem.*kSide).reset(); },
          [](Case& to, const Case& from, int choice) {
            to.problem.*kSide = from.problem.*kSide;
            if (choice == 0) (to.problem.*kSide)->slack = 0;
            if (choice < 2) (to.problem.*kSide)->numbers = false;
            return choice < 3;
          }};
}

bool has_slack(const Case& c) {
  const auto some = [](const auto& side) { return side && (side->slack > 0 || side->numbers); };
  return some(c.problem.packed_q) || some(c.problem.packed_k);
}
void drop_slack(Case& c) {
  for (auto* side : {&c.problem.packed_q, &c.problem.packed_k}) {
    if (*side) (*side)->slack = 0, (*side)->numbers = false;
  }
}

bool has_narrow_numbers(const Case& c) { return c.problem.index_dtype != ATTN_INDEX_64; }

void say_side(const std::optional<Packing>& side, const char* what, Sentence& words) {
  if (!side) return;
  std::string lengths;
  const size_t shown = std::min<size_t>(side->lengths.size(), 8);
  for (size_t i = 0; i < shown; ++i) lengths += cat(i ? "," : "", side->lengths[i]);
  if (shown < side->lengths.size()) lengths += ",...";
  std::string text = cat("packed ", what, " ", lengths);
  if (side->slack > 0)
    text += cat(" and ", side->slack, " rows of slack", side->numbers ? " with numbers" : "");
  words.push_back(text);
}

void say_packing(const Case& c, Sentence& words) {
  say_side(c.problem.packed_q, "queries", words);
  say_side(c.problem.packed_k, "keys", words);
  if (has_narrow_numbers(c)) words.push_back("lengths of 32 bits");
}

void cost_of(const std::optional<Packing>& side, Cost& cost) {
  cost.count(side.has_value());
  if (!side) return;
  cost.at(Rank::kKeyLengths).add(1 + static_cast<int64_t>(side->lengths.size()));
  for (const int64_t length : side->lengths) cost.distance(length, 0);
  cost.add(side->slack), cost.add(side->numbers);
}

bool any_length(const Problem& p, bool (*is)(int64_t length)) {
  const auto one = [is](const auto& side) { return side && std::ranges::any_of(side->lengths, is); };
  return one(p.packed_q) || one(p.packed_k);
}

template <LengthPlace place>
bool some_side_lies(const Tiled& x) {
  return lies(entry_lengths(x, EntryKind::kPackedQueries), place) ||
         lies(entry_lengths(x, EntryKind::kPackedKeys), place);
}

// True if batch entries may lie packed in a problem with these features.
bool may_pack(uint64_t features) {
  return in_problem(spec_of(TensorId::kCuQ), features | ATTN_FEATURE_RAGGED);
}

void tidy_side(std::optional<Packing>& side, int64_t batch, int64_t longest) {
  if (!side) return;
  side->lengths.resize(static_cast<size_t>(std::max<int64_t>(batch, 0)), longest);
  for (int64_t& length : side->lengths) length = std::clamp<int64_t>(length, 0, std::max<int64_t>(longest, 0));
  side->slack = std::max<int64_t>(side->slack, 0);
  if (side->slack == 0) side->numbers = false;
}

void tidy_packing(Case& c) {
  Problem& p = c.problem;
  if (!may_pack(p.features)) p.packed_q.reset(), p.packed_k.reset();
  if ((p.features & ATTN_FEATURE_APPEND) != 0) p.packed_k.reset();
  tidy_side(p.packed_q, p.batch, p.seq_q);
  tidy_side(p.packed_k, p.batch, p.seq_k);
  const bool numbers = p.packed_q || p.packed_k || p.key_lengths || p.selects() || p.chooses() ||
                       (p.features & ATTN_FEATURE_COPY_PAGES) != 0;
  if (!numbers) p.index_dtype = ATTN_INDEX_64;
  if (p.packed_q) c.once.q.batch = false;
  if (p.packed_k) c.once.k.batch = c.once.v.batch = false;
  if (p.index_dtype != ATTN_INDEX_32 || !p.key_lengths) return;
  for (int64_t& length : *p.key_lengths)
    length =
        std::clamp<int64_t>(length, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
}

Complaint illegal_side(const std::optional<Packing>& side, const char* name, const Problem& p) {
  if (!side) return std::nullopt;
  if (!may_pack(p.features)) return cat(name, " is set, but the problem's operation has no packed entries");
  if (static_cast<int64_t>(side->lengths.size()) != p.batch)
    return cat(name, ".lengths has ", side->lengths.size(), " entries, batch is ", p.batch);
  return of_field(outside(".slack", side->slack, 0, kMaxSize), name);
}

Complaint illegal_numbers(const Problem& p) {
  if (p.index_dtype == ATTN_INDEX_64) return std::nullopt;
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (p.index_dtype != ATTN_INDEX_32) return say("index_dtype", p.index_dtype, "index_64 (0) or index_32 (1)");
  for (const int64_t length : p.key_lengths.value_or(std::vector<int64_t>())) {
    if (auto why = outside("key_lengths of int32", length, -kMost - 1, kMost)) return why;
  }
  const int64_t q = p.packed_q ? packed_rows(*p.packed_q, p.seq_q) : 0,
                k = p.packed_k ? packed_rows(*p.packed_k, p.seq_k) : 0;
  return outside("the packed rows, with offsets of int32,", std::max(q, k), 0, kMost);
}

}  // namespace

extern constinit const Feature packing = checked({
    // kRefusals: a kernel that does not know packed entries never gets them
    .without = {kShrinkIntegers, kAlternatives, kCrossoverGroups, kNumbers, kRefusals},
    .shrink_toggles = {11,
                       {{"packed entries", is_set<kPackingFields>, unset<kPackingFields>,
                         [](Case& to, const Case& from, int choice) {
                           take<kPackingFields>(to, from);
                           if (choice == 0) drop_slack(to);
                           return choice < 2;
                         }},
                        packing_side_toggle<&Problem::packed_q>("packed queries"),
                        packing_side_toggle<&Problem::packed_k>("packed keys"),
                        {"slack rows", has_slack, drop_slack,
                         [](Case& to, const Case& from, int choice) {
                           const auto take_slack = [&](auto& side, const auto& of) {
                             if (side && of) side->slack = choice == 0 && of->slack > 0 ? 1 : of->slack;
                             if (side && of && choice == 2) side->numbers = of->numbers;
                           };
                           take_slack(to.problem.packed_q, from.problem.packed_q);
                           take_slack(to.problem.packed_k, from.problem.packed_k);
                           return choice < 3;
                         }},
                        {"lengths of 32 bits", has_narrow_numbers, unset<kIndex>,
                         [](Case& to, const Case& from, int choice) {
                           take<kIndex>(to, from);
                           return choice == 0;
                         }}}},
    .cost =
        [](const Case& c, Cost& cost) {
          cost_of(c.problem.packed_q, cost);
          cost_of(c.problem.packed_k, cost);
          cost.count(has_narrow_numbers(c));
          if (has_narrow_numbers(c)) cost.at(Rank::kOther).add(1);
        },
    .canonical_seeds =
        [](int64_t, auto& seeds) {
          // Two entries of the same length; then an empty entry and one behind it.
          for (const bool empty : {false, true}) {
            for (const auto& [queries, keys] : {std::pair{false, true}, {true, false}, {true, true}}) {
              seeds.push_back([=](Case& c) {
                Problem& p = c.problem;
                p.batch = 2;
                if (queries) p.packed_q = Packing{.lengths = {empty ? 0 : p.seq_q, p.seq_q}};
                if (keys) p.packed_k = Packing{.lengths = {empty ? 0 : p.seq_k, p.seq_k}};
              });
            }
          }
        },
    .draw = {Phase::kLater, draw_packing},
    .mutations = {mutate_packing},
    .tags = {{"packed queries", [](const Tiled& x) { return x.p.packed_q.has_value(); }},
             {"packed keys", [](const Tiled& x) { return x.p.packed_k.has_value(); }},
             {"slack rows", [](const Tiled& x) { return has_slack(x.c); }},
             {"packed: all empty", some_side_lies<LengthPlace::kAllEmpty>},
             {"packed: one long among short", some_side_lies<LengthPlace::kOneLong>},
             {"packed: 1 below a tile", some_side_lies<LengthPlace::kBelow>},
             {"packed: whole tiles", some_side_lies<LengthPlace::kWhole>},
             {"packed: 1 above a tile", some_side_lies<LengthPlace::kAbove>},
             {"an empty packed entry",
              [](const Tiled& x) { return any_length(x.p, [](int64_t n) { return n == 0; }); }},
             {"lengths of 32 bits", [](const Tiled& x) { return has_narrow_numbers(x.c); }}},
    .words = {{Section::kMask, 3, say_packing}},
    .tidy = tidy_packing,
    .illegal = [](const Case& c) -> Complaint {
      if (auto why = illegal_side(c.problem.packed_q, "packed_q", c.problem)) return why;
      if (auto why = illegal_side(c.problem.packed_k, "packed_k", c.problem)) return why;
      return illegal_numbers(c.problem);
    },
});

}  // namespace attnfuzz::feature
