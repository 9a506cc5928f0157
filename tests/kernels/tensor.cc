#include "tests/kernels/tensor.h"

#include <algorithm>
#include <cstring>

#include "reference/numbers/formats.h"

namespace attnfuzz {
namespace {

constexpr int64_t kMargin = 16;  // elements before and after the tensor: a multiple of 16 bytes

int64_t bytes_of(int32_t dtype) { return dtype == ATTN_NONE ? 1 : dtype == ATTN_F32 ? 4 : 2; }

}  // namespace

Index dense(const Index& shape) { return {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1}; }

Tensor::Tensor(int32_t dtype, const Index& shape, const Index& strides)
    : dtype_(dtype), size_(bytes_of(dtype)), shape_(shape), strides_(strides) {
  int64_t last = 0;
  for (int n = 0; n < 4; ++n) {
    const int64_t reach = std::max<int64_t>(shape[n] - 1, 0) * strides[n];
    (reach < 0 ? first_ : last) += reach;
  }
  first_ = first_ / 8 * 8 - kMargin;  // the first element stays aligned to 16 bytes
  memory_.assign((last - first_ + 1 + kMargin) * size_, 0xFF);
}

int64_t Tensor::offset(const Index& at) const {
  int64_t offset = -first_;
  for (int n = 0; n < 4; ++n) offset += at[n] * strides_[n];
  return offset;
}

attn_tensor Tensor::view() {
  attn_tensor view = {memory_.data() + offset({}) * size_, {}};
  std::ranges::copy(strides_, view.stride);
  return view;
}

double Tensor::get(const Index& at) const {
  return dtype_ == ATTN_NONE ? memory_[offset(at)] : decode(dtype_, memory_.data(), offset(at));
}

void Tensor::set(const Index& at, double value) {
  unsigned char* element = memory_.data() + offset(at) * size_;
  const float number = static_cast<float>(value);
  if (dtype_ == ATTN_NONE) {
    *element = static_cast<unsigned char>(value);
  } else if (dtype_ == ATTN_F32) {
    std::memcpy(element, &number, sizeof number);
  } else {
    const uint16_t bits = encode16(dtype_, number);
    std::memcpy(element, &bits, sizeof bits);
  }
}

void Tensor::clear() { std::ranges::fill(memory_, 0xFF); }

bool Tensor::gaps_untouched() const {
  std::vector<unsigned char> rest = memory_;
  for_each([&](const Index& at) { std::memset(rest.data() + offset(at) * size_, 0xFF, size_); });
  return std::ranges::all_of(rest, [](unsigned char byte) { return byte == 0xFF; });
}

}  // namespace attnfuzz
