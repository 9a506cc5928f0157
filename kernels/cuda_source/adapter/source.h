// Comes before a user's source that is compiled separately from its adapter (check FILE.cu --entry):
//
//   #include "kernels/cuda_source/adapter/source.h"
//   #include "attention.cu"
//   #undef D                                          the names of the call are fields of Args, not macros
//   template <class attn_T>
//   consteval int attn_takes() { return requires(attn_entry::Only<attn_T> q, ..., int D) { launch(q, ..., D); }; }
//   extern "C" int attn_entry_formats() { return attn_takes<attn_entry::F16>() + 2 * ... + 4 * attn_takes<float>(); }
//   extern "C" void attn_entry_call(const attn_entry::Args& attn_a) { ... launch(q, ..., D); }
//
// The source may use every name but attn_entry and attn_takes, and may define macros: everything that
// these lines need is declared before it. entry.h, in the other translation unit, calls the two functions.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <tuple>
#include <type_traits>

#include "kernels/cuda_source/adapter/args.h"

extern "C" int attn_entry_formats();  // bits 1 << attn_dtype that the function can be called with
extern "C" void attn_entry_call(const attn_entry::Args& attn_a);

namespace attn_entry {

using F16 = __half;
using Bf16 = __nv_bfloat16;

// Converts to a pointer to T, and to no other type.
template <class T>
struct Only {
  operator T*() const;
  operator const T*() const;
};

// Assigns the result of `o, lse = forward(q, k, v)`: a pair, a tuple, or a vector with these two first.
template <class O, class Lse, class R>
void take_both(O& o, Lse& lse, const R& result) {
  if constexpr (requires { std::tuple_size<R>::value; }) {
    o = std::get<0>(result), lse = std::get<1>(result);
  } else {
    o = result.at(0), lse = result.at(1);
  }
}

}  // namespace attn_entry
