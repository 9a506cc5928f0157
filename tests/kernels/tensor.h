// A tensor in its own memory, with any strides.
//
// The bytes between the elements are 0xFF: a kernel that reads them gets NaN, and one that writes them changes them.
//
//   Tensor o(ATTN_F16, {1, 1, 5, 16}, {0, 0, 36, 2});   // every other element of rows 36 apart
//   o.set({0, 0, 4, 15}, 0.5);
//   kernel.run(... o.view() ...);
//   EXPECT_TRUE(o.gaps_untouched());
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/attention.h"

namespace attnfuzz {

using Index = std::array<int64_t, 4>;

Index dense(const Index& shape);

class Tensor {
 public:
  Tensor() = default;
  // `dtype` is an attn_dtype, or ATTN_NONE for bytes (a mask). Strides may be 0 or negative.
  Tensor(int32_t dtype, const Index& shape, const Index& strides);
  Tensor(int32_t dtype, const Index& shape) : Tensor(dtype, shape, dense(shape)) {}

  attn_tensor view();
  const Index& shape() const { return shape_; }
  double get(const Index& at) const;
  void set(const Index& at, double value);
  void clear();  // fills all bytes with 0xFF
  bool gaps_untouched() const;
  // A cleared tensor of the same dtype and shape with other strides.
  Tensor at_strides(const Index& strides) const { return {dtype_, shape_, strides}; }

  template <class F>  // f(index) for every element
  void for_each(F f) const {
    for (int64_t b = 0; b < shape_[0]; ++b)
      for (int64_t h = 0; h < shape_[1]; ++h)
        for (int64_t i = 0; i < shape_[2]; ++i)
          for (int64_t c = 0; c < shape_[3]; ++c) f(Index{b, h, i, c});
  }

 private:
  int64_t offset(const Index& at) const;  // in elements

  int32_t dtype_ = ATTN_NONE;
  int64_t size_ = 1;  // bytes of an element
  int64_t first_ = 0;
  Index shape_ = {}, strides_ = {};
  std::vector<unsigned char> memory_;
};

}  // namespace attnfuzz
