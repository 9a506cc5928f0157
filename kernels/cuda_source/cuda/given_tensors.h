// Calls a function of PyTorch's tensors with the memory of a case, for attnfuzz check --entry 'o = forward(q,
// k, v)'. torch.h includes it, so that the source's macros cannot reach into it.
#pragma once

namespace simt {

// A tensor that converts to a pointer, for a function that wants one. If a vector, tuple or pair of tensors is
// assigned to it, it takes the first.
struct GivenTensor : at::Tensor {
  using at::Tensor::Tensor;
  template <class R>
  GivenTensor& operator=(const R& result) {
    if constexpr (std::is_convertible_v<const R&, const at::Tensor&>) {
      at::Tensor::operator=(result);
    } else if constexpr (requires { std::tuple_size<R>::value; }) {
      at::Tensor::operator=(std::get<0>(result));
    } else {
      if (result.empty()) c10::refuse("", "the function returned no tensor");
      at::Tensor::operator=(result.at(0));
    }
    return *this;
  }
  template <class T>
  operator T*() const {
    return static_cast<T*>(data_ptr());
  }
};

// Calls f(q, k, v, o, lse) with tensors of four sizes in the order that `a` names, and an LSE of three. `a` is
// attn_entry::Args. The tensors that f assigns to o and lse are copied out.
template <class Args, class F>
void with_tensors(const Args& a, F f) {
  const auto make = [&](void* data, int64_t heads, int64_t length, int64_t dim, at::ScalarType type) {
    return GivenTensor(data, {a.B, a.by_head ? heads : length, a.by_head ? length : heads, dim}, type);
  };
  const at::ScalarType type = a.dtype == ATTN_F32    ? at::kFloat
                              : a.dtype == ATTN_BF16 ? at::kBFloat16
                                                     : at::kHalf;
  GivenTensor q = make(a.q.data, a.H, a.Sq, a.D, type), k = make(a.k.data, a.Hkv, a.Sk, a.D, type);
  GivenTensor v = make(a.v.data, a.Hkv, a.Sk, a.Dv, type), o = make(a.o.data, a.H, a.Sq, a.Dv, type);
  GivenTensor lse(a.lse, {a.B, a.H, a.Sq}, at::kFloat);
  at::Tensor due[] = {o, lse};
  f(q, k, v, o, lse);
  for (const auto& [had, has] : {std::pair{&due[0], &o}, {&due[1], &lse}}) {
    if (has->data_ptr() != had->data_ptr()) had->copy_(*has);
  }
}

}  // namespace simt
