// Blocks of keys: how many keys a block has, and how many lie between the starts of two blocks. A compression
// turns blocks into keys (ATTN_FEATURE_NSA_COMPRESS). The keys of a forward or a backward pass may stand for
// blocks, and those of a choice by computed scores do (key_blocks.cc).
#include <algorithm>

#include "properties/case/features/feature.h"
#include "properties/case/places/key_blocks.h"
#include "reference/semantics.h"

namespace attnfuzz::feature {
namespace {

bool compresses(const Case& c) { return c.problem.compresses(); }
bool has_compressing(const Case& c) { return compresses(c) || has_key_blocks(c.problem); }

// Keeps the fields that a compression has, and resets all others to their defaults.
Problem without_others(const Problem& p) {
  Problem kept;
  kept.dtype = p.dtype, kept.batch = p.batch, kept.heads_q = kept.heads_kv = p.heads_kv;
  kept.seq_q = p.seq_q, kept.seq_k = p.seq_k, kept.dim_qk = p.dim_qk, kept.dim_v = p.dim_v;
  kept.key_lengths = p.key_lengths, kept.packed_q = p.packed_q, kept.packed_k = p.packed_k;
  kept.index_dtype = p.index_dtype, kept.features = p.features;
  kept.key_step = p.key_step, kept.key_offset = p.key_offset;
  return kept;
}

void tidy_compressing(Case& c) {
  Problem& p = c.problem;
  if (!has_compressing(c)) p.key_step = p.key_offset = 0;
  if (!compresses(c)) return;
  p = without_others(p);
  p.key_step = std::max<int64_t>(p.key_step, 1);
  p.key_offset = std::max<int64_t>(p.key_offset, 0);
}

Complaint illegal_compressing(const Case& c) {
  const Problem& p = c.problem;
  const bool without = !compresses(c) && !p.scores_blocks() &&
                       (!has_compressing(c) || (p.features & kWithoutKeyBlocks) != 0);
  if (without && (p.key_step != 0 || p.key_offset != 0))
    return "key_step or key_offset is set, but the problem asks for no compressed keys";
  if (!compresses(c)) return std::nullopt;
  if ((p.features & kOperations) != ATTN_FEATURE_NSA_COMPRESS) return "the problem asks for two operations";
  if (auto why = outside("key_step", p.key_step, 1, kMaxSize)) return why;
  if (auto why = outside("key_offset", p.key_offset, 0, kMaxSize)) return why;
  if (p != without_others(p))
    return "a compression of keys has batch, heads_q = heads_kv, seq_q, seq_k, dims, a format, key_lengths, packed_q, "
           "packed_k, index_dtype, key_step and key_offset; another field of the problem is set";
  return std::nullopt;
}

// Changes one number of the blocks.
bool mutate_compressing(const DrawContext& context, Case& c) {
  if (!has_compressing(c)) return false;
  Rng& rng = context.rng;
  Problem& p = c.problem;
  if (rng.coin())
    p.key_step = moved(p.key_step, 1, 16, p.key_offset + 1, rng);
  else
    p.key_offset = moved(p.key_offset, 0, 16, p.key_step - 1, rng);
  return true;
}

template <int64_t Problem::* kMember, int64_t kLeast>
constexpr ShrinkToggle toggle(const char* name) {
  return {name, [](const Case& c) { return has_compressing(c) && c.problem.*kMember > kLeast; },
          [](Case& c) { c.problem.*kMember = kLeast; },
          [](Case& to, const Case& from, int choice) {
            to.problem.*kMember = choice == 0 ? kLeast + 1 : from.problem.*kMember;
            return choice < 2;
          },
          Trait::kCounted};
}

template <int64_t Problem::* kMember>
constexpr ShrinkInteger integer(const char* name, int64_t least) {
  return {name,
          IntegerKind::kParameter,
          least,
          [](const Case& c) { return c.problem.*kMember; },
          [](Case& c, int64_t n) { c.problem.*kMember = n; },
          has_compressing};
}

// Reads x.c.problem, because Tiled::p has other sizes if the operation has no attention (draw/features.cc).
bool is_incomplete(const Tiled& x) {
  const Problem& p = x.c.problem;
  return compresses(x.c) && p.seq_k % p.key_step != 0;
}

}  // namespace

extern constinit const Feature compressing = checked({
    // kDraw: operations/nsa_compress/operation.cc turns a drawn case into a compression
    // kRefusals: a kernel that does not know it never gets it
    .without = {kAlternatives, kCanonicalSeeds, kDraw, kCrossoverGroups, kNumbers, kRefusals},
    .shrink_toggles = {13,
                       {toggle<&Problem::key_step, 1>("blocks some keys apart"),
                        toggle<&Problem::key_offset, 0>("blocks of several keys")}},
    .shrink_integers = {integer<&Problem::key_step>("the keys from a block to the next", 1),
                        integer<&Problem::key_offset>("the keys of a block less 1", 0)},
    .cost =
        [](const Case& c, Cost& cost) {
          if (!has_compressing(c)) return;
          cost.count(int{c.problem.key_step > 1} + int{c.problem.key_offset > 0});
          cost.at(Rank::kMaskForm).distance(c.problem.key_step, 1);
          cost.distance(c.problem.key_offset, 0);
        },
    .mutations = {mutate_compressing},
    .tags = {{"compression: blocks overlap",
              [](const Tiled& x) { return compresses(x.c) && x.c.problem.key_step <= x.c.problem.key_offset; }},
             {"compression: keys between blocks",
              [](const Tiled& x) {
                return compresses(x.c) && x.c.problem.key_step > x.c.problem.key_offset + 1;
              }},
             {"compression: an incomplete last block", is_incomplete}},
    .words = {{Section::kMask, 5,
               [](const Case& c, Sentence& words) {
                 const Problem& p = c.problem;
                 if (!has_compressing(c)) return;
                 words.push_back(cat(compresses(c) ? "" : "keys of ", "blocks of ", p.key_offset + 1,
                                     p.key_offset == 0 ? " key, " : " keys, ", p.key_step,
                                     p.key_step == 1 ? " key apart" : " keys apart"));
               }}},
    .tidy = tidy_compressing,
    .illegal = illegal_compressing,
});

}  // namespace attnfuzz::feature
