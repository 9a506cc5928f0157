// Keys of a forward or a backward pass that stand for blocks of keys (ATTN_FEATURE_KEY_STEP), in a case.
#pragma once

#include "properties/case/case.h"
#include "reference/call/tensor_spec.h"

namespace attnfuzz {

// Operations whose keys always stand for themselves.
inline constexpr uint64_t kWithoutKeyBlocks = kOperations & ~(ATTN_FEATURE_BACKWARD | ATTN_FEATURE_NSA_SCORE);

// Makes each key stand for itself. A key length becomes the number of keys that the entry had. A compression
// and a choice by computed scores stay as they are.
void give_up_key_blocks(Case& c);

}  // namespace attnfuzz
