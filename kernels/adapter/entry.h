// What `attnfuzz check attention.cu --entry 'launch(q, k, v, o, B, H, S, D)'` is made of
// beside adapter.h: which elements the function's tensors have follows from its type.
//
//   template <class Tensor>
//   static constexpr bool kCalls = requires(Tensor q, Tensor k, ..., int D) { launch(q, k, v, o, B, H, S, D); };
//   static constexpr attn::Formats kFormat = attn::entry_format<Entry>();
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <tuple>

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

// What becomes of `o, lse = forward(q, k, v)`: a pair, a tuple, or a vector whose first two they are.
template <class O, class Lse, class R>
void take_both(O& o, Lse& lse, const R& result) {
  if constexpr (requires { std::tuple_size<R>::value; }) {
    o = std::get<0>(result), lse = std::get<1>(result);
  } else {
    o = result.at(0), lse = result.at(1);
  }
}

#ifdef ATTN_HAS_TENSORS  // a source with torch::Tensor, on the executor (kernels/simt/cuda/torch.h)

// Of PyTorch's kind and, for a function that wants that, a pointer.
struct EntryTensor : at::Tensor {
  using at::Tensor::Tensor;
  EntryTensor& operator=(const at::Tensor& other) {
    at::Tensor::operator=(other);
    return *this;
  }
  template <class T>
  operator T*() const {
    return static_cast<T*>(data_ptr());
  }
};

// f(q, k, v, o, lse) with tensors of four sizes, in the order of `takes`, and an LSE of three. What f assigns
// to o and lse is copied out; what it throws is told, and the call has failed.
template <class F>
void with_tensors(const Args& a, const Takes& takes, F f) {
  const auto make = [&](void* data, int64_t heads, int64_t length, int64_t dim, at::ScalarType type) {
    const bool by_head = takes.order == Order::kBhsd;
    return EntryTensor(data, {a.B, by_head ? heads : length, by_head ? length : heads, dim}, type);
  };
  const at::ScalarType type = a.dtype == ATTN_F32    ? at::kFloat
                              : a.dtype == ATTN_BF16 ? at::kBFloat16
                                                     : at::kHalf;
  EntryTensor q = make(a.q.data, a.H, a.Sq, a.D, type), k = make(a.k.data, a.Hkv, a.Sk, a.D, type);
  EntryTensor v = make(a.v.data, a.Hkv, a.Sk, a.Dv, type), o = make(a.o.data, a.H, a.Sq, a.Dv, type);
  EntryTensor lse(a.lse, {a.B, a.H, a.Sq}, at::kFloat);
  const EntryTensor due[] = {o, lse};
  try {
    f(q, k, v, o, lse);
    for (const auto& [had, has] : {std::pair{due[0], o}, {due[1], lse}}) {
      if (has.data_ptr() != had.data_ptr()) at::Tensor(had).copy_(has);
    }
  } catch (const std::exception& error) {
    simt::tell(ATTN_REPORT_DEVICE, "it threw: %s", error.what());
    simt::HostCall::fail(ATTN_FAULT);
  }
}

#endif

}  // namespace attn
