// The parts that masks and biases share: the pattern of pairs, and the broadcast dimensions.
#pragma once

#include "properties/case/features/feature.h"

namespace attnfuzz {

Pattern draw_pattern(const DrawContext& context, const Problem& p);
// Gives some masks a kind that was added to the draw later: a draft tree, first keys and a window, or blocks.
// It uses its own random numbers, so that other masks stay as they were drawn.
void draw_later_pattern(Rng& rng, Problem& p);
Broadcast draw_broadcast(Rng& rng);
// Changes the kind, the seed or the parameter, or broadcasts over one dimension more or less.
void mutate_pattern(const DrawContext& context, const Problem& p, Pattern& pattern, Broadcast& broadcast);

// For the reducer: the pattern in its simplest form (choice 0), or as it is.
bool form_of(Pattern& p, int choice);
// Clears the seed if the kind has none, and the parameter if the kind has none.
void tidy(Pattern& p);
Complaint bad_pattern(std::string_view field, const Pattern& pattern);

std::string broadcast_words(const Broadcast& b);

}  // namespace attnfuzz
