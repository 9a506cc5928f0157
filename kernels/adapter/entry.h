// What `attnfuzz check attention.cu --entry 'launch(q, k, v, o, B, H, S, D)'` is made of
// beside adapter.h: which elements the function's tensors have follows from its type.
//
//   template <class Tensor>
//   static constexpr bool kCalls = requires(Tensor q, Tensor k, ..., int D) { launch(q, k, v, o, B, H, S, D); };
//   static constexpr attn::Formats kFormat = attn::entry_format<Entry>();
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/adapter.h"

namespace attn {

// A tensor of T and of nothing else.
template <class T>
struct Only {
  operator T*() const;
  operator const T*() const;
};

// The format that E can be called with, fp16 where it takes any. Where it can be called with
// none, fp16 too: the compiler then says what is wrong with the call itself.
template <class E>
consteval Formats entry_format() {
  if (E::template kCalls<Only<half>>) return Formats::kF16;
  if (E::template kCalls<Only<__nv_bfloat16>>) return Formats::kBf16;
  return E::template kCalls<Only<float>> ? Formats::kF32 : Formats::kF16;
}

}  // namespace attn
