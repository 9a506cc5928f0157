// The parts of PyTorch that CUDA extensions use around their kernels, on the executor: dense tensors, the
// functions that make them, checks, the stream, and the macros of a module. PyTorch is not needed, and its
// functions that compute are missing.
//
// Tensors that a source makes are arrays of cudaMalloc: they are guarded, and those of empty() start as NaNs.
// Tensors that attnfuzz hands in are the case's own memory (given_tensors.h).
#pragma once

#include <initializer_list>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/executor/cuda_words.h"
#include "kernels/cuda_source/cuda/host.h"

#define ATTN_HAS_TENSORS 1

namespace c10 {

enum class ScalarType : int8_t { Byte, Char, Short, Int, Long, Half, Float, Double, Bool = 11, BFloat16 = 15 };
inline const char* toString(ScalarType type) {
  switch (type) {
    case ScalarType::Byte:
      return "Byte";
    case ScalarType::Char:
      return "Char";
    case ScalarType::Short:
      return "Short";
    case ScalarType::Int:
      return "Int";
    case ScalarType::Long:
      return "Long";
    case ScalarType::Half:
      return "Half";
    case ScalarType::Float:
      return "Float";
    case ScalarType::Double:
      return "Double";
    case ScalarType::Bool:
      return "Bool";
    case ScalarType::BFloat16:
      return "BFloat16";
  }
  return "?";
}
inline std::ostream& operator<<(std::ostream& to, ScalarType type) { return to << toString(type); }
inline size_t elementSize(ScalarType type) {
  switch (type) {
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Bool:
      return 1;
    case ScalarType::Short:
    case ScalarType::Half:
    case ScalarType::BFloat16:
      return 2;
    case ScalarType::Int:
    case ScalarType::Float:
      return 4;
    case ScalarType::Long:
    case ScalarType::Double:
      return 8;
  }
  return 0;
}
// The ScalarType of the elements that data_ptr<T>() names; void stands for any.
template <class T>
constexpr std::optional<ScalarType> type_of() {
  if constexpr (std::is_same_v<T, float>) return ScalarType::Float;
  if constexpr (std::is_same_v<T, double>) return ScalarType::Double;
  if constexpr (std::is_same_v<T, half>) return ScalarType::Half;
  if constexpr (std::is_same_v<T, __nv_bfloat16>) return ScalarType::BFloat16;
  if constexpr (std::is_same_v<T, int32_t>) return ScalarType::Int;
  if constexpr (std::is_same_v<T, int64_t>) return ScalarType::Long;
  if constexpr (std::is_same_v<T, uint8_t>) return ScalarType::Byte;
  if constexpr (std::is_same_v<T, bool>) return ScalarType::Bool;
  return std::nullopt;
}

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
template <class... Words>
[[noreturn]] inline void refuse(const char* condition, const Words&... words) {
  std::ostringstream text;
  (text << ... << words);
  throw Error(text.str().empty() ? std::string("Expected ") + condition : text.str());
}

enum class DeviceType : int8_t { CPU, CUDA };
struct Device {
  DeviceType of = DeviceType::CUDA;
  Device(DeviceType type = DeviceType::CUDA, int = 0) : of(type) {}
  Device(const char*) {}
  DeviceType type() const { return of; }
  bool is_cuda() const { return of == DeviceType::CUDA; }
  int index() const { return 0; }
  bool operator==(const Device&) const { return true; }  // memory of the host and of the device is the same
};

struct TensorOptions {
  ScalarType type = ScalarType::Float;
  TensorOptions(ScalarType of = ScalarType::Float) : type(of) {}
  TensorOptions(Device) {}
  TensorOptions(DeviceType) {}
  TensorOptions dtype(ScalarType of) const { return of; }
  ScalarType dtype() const { return type; }
  TensorOptions device(Device, int = 0) const { return *this; }
  TensorOptions device(DeviceType, int = 0) const { return *this; }
  Device device() const { return {}; }
  TensorOptions layout(int) const { return *this; }
  TensorOptions requires_grad(bool) const { return *this; }
};
inline std::ostream& operator<<(std::ostream& to, const TensorOptions& options) { return to << options.type; }

}  // namespace c10

namespace at {

using c10::Device;
using c10::DeviceType;
using c10::ScalarType;
using c10::TensorOptions;
using Half = half;
using BFloat16 = __nv_bfloat16;
inline constexpr ScalarType kFloat = ScalarType::Float, kFloat32 = ScalarType::Float, kHalf = ScalarType::Half,
                            kFloat16 = ScalarType::Half, kBFloat16 = ScalarType::BFloat16,
                            kDouble = ScalarType::Double, kInt = ScalarType::Int, kInt32 = ScalarType::Int,
                            kLong = ScalarType::Long, kInt64 = ScalarType::Long, kBool = ScalarType::Bool,
                            kByte = ScalarType::Byte;
inline constexpr DeviceType kCUDA = DeviceType::CUDA, kCPU = DeviceType::CPU;
using IntArrayRef = std::vector<int64_t>;

template <class T>
struct DefaultPtrTraits {
  using PtrType = T*;
};
template <class T>
struct RestrictPtrTraits {
  using PtrType = T* __restrict__;
};

// The accessor that kernels index a tensor with: a[b][h][s][d].
template <class T, size_t kDims, class Index>
class TensorAccessor {
 public:
  TensorAccessor(T* data, const Index* sizes, const Index* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  decltype(auto) operator[](Index i) const {
    T* const at = data_ + i * strides_[0];
    if constexpr (kDims == 1) {
      return *at;
    } else {
      return TensorAccessor<T, kDims - 1, Index>(at, sizes_ + 1, strides_ + 1);
    }
  }
  Index size(int i) const { return sizes_[i]; }
  Index stride(int i) const { return strides_[i]; }
  T* data() const { return data_; }

 private:
  T* data_;
  const Index *sizes_, *strides_;
};
// An accessor that holds its sizes and strides, so that it can be an argument of a kernel.
template <class T, size_t kDims, template <class> class = DefaultPtrTraits, class Index = int64_t>
class GenericPackedTensorAccessor {
 public:
  GenericPackedTensorAccessor(T* data, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides)
      : data_(data) {
    for (size_t i = 0; i < kDims; ++i)
      sizes_[i] = static_cast<Index>(sizes[i]), strides_[i] = static_cast<Index>(strides[i]);
  }
  decltype(auto) operator[](Index i) const {
    return TensorAccessor<T, kDims, Index>(data_, sizes_, strides_)[i];
  }
  Index size(int i) const { return sizes_[i]; }
  Index stride(int i) const { return strides_[i]; }
  T* data() const { return data_; }

 private:
  T* data_;
  Index sizes_[kDims], strides_[kDims];
};
template <class T, size_t kDims, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, kDims, Traits, int32_t>;
template <class T, size_t kDims, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, kDims, Traits, int64_t>;

// A tensor that is dense in the order of its sizes.
class Tensor {
 public:
  Tensor() = default;
  // A tensor of memory that the caller owns.
  Tensor(void* data, std::vector<int64_t> sizes, ScalarType type)
      : data_(data, [](void*) {}), sizes_(std::move(sizes)), type_(type), defined_(true) {}
  static Tensor made(std::vector<int64_t> sizes, TensorOptions options) {
    Tensor made(nullptr, std::move(sizes), options.type);
    void* data = nullptr;
    cudaMalloc(&data, made.nbytes());
    made.data_ = {data, [](void* taken) { cudaFree(taken); }};
    return made;
  }

  bool defined() const { return defined_; }
  int64_t dim() const { return static_cast<int64_t>(sizes_.size()); }
  int64_t ndimension() const { return dim(); }
  int64_t size(int64_t at) const { return sizes_.at(place(at)); }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  int64_t stride(int64_t at) const {
    int64_t stride = 1;
    for (size_t i = place(at) + 1; i < sizes_.size(); ++i) stride *= sizes_[i];
    return stride;
  }
  std::vector<int64_t> strides() const {
    std::vector<int64_t> all;
    for (int64_t i = 0; i < dim(); ++i) all.push_back(stride(i));
    return all;
  }
  int64_t numel() const {
    int64_t all = 1;
    for (const int64_t size : sizes_) all *= size;
    return all;
  }
  size_t element_size() const { return elementSize(type_); }
  int64_t itemsize() const { return static_cast<int64_t>(element_size()); }
  size_t nbytes() const { return static_cast<size_t>(numel()) * element_size(); }

  ScalarType scalar_type() const { return type_; }
  ScalarType dtype() const { return type_; }
  TensorOptions options() const { return type_; }
  Device device() const { return {}; }
  int get_device() const { return 0; }
  bool is_cuda() const { return true; }
  bool is_contiguous() const { return true; }
  bool requires_grad() const { return false; }
  Tensor contiguous() const { return *this; }
  Tensor detach() const { return *this; }
  Tensor cuda() const { return *this; }
  Tensor to(Device) const { return *this; }
  Tensor to(ScalarType type) const {
    if (type != type_)
      c10::refuse("", "Tensor.to(", type, ") of ", type_, ": conversions are not on the executor");
    return *this;
  }
  Tensor view(std::vector<int64_t> sizes) const { return reshape(std::move(sizes)); }
  Tensor reshape(std::vector<int64_t> sizes) const {
    int64_t known = 1, *open = nullptr;
    for (int64_t& size : sizes) size < 0 ? void(open = &size) : void(known *= size);
    if (open) *open = known == 0 ? 0 : numel() / known;
    Tensor other = *this;
    other.sizes_ = std::move(sizes);
    if (other.numel() != numel()) c10::refuse("", "reshape: another number of elements");
    return other;
  }
  Tensor& zero_() { return fill_(0); }
  Tensor& fill_(double value) {
    for (int64_t i = 0; i < numel(); ++i) {
      char* const at = static_cast<char*>(data_.get()) + static_cast<size_t>(i) * element_size();
      const auto put = [&](auto element) { memcpy(at, &element, sizeof element); };
      if (type_ == ScalarType::Float) put(static_cast<float>(value));
      if (type_ == ScalarType::Double) put(value);
      if (type_ == ScalarType::Half) put(__float2half(static_cast<float>(value)));
      if (type_ == ScalarType::BFloat16) put(__float2bfloat16(static_cast<float>(value)));
      if (type_ == ScalarType::Int) put(static_cast<int32_t>(value));
      if (type_ == ScalarType::Long) put(static_cast<int64_t>(value));
      if (elementSize(type_) == 1) put(static_cast<int8_t>(value));
    }
    return *this;
  }
  Tensor& copy_(const Tensor& from) {
    if (from.nbytes() != nbytes() || from.type_ != type_) c10::refuse("", "copy_: of another size or type");
    memmove(data_.get(), from.data_.get(), nbytes());
    return *this;
  }
  Tensor clone() const { return made(sizes_, type_).copy_(*this); }

  void* data_ptr() const { return data_.get(); }
  const void* const_data_ptr() const { return data_.get(); }
  void* mutable_data_ptr() const { return data_.get(); }
  template <class T>
  T* data_ptr() const {
    const auto asked = c10::type_of<std::remove_const_t<T>>();
    if (!asked || *asked != type_)
      c10::refuse("", "expected scalar type ", asked ? toString(*asked) : "of data_ptr's", " but found ",
                  type_);
    return static_cast<T*>(data_.get());
  }
  template <class T>
  const T* const_data_ptr() const {
    return data_ptr<T>();
  }
  template <class T>
  T* mutable_data_ptr() const {
    return data_ptr<T>();
  }
  template <class T, size_t kDims, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor32<T, kDims, Traits> packed_accessor32() const {
    return packed<T, kDims, Traits, int32_t>();
  }
  template <class T, size_t kDims, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor64<T, kDims, Traits> packed_accessor64() const {
    return packed<T, kDims, Traits, int64_t>();
  }

 private:
  template <class T, size_t kDims, template <class> class Traits, class Index>
  GenericPackedTensorAccessor<T, kDims, Traits, Index> packed() const {
    if (dim() != kDims) c10::refuse("", "expected ", kDims, " dims but tensor has ", dim());
    return {data_ptr<T>(), sizes(), strides()};
  }
  size_t place(int64_t at) const { return static_cast<size_t>(at < 0 ? at + dim() : at); }

  std::shared_ptr<void> data_;
  std::vector<int64_t> sizes_;
  ScalarType type_ = ScalarType::Float;
  bool defined_ = false;
};

inline Tensor empty(std::vector<int64_t> sizes, TensorOptions options = {}) {
  return Tensor::made(std::move(sizes), options);
}
inline Tensor full(std::vector<int64_t> sizes, double value, TensorOptions options = {}) {
  return empty(std::move(sizes), options).fill_(value);
}
inline Tensor zeros(std::vector<int64_t> sizes, TensorOptions options = {}) {
  return full(std::move(sizes), 0, options);
}
inline Tensor ones(std::vector<int64_t> sizes, TensorOptions options = {}) {
  return full(std::move(sizes), 1, options);
}
inline Tensor empty_like(const Tensor& of) { return empty(of.sizes(), of.options()); }
inline Tensor empty_like(const Tensor& of, TensorOptions options) { return empty(of.sizes(), options); }
inline Tensor zeros_like(const Tensor& of) { return zeros(of.sizes(), of.options()); }
inline Tensor zeros_like(const Tensor& of, TensorOptions options) { return zeros(of.sizes(), options); }
inline Tensor full_like(const Tensor& of, double value) { return full(of.sizes(), value, of.options()); }
inline Tensor ones_like(const Tensor& of) { return ones(of.sizes(), of.options()); }

struct DeviceGuard {
  template <class T>
  explicit DeviceGuard(const T&) {}
};
inline Device device_of(const Tensor&) { return {}; }

}  // namespace at

namespace c10 {
using at::kBFloat16;
using at::kFloat;
using at::kHalf;
template <class T>
using optional = std::optional<T>;
inline constexpr std::nullopt_t nullopt = std::nullopt;
}  // namespace c10

namespace at::cuda {

struct CUDAStream {
  operator cudaStream_t() const { return nullptr; }
  cudaStream_t stream() const { return nullptr; }
};
inline CUDAStream getCurrentCUDAStream(int = 0) { return {}; }
inline CUDAStream getDefaultCUDAStream(int = 0) { return {}; }
struct CUDAGuard {
  template <class T>
  explicit CUDAGuard(const T&) {}
};
using OptionalCUDAGuard = CUDAGuard;
inline cudaDeviceProp* getCurrentDeviceProperties() {
  static cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  return &properties;
}

}  // namespace at::cuda
namespace c10::cuda {
using namespace at::cuda;
}

namespace torch {
using namespace at;
using namespace c10;
using at::empty;
inline c10::TensorOptions dtype(c10::ScalarType type) { return type; }
inline c10::TensorOptions device(c10::Device) { return {}; }
inline c10::TensorOptions device(c10::DeviceType) { return {}; }
}  // namespace torch

#define TORCH_CHECK(condition, ...)                                         \
  do {                                                                      \
    if (!(condition)) ::c10::refuse(#condition __VA_OPT__(, ) __VA_ARGS__); \
  } while (0)
#define TORCH_INTERNAL_ASSERT TORCH_CHECK
#define AT_ASSERTM TORCH_CHECK
#define AT_ERROR(...) ::c10::refuse("" __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_WARN(...) (void)0
#define AT_CUDA_CHECK(call)                                       \
  do {                                                            \
    if (const cudaError_t error_ = (call); error_ != cudaSuccess) \
      ::c10::refuse("", cudaGetErrorString(error_));              \
  } while (0)
#define C10_CUDA_CHECK AT_CUDA_CHECK
#define C10_CUDA_KERNEL_LAUNCH_CHECK() AT_CUDA_CHECK(cudaGetLastError())

// Runs the body for the element type `type`. In the body that type is called scalar_t.
#define ATTN_DISPATCH_CASE(tag, T, ...)  \
  case ::c10::ScalarType::tag: {         \
    using scalar_t [[maybe_unused]] = T; \
    return __VA_ARGS__();                \
  }
#define ATTN_DISPATCH(type, name, cases)                                                       \
  [&] {                                                                                        \
    switch (type) { cases default : ::c10::refuse("", name, ": not implemented for ", type); } \
  }()
#define AT_DISPATCH_FLOATING_TYPES(type, name, ...) \
  ATTN_DISPATCH(type, name,                         \
                ATTN_DISPATCH_CASE(Float, float, __VA_ARGS__) ATTN_DISPATCH_CASE(Double, double, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(type, name, ...)                                                  \
  ATTN_DISPATCH(type, name,                                                                                   \
                ATTN_DISPATCH_CASE(Float, float, __VA_ARGS__) ATTN_DISPATCH_CASE(Double, double, __VA_ARGS__) \
                    ATTN_DISPATCH_CASE(Half, half, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(a, b, type, name, ...)                                                \
  ATTN_DISPATCH(type, name,                                                                                   \
                ATTN_DISPATCH_CASE(Float, float, __VA_ARGS__) ATTN_DISPATCH_CASE(Double, double, __VA_ARGS__) \
                    ATTN_DISPATCH_CASE(Half, half, __VA_ARGS__)                                               \
                        ATTN_DISPATCH_CASE(BFloat16, __nv_bfloat16, __VA_ARGS__))

// A module for Python. Its body runs when the library is loaded, because it may set attributes of kernels; its
// definitions are dropped. There is no Python here: a py::object is empty.
namespace pybind11 {
struct object {
  object attr(const char*) const { return {}; }
  template <class... T>
  object operator()(const T&...) const {
    return {};
  }
};
struct arg {
  explicit arg(const char*) {}
  template <class T>
  arg& operator=(const T&) {
    return *this;
  }
};
template <class T>
T cast(const object&) {
  c10::refuse("", "a value of Python: there is none on the executor");
}
struct module_ {
  template <class... T>
  module_& def(const T&...) {
    return *this;
  }
  template <class... T>
  module_& impl(const T&...) {
    return *this;
  }
  std::string& doc() { return text; }
  std::string text;
};
}  // namespace pybind11
namespace py = pybind11;
#define TORCH_EXTENSION_NAME attn_no_module
#define ATTN_MODULE(name, m)                                     \
  static void attn_module_of_##name(pybind11::module_&);         \
  [[maybe_unused]] static const int attn_module_is_##name = [] { \
    pybind11::module_ made;                                      \
    attn_module_of_##name(made);                                 \
    return 0;                                                    \
  }();                                                           \
  static void attn_module_of_##name([[maybe_unused]] pybind11::module_& m)
#define PYBIND11_MODULE(name, m) ATTN_MODULE(python, m)
#define TORCH_LIBRARY(name, m) ATTN_MODULE(name, m)
#define TORCH_LIBRARY_IMPL(name, key, m) ATTN_MODULE(name##_##key, m)
#define TORCH_LIBRARY_FRAGMENT(name, m) ATTN_MODULE(name##_fragment, m)

#include "kernels/cuda_source/cuda/given_tensors.h"
