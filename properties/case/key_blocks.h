// Keys of a forward pass that stand for blocks of keys (ATTN_FEATURE_KEY_STEP), in a case.
#pragma once

#include "properties/case/case.h"

namespace attnfuzz {

// Makes each key stand for itself. A key length becomes the number of keys that the entry had. A compression
// and a choice by computed scores stay as they are.
void give_up_key_blocks(Case& c);

}  // namespace attnfuzz
