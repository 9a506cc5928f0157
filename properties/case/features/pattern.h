// What masks and biases share: which pairs a pattern names, and what is broadcast.
#pragma once

#include "properties/case/feature.h"

namespace attnfuzz {

Pattern draw_pattern(const DrawContext& context, const Problem& p);
Broadcast draw_broadcast(Rng& rng);
// Another kind, seed or parameter; or broadcast over one dimension more or less.
void mutate_pattern(const DrawContext& context, const Problem& p, Pattern& pattern, Broadcast& broadcast);

// For the reducer: the pattern in its simplest form (choice 0), and as it is.
bool form_of(Pattern& p, int choice);
// No seed and no parameter for a kind that has none.
void tidy(Pattern& p);
Complaint bad_pattern(std::string_view field, const Pattern& pattern);

std::string broadcast_words(const Broadcast& b);

}  // namespace attnfuzz
