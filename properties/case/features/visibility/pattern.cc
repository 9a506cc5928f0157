#include "properties/case/features/visibility/pattern.h"

#include <algorithm>

namespace attnfuzz {

Pattern draw_pattern(const DrawContext& context, const Problem& p) {
  Rng& rng = context.rng;
  Pattern pattern;
  pattern.kind = rng.weighted<PatternKind>({{6, PatternKind::kAll},
                                            {6, PatternKind::kNothing},
                                            {8, PatternKind::kFirstKey},
                                            {12, PatternKind::kLastKey},
                                            {12, PatternKind::kPrefix},
                                            {12, PatternKind::kDocuments},
                                            {20, PatternKind::kDeadRows},
                                            {16, PatternKind::kDeadTiles},
                                            {6, PatternKind::kStripes},
                                            {14, PatternKind::kRandom}});
  pattern.seed = rng.bits() % 65536;
  switch (pattern.kind) {
    case PatternKind::kPrefix:
    case PatternKind::kDocuments:
      pattern.parameter = rng.range(1, p.seq_k + 1);
      break;
    case PatternKind::kDeadTiles:
      pattern.parameter = rng.percent(70) ? context.tile_k : rng.range(1, context.tile_k);
      break;
    case PatternKind::kRandom:
      pattern.parameter = rng.range(1, 15);
      break;
    case PatternKind::kDeadRows:
    case PatternKind::kStripes:
      pattern.parameter = rng.range(1, 7);
      break;
    default:
      break;
  }
  return pattern;
}

void draw_later_pattern(Rng& rng, Problem& p) {
  constexpr int64_t kPercent = 20;
  if (!p.mask || !rng.percent(kPercent)) return;
  Pattern& pattern = p.mask->visible;
  pattern.kind = rng.pick<PatternKind>({PatternKind::kTree, PatternKind::kSinkWindow, PatternKind::kBlockwise});
  pattern.seed = rng.bits() % 65536;
  if (pattern.kind == PatternKind::kTree) {
    pattern.parameter = rng.range(1, 5);
  } else if (pattern.kind == PatternKind::kBlockwise) {
    pattern.parameter = rng.range(1, 16);
  } else {
    pattern.parameter = rng.percent(50) ? rng.range(1, 8) : rng.range(1, std::max<int64_t>(p.seq_k, 1));
    pattern.seed = static_cast<uint64_t>(rng.range(0, 5));
  }
}

Broadcast draw_broadcast(Rng& rng) { return {rng.percent(35), rng.percent(50), rng.percent(25)}; }

void mutate_pattern(const DrawContext& context, const Problem& p, Pattern& pattern, Broadcast& broadcast) {
  Rng& rng = context.rng;
  if (!rng.percent(75)) {
    bool& flag = *rng.pick({&broadcast.batch, &broadcast.head, &broadcast.query});
    flag = !flag;
    return;
  }
  switch (rng.range(0, 3)) {
    case 0:
      pattern.kind = static_cast<PatternKind>(rng.range(0, kPatternKinds - 1));
      break;
    case 1:
      pattern.seed = rng.bits() % 65536;
      break;
    default:
      pattern.parameter = moved(pattern.parameter, 1, context.tile_k, p.seq_k, rng);
  }
  if (pattern.kind == PatternKind::kRandom) pattern.parameter = std::clamp<int64_t>(pattern.parameter, 1, 15);
}

bool form_of(Pattern& p, int choice) {
  if (choice > 1) return false;
  if (choice == 0) {
    p.parameter = 1;
    p.seed = 0;
  }
  return true;
}

void tidy(Pattern& p) {
  const bool has_seed = p.kind == PatternKind::kDeadTiles || p.kind >= PatternKind::kRandom;
  const bool has_parameter = p.kind != PatternKind::kAll && p.kind != PatternKind::kNothing &&
                             p.kind != PatternKind::kFirstKey && p.kind != PatternKind::kLastKey;
  if (!has_seed) p.seed = 0;
  if (!has_parameter) p.parameter = 1;
  p.parameter = std::max<int64_t>(p.parameter, 1);
  if (p.kind == PatternKind::kTree && p.parameter == 1) p.seed = 0;  // a chain
}

Complaint bad_pattern(std::string_view field, const Pattern& pattern) {
  if (pattern.parameter < 1) return say(cat(field, ".parameter"), pattern.parameter, "at least 1");
  return std::nullopt;
}

std::string broadcast_words(const Broadcast& b) {
  std::string text;
  if (b.batch) text += " batch";
  if (b.head) text += " head";
  if (b.query) text += " query";
  return text.empty() ? text : ", broadcast over" + text;
}

}  // namespace attnfuzz
