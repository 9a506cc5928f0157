// The sides of a merge (ATTN_FEATURE_MERGE) or of a combination by gates (ATTN_FEATURE_NSA_COMBINE), which have
// the same sizes; which side of a merge saw a key, for each query; and whether a merge is in place.
#include "properties/case/features/feature.h"
#include "properties/case/features/visibility/pattern.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kSidesFields = [](auto& c) { return std::tie(c.sides); };

bool is_merge(const Problem& p) { return (p.features & ATTN_FEATURE_MERGE) != 0; }
bool in_place(const Case& c) { return (c.problem.features & ATTN_FEATURE_IN_PLACE) != 0; }

// A pattern sees the two sides as keys.
Problem two_sides(Problem p) {
  p.seq_k = 2;
  return p;
}

bool mutate_sides(const DrawContext& context, Case& c) {
  if (!is_merge(c.problem)) return false;
  Broadcast none_broadcast;
  mutate_pattern(context, two_sides(c.problem), c.sides, none_broadcast);
  return true;
}

bool mutate_in_place(const DrawContext& context, Case& c) {
  if (!is_merge(c.problem) || (context.config.features & ATTN_FEATURE_IN_PLACE) == 0) return false;
  c.problem.features ^= ATTN_FEATURE_IN_PLACE;
  return true;
}

Complaint bad_sides(const Case& c) {
  const Problem& p = c.problem;
  if (!is_merge(p) && c.sides != Pattern{}) return "sides are set, but the problem asks for no merge";
  if (!is_merge(p) && in_place(c)) return "features ask for a merge in place, but for no merge";
  if (!is_merge(p) && !p.combines()) return std::nullopt;
  if (is_merge(p) && p.combines()) return "the problem asks for two operations";
  const char* what = is_merge(p) ? "a merge" : "a combination by gates";
  if (p.heads_kv != p.heads_q || p.seq_k != 0 || p.dim_qk != 1)
    return cat(what, " has heads_kv = heads_q, seq_k = 0 and dim_qk = 1");
  Problem plain;
  plain.dtype = p.dtype, plain.batch = p.batch, plain.heads_q = p.heads_q, plain.heads_kv = p.heads_kv;
  plain.seq_q = p.seq_q, plain.seq_k = 0, plain.dim_v = p.dim_v, plain.features = p.features;
  if (p != plain)
    return cat(what, " has batch, heads, seq_q, dim_v and a format; another field of the problem is set");
  return bad_pattern("sides", c.sides);
}

}  // namespace

extern constinit const Feature sides = checked({
    // kDraw: operations/merge/operation.cc turns a drawn case into a merge
    .without = {kAlternatives, kDraw, kCrossoverGroups, kNumbers, kRefusals},
    .shrink_toggles = {12,
                       {{"sides without keys", is_set<kSidesFields>, unset<kSidesFields>,
                         [](Case& to, const Case& from, int choice) {
                           to.sides = from.sides;
                           return form_of(to.sides, choice);
                         },
                         Trait::kHidesKeys},
                        {"a merge in place", in_place,
                         [](Case& c) { c.problem.features &= ~ATTN_FEATURE_IN_PLACE; },
                         [](Case& to, const Case& from, int choice) {
                           to.problem.features |= from.problem.features & ATTN_FEATURE_IN_PLACE;
                           return choice == 0;
                         }}}},
    .shrink_integers = {{"the sides' parameter", IntegerKind::kParameter, 1,
                         [](const Case& c) { return c.sides.parameter; },
                         [](Case& c, int64_t n) { c.sides.parameter = n; }, is_set<kSidesFields>}},
    .cost =
        [](const Case& c, Cost& cost) {
          cost.count(in_place(c));
          if (in_place(c)) cost.at(Rank::kOther).add(1);
          if (c.sides == Pattern{}) return;
          cost.count(true);
          cost.at(Rank::kMaskForm).add(c.sides);
        },
    .canonical_seeds =
        [](int64_t, auto& seeds) {
          for (const PatternKind kind : {PatternKind::kNothing, PatternKind::kFirstKey, PatternKind::kLastKey})
            seeds.push_back([=](Case& c) { c.sides.kind = kind; });
        },
    .mutations = {mutate_sides, mutate_in_place},
    .tags = {{"merge: a side without keys",
              [](const Tiled& x) { return is_merge(x.p) && x.c.sides != Pattern{}; }},
             {"merge: in place", [](const Tiled& x) { return in_place(x.c); }}},
    .words = {{Section::kMask, 4,
               [](const Case& c, Sentence& words) {
                 if (is_merge(c.problem) && c.sides != Pattern{})
                   words.push_back("sides with keys: " + to_string(c.sides));
               }},
              {Section::kNumber, 3,
               [](const Case& c, Sentence& words) {
                 if (in_place(c)) words.push_back("in place");
               }}},
    .tidy =
        [](Case& c) {
          if (!is_merge(c.problem)) c.sides = {};
          tidy(c.sides);
        },
    .illegal = bad_sides,
});

}  // namespace attnfuzz::feature
