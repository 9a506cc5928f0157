// Keys in pages: K and V are pools, and a block table says which pages hold the keys of a batch entry
// (attn_problem.page_size).
#include <algorithm>

#include "properties/case/features/feature.h"
#include "properties/case/features/length_places.h"
#include "properties/case/features/storage/entries.h"
#include "properties/case/features/storage/pools.h"
#include "properties/case/places/geometry.h"
#include "properties/case/places/packed.h"
#include "properties/case/size_set.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kPagingFields = [](auto& c) { return std::tie(c.problem.paging); };

// The share of cases with pages, for a kernel that knows them.
constexpr int64_t kPagingPercent = 30;
// The share of them with many keys of capacity, whose number of splits is mostly the kernel's choice.
constexpr int64_t kCapacityPercent = 25, kOwnSplitsPercent = 75;
// The shares of them with pages that lie far apart on a CPU, if they can, and with ids above 2^16.
constexpr int64_t kFarPercent = 16, kManyPercent = 15;
// The most pages of a case. Each takes 16 bytes of a table beside its own memory.
constexpr int64_t kMostPages = int64_t{1} << 22;

}  // namespace

int64_t draw_paged_length(Rng& rng, int64_t page, int64_t tile, int64_t capacity) {
  const auto near = [&](int64_t step) {
    const int64_t most = std::max<int64_t>(capacity / std::max<int64_t>(step, 1), 1);
    return std::max<int64_t>(rng.range(1, most) * step + rng.range(-1, 1), 0);
  };
  switch (rng.weighted<int>({{10, 0}, {8, 1}, {26, 2}, {18, 3}, {12, 4}, {6, 5}, {20, 6}})) {
    case 0:
      return 0;
    case 1:
      return 1;
    case 2:
      return near(page);
    case 3:
      return near(tile);
    case 4:
      return capacity;
    case 5:
      return capacity + rng.range(1, 2 * page);
    default:
      return rng.range(0, capacity);
  }
}

Paging draw_paging(Rng& rng) {
  Paging paging;
  paging.size = rng.weighted<int64_t>({{8, 1},
                                       {6, 2},
                                       {8, 3},
                                       {6, 7},
                                       {6, 8},
                                       {6, 15},
                                       {22, 16},
                                       {6, 17},
                                       {8, 32},
                                       {10, 64},
                                       {6, 100},
                                       {4, 128},
                                       {4, 256}});
  paging.order = rng.percent(20) ? 0 : 1 + rng.bits() % 65535;
  paging.spare = rng.weighted<int64_t>({{35, 0}, {45, rng.range(1, 3)}, {20, rng.range(4, 40)}});
  paging.beyond = rng.weighted<int64_t>({{45, 0}, {35, rng.range(1, 3)}, {20, rng.range(4, 12)}});
  paging.junk = static_cast<PageJunk>(rng.range(0, kPageJunks - 1));
  paging.numbers = rng.percent(15);
  return paging;
}

void draw_pools(Rng& rng, TensorId k, TensorId v, Case& c, int64_t percent_far) {
  const int64_t pages = page_count(c.problem);
  const bool by_slot = rng.coin(), unlike = rng.percent(10), together = rng.percent(30);
  const bool far =
      rng.percent(percent_far) && pages > 1 && pages * c.problem.heads_kv * c.problem.paging->size <= 1024;
  const bool own = rng.percent(30);  // laid out like tensors without pages
  for (const TensorId t : {k, v}) {
    if (!is_present(c, t)) continue;
    TensorLayout& layout = layout_of(c, t);
    const bool slots_first = by_slot != (unlike && t == v);
    if (!own || !geometry(c, t)) {
      layout = {};
      if (slots_first) layout.order = {0, 2, 1};
    }
    const TensorLayout before = layout;
    if (far && !layout.scattered())
      layout = {.order = layout.order, .spread = (rng.range(1, 2) << 31) / (pages - 1) + 8};
    else if (together && !own)
      layout.spread = 2 * step_without_spread(c, t);
    if (!geometry(c, t)) layout = before;
  }
}

namespace {

// Ids above 2^16, in pages that are small enough. There are enough of them that a few pages in use, shuffled
// among the others, mostly have such an id.
void draw_many_pages(Rng& rng, Problem& p) {
  constexpr int64_t kPages = 80'000, kMostBytes = int64_t{20} << 20;
  const int64_t bytes = p.heads_kv * (p.dim_qk + p.dim_v) * 2 * kPages;  // with pages of one key
  if (bytes > kMostBytes) return;
  if (bytes * p.paging->size > kMostBytes)
    p.paging->size = rng.range(1, std::min<int64_t>(kMostBytes / bytes, 3));
  p.paging->spare = kPages;
  p.paging->order = 1 + rng.bits() % 65535;
}

}  // namespace

void draw_table(Rng& rng, TensorId t, Case& c) {
  TensorLayout& layout = layout_of(c, t);
  layout = {};
  if (rng.percent(45)) layout.row_gap = rng.range(1, 5);
  if (rng.percent(30)) layout.placement = Placement::kPageEnd;
}

namespace {

// A common prefix of all entries, as serving engines share it.
void draw_shared(Rng& rng, Problem& p) {
  const int64_t most = p.pages_of(p.seq_k);
  if (p.batch < 2 || most == 0 || !rng.percent(25)) return;
  p.paging->shared = rng.percent(30) ? most : rng.range(1, most);
}

// A few queries of a cache with room for 5 to 12 tiles of keys. A kernel chooses its splits by the capacity,
// and entries that hold few keys leave most of the splits empty.
void draw_capacity(const DrawContext& context, Problem& p) {
  Rng& rng = context.rng;
  if (!rng.percent(kCapacityPercent)) return;
  Problem large = p;
  large.seq_q = std::min<int64_t>(p.seq_q, rng.range(1, 4));
  large.seq_k = context.tile_k * rng.range(5, 11) + rng.range(1, context.tile_k);
  if (rng.percent(kOwnSplitsPercent)) large.num_splits = 0;
  const auto fits = [&](const attn_domain& of) {
    return holds(of.seq_q, large.seq_q) && holds(of.seq_k, large.seq_k) &&
           (of.equal_lengths == 0 || large.seq_q == large.seq_k);
  };
  const auto& config = context.config;
  if ((config.domain && !fits(*config.domain)) || (config.refused.sizes && !fits(*config.refused.sizes)))
    return;
  const double work = work_of(large);
  if (large.seq_k <= p.seq_k || work == 0 || work > static_cast<double>(config.work)) return;
  if (elements_of_keys(large) <= config.elements) p = large;
}

void draw(const DrawContext& context, Case& c) {
  Rng& rng = context.rng;
  Problem& p = c.problem;
  if ((context.config.features & ATTN_FEATURE_PAGED) == 0 || !rng.percent(kPagingPercent)) return;
  if ((p.features & kOperations) != 0 || std::max(p.seq_q, p.seq_k) > most_rows_of_entries(context.config) ||
      has_many_heads(p))
    return;
  const Case before = c;
  if (!p.packed_q) draw_batch(context, p);
  const bool fixed = context.config.domain || context.config.refused.sizes;
  if (!fixed && rng.percent(25)) p.seq_q = std::min<int64_t>(p.seq_q, rng.range(1, 4));  // decoding
  draw_capacity(context, p);
  p.packed_k.reset();
  p.paging = draw_paging(rng);
  p.key_lengths.emplace();
  for (int64_t b = 0; b < p.batch; ++b)
    p.key_lengths->push_back(draw_paged_length(rng, p.paging->size, context.tile_k, p.seq_k));
  if (rng.percent(kManyPercent)) draw_many_pages(rng, p);
  const bool narrow = (context.config.features & ATTN_FEATURE_INDEX32) != 0;
  p.index_dtype = narrow && rng.percent(65) ? ATTN_INDEX_32 : ATTN_INDEX_64;
  c.once.k.batch = c.once.v.batch = false;
  // A batch on a GPU has no memory for many pages that lie far apart (packing.cc).
  draw_pools(rng, TensorId::kK, TensorId::kV, c, context.config.in_batches ? 1 : kFarPercent);
  draw_table(rng, TensorId::kBlockTable, c);
  align_within(context, p);
  std::erase_if(c.planted, [&](const Planted& x) { return x.b >= p.batch; });
  draw_shared(rng, p);
  if (!geometry(c, TensorId::kK) || (!p.latent && !geometry(c, TensorId::kV))) c = before;
}

// Changes the size of a page, the order of pages, the number of spare or shared pages, or the unused entries of
// the table.
bool step(const DrawContext& context, Case& c) {
  if (!c.problem.paging) return false;
  Rng& rng = context.rng;
  Paging& paging = *c.problem.paging;
  switch (rng.range(0, 5)) {
    case 0:
      paging.size = draw_paging(rng).size;
      break;
    case 1:
      paging.order = rng.bits() % 65536;
      break;
    case 2:
      paging.spare = rng.range(0, 3);
      break;
    case 3:
      paging.beyond = rng.range(0, 3);
      break;
    case 4:
      if (!is_append(c.problem)) paging.shared = rng.range(0, 3);
      break;
    default:
      paging.junk = static_cast<PageJunk>(rng.range(0, kPageJunks - 1));
  }
  return true;
}

template <auto kMember>
bool has_own_paging(const Case& c) {
  return c.problem.paging && (*c.problem.paging).*kMember != Paging{}.*kMember;
}
template <auto kMember>
void give_up_paging(Case& c) {
  (*c.problem.paging).*kMember = Paging{}.*kMember;
}
// A member of Paging, as found.
template <auto kMember>
constexpr ShrinkToggle paging_toggle(const char* name) {
  return {name, has_own_paging<kMember>, give_up_paging<kMember>, [](Case& to, const Case& from, int choice) {
            if (to.problem.paging) (*to.problem.paging).*kMember = (*from.problem.paging).*kMember;
            return choice == 0;
          }};
}

template <LengthPlace place>
bool keys_lie(const Tiled& x) {
  return lies(entry_lengths(x, EntryKind::kKeysInPages), place);
}

void say_pages(const Case& c, Sentence& words) {
  if (!c.problem.paging) return;
  constexpr const char* kJunk[] = {"page 0",       "-1", "2^31 - 1", "a spare page", "a page of any entry",
                                   "mixed numbers"};
  const Paging& paging = *c.problem.paging;
  std::string text = cat("pages of ", paging.size, paging.size == 1 ? " key" : " keys");
  if (paging.order != 0) text += ", shuffled";
  if (paging.shared > 0)
    text += cat(", the first ", paging.shared, paging.shared == 1 ? " shared" : " of them shared");
  if (paging.spare > 0) text += cat(", ", paging.spare, " spare");
  if (paging.beyond > 0) text += cat(", table rows ", paging.beyond, " longer");
  if (paging.junk != PageJunk::kFirst)
    text += cat(", unused entries ", kJunk[static_cast<size_t>(paging.junk)]);
  if (paging.numbers) text += ", numbers in unused slots";
  words.push_back(text);
}

void count_pages(const Case& c, Cost& cost) {
  cost.count(c.problem.paging.has_value());
  if (!c.problem.paging) return;
  const Paging& paging = *c.problem.paging;
  cost.at(Rank::kKeyLengths).add(1);
  cost.add(paging.order != 0), cost.add(paging.shared), cost.add(paging.spare), cost.add(paging.beyond);
  cost.add(static_cast<int64_t>(paging.junk)), cost.add(paging.numbers);
  cost.distance(paging.size, 1), cost.distance(static_cast<int64_t>(paging.order), 0);
}

void tidy(Case& c) {
  Problem& p = c.problem;
  if (!p.paging) return;
  const bool copies = (p.features & ATTN_FEATURE_COPY_PAGES) != 0;
  if (!may_have_pages(p.features) || (!p.key_lengths && !copies) || p.packed_k) return p.paging.reset();
  Paging& paging = *p.paging;
  // Pages of no batch entry have neither an order nor a table, and all of them hold values.
  if (copies) paging = {.size = paging.size, .spare = paging.spare};
  paging.size = std::max<int64_t>(paging.size, 1);
  paging.spare = std::max<int64_t>(paging.spare, 0), paging.beyond = std::max<int64_t>(paging.beyond, 0);
  // No two entries append to one page.
  paging.shared = is_append(p) ? 0 : std::max<int64_t>(paging.shared, 0);
  c.once.k.batch = c.once.v.batch = false;
  TensorLayout& table = layout_of(c, TensorId::kBlockTable);
  table.step = 1, table.across = false, table.backwards = 0, table.spread = 0;
}

Complaint illegal(const Case& c) {
  const Problem& p = c.problem;
  if (!p.paging) return std::nullopt;
  const Paging& paging = *p.paging;
  const bool copies = (p.features & ATTN_FEATURE_COPY_PAGES) != 0;
  if (!may_have_pages(p.features)) return "paging is set, but the problem's operation has no pages";
  if (!p.key_lengths && !copies) return "paging is set, but there are no key_lengths";
  if (p.packed_k) return "paging is set, but keys are packed";
  if (auto why = outside("paging.size", paging.size, 1, kMaxSize)) return why;
  if (auto why = outside("paging.shared", paging.shared, 0, kMostPages)) return why;
  if (is_append(p) && paging.shared != 0)
    return "paging.shared is set, but no two batch entries append to one page";
  if (auto why = outside("paging.spare", paging.spare, 0, kMostPages)) return why;
  if (auto why = outside("paging.beyond", paging.beyond, 0, kMostPages)) return why;
  if (auto why = outside("the pages", page_count(p), 0, kMostPages)) return why;
  const TensorLayout& table = layout_of(c, TensorId::kBlockTable);
  if (table.scattered() || table.backwards != 0)
    return "layout.block_table: the entries of a row lie side by side, in order";
  return std::nullopt;
}

}  // namespace

extern constinit const Feature paging = checked({
    // kRefusals: a kernel that does not know pages never gets them
    .without = {kShrinkIntegers, kAlternatives, kCrossoverGroups, kNumbers, kRefusals},
    .shrink_toggles = {11,
                       {{"pages", is_set<kPagingFields>, unset<kPagingFields>,
                         [](Case& to, const Case& from, int choice) {
                           take<kPagingFields>(to, from);
                           if (choice == 0) *to.problem.paging = {.size = from.problem.paging->size};
                           return choice < 2;
                         }},
                        paging_toggle<&Paging::order>("shuffled pages"),
                        paging_toggle<&Paging::shared>("shared pages"),
                        paging_toggle<&Paging::spare>("spare pages"),
                        paging_toggle<&Paging::beyond>("longer rows of the block table"),
                        paging_toggle<&Paging::junk>("junk in the block table"),
                        paging_toggle<&Paging::numbers>("numbers in unused slots")}},
    .cost = count_pages,
    .canonical_seeds =
        [](int64_t, auto& seeds) {
          const auto form = [&](int64_t batch, const Paging& paging) {
            seeds.push_back([=](Case& c) {
              c.problem.batch = batch;
              c.problem.key_lengths.emplace(static_cast<size_t>(batch), c.problem.seq_k);
              c.problem.paging = paging;
            });
          };
          for (const int64_t batch : {1, 2}) {
            form(batch, {.size = 1});
            form(batch, {.size = 1, .order = 2});
            form(batch, {.size = 2});
            form(batch, {.size = 2, .order = 2});
          }
          form(2, {.size = 1, .beyond = 1});
        },
    .draw = {Phase::kLater, draw},
    .mutations = {step},
    .tags = {{"pages", [](const Tiled& x) { return x.p.paging.has_value(); }},
             {"shuffled pages", [](const Tiled& x) { return has_own_paging<&Paging::order>(x.c); }},
             {"shared pages", [](const Tiled& x) { return has_own_paging<&Paging::shared>(x.c); }},
             {"paged: all empty", keys_lie<LengthPlace::kAllEmpty>},
             {"paged: one long among short", keys_lie<LengthPlace::kOneLong>},
             {"paged: 1 below a page", keys_lie<LengthPlace::kBelow>},
             {"paged: whole pages", keys_lie<LengthPlace::kWhole>},
             {"paged: 1 above a page", keys_lie<LengthPlace::kAbove>},
             {"junk in the block table", [](const Tiled& x) { return has_own_paging<&Paging::junk>(x.c); }},
             {"page ids above 2^16",
              // The problem itself: x.p may have other lengths (draw/features.cc).
              [](const Tiled& x) { return x.c.problem.paging && page_count(x.c.problem) > int64_t{1} << 16; }}},
    .words = {{Section::kMask, 4, say_pages}},
    .tidy = tidy,
    .illegal = illegal,
});

}  // namespace attnfuzz::feature
