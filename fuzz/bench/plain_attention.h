// Blocked attention in plain C++ for the CPU, without threads, warps or fragments: the reference time for the
// executor.
//
// It does the same work as a 64x64 instantiation of a forward kernel. Tiles are padded to 64 rows and keys.
// Each tile is converted from 16 bits when it is visited. Tiles behind a causal diagonal are skipped. It
// has online softmax with exp2f, masks where a tile needs it, rounds O to 16 bits, and writes the LSE. It
// uses one thread.
//
//   plain_attention(problem, tensors, Exp2::kLibrary);  // fills tensors.o and tensors.lse
//
// exp2f is a call for each score. Exp2::kInline is the same loop with a polynomial that the
// compiler vectorises. It is faster than the C library's exp2f.
//
// It supports top-left causal or full attention; no mask, bias, softcap, window, key lengths or GQA; head
// dimensions 64 and 128; innermost stride 1.
#pragma once

#include "kernels/attention.h"

namespace attnfuzz {

// True if plain_attention() supports this problem.
bool plain_attention_does(const attn_problem& problem, const attn_tensors& tensors);
enum class Exp2 { kLibrary, kInline };
void plain_attention(const attn_problem& problem, const attn_tensors& tensors, Exp2 exp2);

}  // namespace attnfuzz
