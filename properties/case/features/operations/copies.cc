// A copy of pages (ATTN_FEATURE_COPY_PAGES): pairs of pages. `batch` is the number of pairs. No sequence of
// keys has these pages.
#include <algorithm>

#include "properties/case/features/feature.h"
#include "properties/case/places/pages.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kCopiesFields = [](auto& c) { return std::tie(c.copies); };

bool is_copy(const Problem& p) { return (p.features & ATTN_FEATURE_COPY_PAGES) != 0; }

// True if the pairs may stand in one call: no page is written twice, and none is written by one and read by
// another.
bool may_follow(const std::vector<PageCopy>& before, const PageCopy& copy) {
  return std::ranges::none_of(before, [&](const PageCopy& other) {
    return other.to == copy.to || other.to == copy.from || other.from == copy.to;
  });
}

bool mutate_copies(const DrawContext& context, Case& c) {
  if (!is_copy(c.problem) || c.copies.empty() || !c.problem.paging) return false;
  Rng& rng = context.rng;
  const int64_t pages = std::max<int64_t>(page_count(c.problem), 1);
  PageCopy& copy = c.copies[static_cast<size_t>(rng.range(0, static_cast<int64_t>(c.copies.size()) - 1))];
  (rng.coin() ? copy.from : copy.to) = rng.range(0, pages - 1);
  return true;
}

// Keeps the pairs whose pages exist, at most `batch`, and sets `batch` to their number.
void tidy_copies(Case& c) {
  Problem& p = c.problem;
  if (!is_copy(p)) return c.copies.clear();
  if (!p.paging) return;
  const int64_t pages = page_count(p);
  std::vector<PageCopy> kept;
  for (PageCopy copy : c.copies) {
    if (pages == 0 || static_cast<int64_t>(kept.size()) >= p.batch) break;
    copy.from = std::clamp<int64_t>(copy.from, 0, pages - 1);
    copy.to = std::clamp<int64_t>(copy.to, 0, pages - 1);
    if (may_follow(kept, copy)) kept.push_back(copy);
  }
  c.copies = std::move(kept);
  p.batch = static_cast<int64_t>(c.copies.size());
  TensorLayout& table = layout_of(c, TensorId::kCopies);
  table.step = 1, table.across = false, table.backwards = 0, table.spread = 0;
}

Complaint bad_pairs(const Case& c) {
  const int64_t pages = page_count(c.problem);
  std::vector<PageCopy> before;
  for (size_t n = 0; n < c.copies.size(); ++n) {
    const PageCopy& copy = c.copies[n];
    for (const auto& [name, page] : {std::pair{".from", copy.from}, {".to", copy.to}}) {
      if (auto why = of_field(outside(name, page, 0, pages - 1), "copies[", n, "]")) return why;
    }
    if (!may_follow(before, copy))
      return cat("copies[", n, "] and an earlier one write one page, or one reads what the other writes");
    before.push_back(copy);
  }
  return std::nullopt;
}

Complaint illegal_copies(const Case& c) {
  const Problem& p = c.problem;
  if (!is_copy(p)) {
    if (!c.copies.empty()) return "copies are set, but the problem asks for no copy of pages";
    return std::nullopt;
  }
  if ((p.features & kOperations) != ATTN_FEATURE_COPY_PAGES) return "the problem asks for two operations";
  if (p.heads_kv != p.heads_q || p.seq_q != 1 || p.seq_k != 0 || !p.paging)
    return "a copy of pages has heads_kv = heads_q, seq_q = 1, seq_k = 0, and paging";
  if (*p.paging != Paging{.size = p.paging->size, .spare = p.paging->spare})
    return "paging: the pages of a copy have a size and a number (spare), and nothing else";
  if (static_cast<int64_t>(c.copies.size()) != p.batch)
    return cat("copies has ", c.copies.size(), " pairs, batch is ", p.batch);
  Problem plain;
  plain.dtype = p.dtype, plain.batch = p.batch, plain.heads_q = p.heads_q, plain.heads_kv = p.heads_kv;
  plain.seq_k = 0, plain.dim_qk = p.dim_qk, plain.dim_v = p.dim_v, plain.index_dtype = p.index_dtype;
  plain.paging = p.paging, plain.features = p.features;
  if (p != plain)
    return "a copy of pages has batch, heads, dims, formats and paging; another field of the problem is set";
  const TensorLayout& table = layout_of(c, TensorId::kCopies);
  if (table.scattered() || table.backwards != 0)
    return "layout.copies: the numbers of a pair lie side by side, in order";
  return bad_pairs(c);
}

}  // namespace

extern constinit const Feature copies = checked({
    // kShrinkToggles: the number of pairs is `batch`, which is lowered like any size
    // kDraw: operations/copy_pages/operation.cc turns a drawn case into a copy
    .without = {kShrinkToggles, kShrinkIntegers, kAlternatives, kCanonicalSeeds, kDraw, kCrossoverGroups,
                kNumbers, kRefusals},
    .cost =
        [](const Case& c, Cost& cost) {
          if (c.copies.empty()) return;
          cost.at(Rank::kOther).add(static_cast<int64_t>(c.copies.size()));
          for (const PageCopy& copy : c.copies) cost.add(copy.from), cost.add(copy.to);
        },
    .mutations = {mutate_copies},
    .tags = {{"copy of pages", [](const Tiled& x) { return is_set<kCopiesFields>(x.c); }}},
    .words = {{Section::kMask, 5,
               [](const Case& c, Sentence& words) {
                 std::string text;
                 for (size_t n = 0; n < std::min<size_t>(c.copies.size(), 4); ++n)
                   text += cat(n > 0 ? ", " : "copies of pages: ", c.copies[n].from, " to ", c.copies[n].to);
                 if (c.copies.size() > 4) text += ", ...";
                 if (!text.empty()) words.push_back(text);
               }}},
    .tidy = tidy_copies,
    .illegal = illegal_copies,
});

}  // namespace attnfuzz::feature
