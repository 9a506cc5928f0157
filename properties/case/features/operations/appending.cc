// An append (ATTN_FEATURE_APPEND): seq_q new keys and values, or packed ones, are written behind the keys of a
// cache. The values of a key depend on its place in the batch entry, not on whether the cache holds it before
// the call or it is new.
#include <algorithm>

#include "properties/case/features/feature.h"
#include "properties/case/places/packed.h"

namespace attnfuzz::feature {
namespace {

bool any_entry(const Problem& p, bool (*is)(const Problem& p, int64_t b)) {
  for (int64_t b = 0; b < p.batch; ++b) {
    if (is(p, b)) return true;
  }
  return false;
}

bool exceeds(const Problem& p, int64_t b) { return held_keys(p, b) + new_rows(p, b) > p.seq_k; }

bool crosses_pages(const Problem& p, int64_t b) {
  return new_rows(p, b) > 0 && p.pages_of(paged_keys(p, b)) > std::max<int64_t>(p.pages_of(held_keys(p, b)), 1);
}

Complaint bad_append(const Case& c) {
  const Problem& p = c.problem;
  if (!is_append(p)) return std::nullopt;
  if ((p.features & kOperations) != ATTN_FEATURE_APPEND) return "the problem asks for two operations";
  if (p.heads_kv != p.heads_q || !p.key_lengths) return "an append has heads_kv = heads_q, and key_lengths";
  Problem plain;
  plain.dtype = p.dtype, plain.batch = p.batch, plain.heads_q = p.heads_q, plain.heads_kv = p.heads_kv;
  plain.seq_q = p.seq_q, plain.seq_k = p.seq_k, plain.dim_qk = p.dim_qk, plain.dim_v = p.dim_v;
  plain.key_lengths = p.key_lengths, plain.packed_q = p.packed_q, plain.index_dtype = p.index_dtype;
  plain.paging = p.paging, plain.features = p.features;
  if (p != plain)
    return "an append has batch, heads, seq_q, seq_k, dims, a format, key lengths, packed new rows and pages; "
           "another "
           "field of the problem is set";
  return std::nullopt;
}

}  // namespace

extern constinit const Feature appending = checked({
    // kShrinkToggles: sizes, lengths, packed rows and pages have their own
    // kDraw: operations/append/operation.cc turns a drawn case into an append
    .without = {kShrinkToggles, kShrinkIntegers, kAlternatives, kCost, kCanonicalSeeds, kDraw, kCrossoverGroups,
                kNumbers, kMutations, kRefusals, kTidy},
    // Tiled::p has other sizes if the operation has no attention (draw/features.cc).
    .tags = {{"append: past the capacity",
              [](const Tiled& x) { return is_append(x.c.problem) && any_entry(x.c.problem, exceeds); }},
             {"append: into a further page",
              [](const Tiled& x) {
                const Problem& p = x.c.problem;
                return is_append(p) && p.paging && any_entry(p, crosses_pages);
              }}},
    .words = {{Section::kMask, 5,
               [](const Case& c, Sentence& words) {
                 const Problem& p = c.problem;
                 if (!is_append(p)) return;
                 words.push_back(cat("append of ", p.seq_q, p.seq_q == 1 ? " row" : " rows",
                                     p.packed_q ? " at most" : "", " to caches of ", p.seq_k,
                                     p.seq_k == 1 ? " key" : " keys"));
               }}},
    .illegal = bad_append,
});

}  // namespace attnfuzz::feature
