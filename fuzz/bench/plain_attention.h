// The yardstick for the executor: blocked attention as one would write it for
// this processor alone, without threads, warps or fragments.
//
// Same work as a 64x64 instantiation of a forward kernel: tiles padded to 64
// rows and keys, each tile converted from 16 bits when it is visited, tiles
// behind a causal diagonal skipped, online softmax with exp2f, masking where a
// tile needs it, O rounded to 16 bits, LSE. One thread.
//
//   plain_attention(problem, tensors, Exp2::kLibrary);  // fills tensors.o and tensors.lse
//
// exp2f is a call for each score. Exp2::kInline is the same loop with a polynomial
// that the compiler vectorises: faster than one would write it at first, and
// than the C library allows.
//
// Top-left causal or full; no mask, bias, cap, window, key lengths or GQA; head
// dimension 64 or 128, innermost stride 1.
#pragma once

#include "kernels/attention.h"

namespace attnfuzz {

// Whether plain_attention() computes what this problem asks for.
bool plain_attention_does(const attn_problem& problem, const attn_tensors& tensors);
enum class Exp2 { kLibrary, kInline };
void plain_attention(const attn_problem& problem, const attn_tensors& tensors, Exp2 exp2);

}  // namespace attnfuzz
