// The fields of a case as JSON has them: one table, by which the writer writes
// and the reader reads, so that the two cannot drift apart.
//
// Fields<T>::visit(v) calls v(name, member, form) for each field of T, sorted by
// name; what a form leaves open, the type of the member says. A new field of a
// case is one line here (and its default must mean what older files meant).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "properties/case/case.h"

namespace attnfuzz::codec {

// How a field is written, where its type alone does not say.
struct Plain {};
struct Names {  // an enum: a string, the names in the order of the values
  std::span<const char* const> names;
};
struct Bits {};  // an unsigned number as "0x7e00"
struct AtMost {  // an array of at most so many elements
  size_t size;
};
struct Within {  // an integer, bounds included
  int64_t low, high;
};

inline constexpr const char* kInputDtypes[] = {"f16", "bf16"};
inline constexpr const char* kDtypes[] = {"f16", "bf16", "f32"};
inline constexpr const char* kAlignNames[] = {"top_left", "bottom_right"};
inline constexpr const char* kFillNames[] = {"zero",      "constant",    "one_hot",   "small_int", "position",
                                             "same_rows", "signed_zero", "subnormal", "uniform",   "negative",
                                             "gaussian",  "blocks",      "huge"};
inline constexpr const char* kPatternNames[] = {"all",       "nothing",   "first_key",  "last_key", "prefix",
                                                "documents", "dead_rows", "dead_tiles", "stripes",  "random"};
inline constexpr const char* kBiasNames[] = {"zero",  "row_constant",  "gaussian",
                                             "alibi", "very_negative", "masking"};
inline constexpr const char* kPlacementNames[] = {"guarded", "page_end"};
inline constexpr const char* kPrefillNames[] = {"nan", "huge"};
static_assert(std::size(kFillNames) == kFillKinds);
static_assert(std::size(kPatternNames) == kPatternKinds);
static_assert(std::size(kBiasNames) == kBiasKinds);

inline constexpr size_t kMaxPlanted = 65536;
inline constexpr size_t kMaxCalls = 256;
inline constexpr size_t kMaxKeyLengths = size_t{1} << 20;

// The tensors in the order of their names.
constexpr std::array<size_t, kTensorCount> tensors_by_name() {
  std::array<size_t, kTensorCount> order{};
  for (size_t n = 0; n < order.size(); ++n) order[n] = n;
  std::ranges::sort(order, {}, [](size_t t) { return std::string_view(kTensorNames[t]); });
  return order;
}

template <typename T>
struct Fields;
template <typename T>
concept Structure = requires { Fields<T>::kWhat; };

template <>
struct Fields<Fill> {
  static constexpr const char* kWhat = "a fill";
  template <typename V>
  static void visit(V& v) {
    v("exponent", &Fill::exponent);
    v("kind", &Fill::kind, Names{kFillNames});
    v("seed", &Fill::seed);
    v("version", &Fill::version, Within{1, 1});
  }
};

template <>
struct Fields<Pattern> {
  static constexpr const char* kWhat = "a pattern";
  template <typename V>
  static void visit(V& v) {
    v("kind", &Pattern::kind, Names{kPatternNames});
    v("parameter", &Pattern::parameter);
    v("seed", &Pattern::seed);
  }
};

template <>
struct Fields<Broadcast> {
  static constexpr const char* kWhat = "a broadcast";
  template <typename V>
  static void visit(V& v) {
    v("batch", &Broadcast::batch);
    v("head", &Broadcast::head);
    v("query", &Broadcast::query);
  }
};

template <>
struct Fields<Bias> {
  static constexpr const char* kWhat = "a bias";
  template <typename V>
  static void visit(V& v) {
    v("broadcast", &Bias::broadcast);
    v("dtype", &Bias::dtype, Names{kDtypes});
    v("finite", &Bias::finite);
    v("kind", &Bias::kind, Names{kBiasNames});
    v("seed", &Bias::seed);
  }
};

template <>
struct Fields<Mask> {
  static constexpr const char* kWhat = "a mask";
  template <typename V>
  static void visit(V& v) {
    v("broadcast", &Mask::broadcast);
    v("visible", &Mask::visible);
  }
};

template <>
struct Fields<Problem> {
  static constexpr const char* kWhat = "a problem";
  template <typename V>
  static void visit(V& v) {
    v("align", &Problem::align, Names{kAlignNames});
    v("batch", &Problem::batch);
    v("bias", &Problem::bias);
    v("causal", &Problem::causal);
    v("dim_qk", &Problem::dim_qk);
    v("dim_v", &Problem::dim_v);
    v("dtype", &Problem::dtype, Names{kInputDtypes});
    v("heads_kv", &Problem::heads_kv);
    v("heads_q", &Problem::heads_q);
    v("key_lengths", &Problem::key_lengths, AtMost{kMaxKeyLengths});
    v("mask", &Problem::mask);
    v("num_splits", &Problem::num_splits);
    v("scale", &Problem::scale);
    v("seq_k", &Problem::seq_k);
    v("seq_q", &Problem::seq_q);
    v("softcap", &Problem::softcap);
    v("window_left", &Problem::window_left);
    v("window_right", &Problem::window_right);
  }
};

template <>
struct Fields<Environment> {
  static constexpr const char* kWhat = "an environment";
  template <typename V>
  static void visit(V& v) {
    v("compute_capability", &Environment::compute_capability);
    v("schedule_seed", &Environment::schedule_seed);
    v("shared_memory_limit", &Environment::shared_memory_limit);
    v("sm_count", &Environment::sm_count);
    v("variant", &Environment::variant);
  }
};

template <>
struct Fields<TensorLayout> {
  static constexpr const char* kWhat = "a layout";
  template <typename V>
  static void visit(V& v) {
    v("junk_unit_strides", &TensorLayout::junk_unit_strides);
    v("offset", &TensorLayout::offset);
    v("order", &TensorLayout::order, Within{0, 2});
    v("placement", &TensorLayout::placement, Names{kPlacementNames});
    v("row_gap", &TensorLayout::row_gap);
    v("spread", &TensorLayout::spread);
  }
};

template <>
struct Fields<Planted> {
  static constexpr const char* kWhat = "a planted value";
  template <typename V>
  static void visit(V& v) {
    v("b", &Planted::b);
    v("bits", &Planted::bits, Bits{});
    v("d", &Planted::d);
    v("h", &Planted::h);
    v("s", &Planted::s);
    v("tensor", &Planted::tensor, Names{kTensorNames});
  }
};

template <>
struct Fields<Call> {
  static constexpr const char* kWhat = "a call";
  template <typename V>
  static void visit(V& v) {
    v("dirty_workspace", &Call::dirty_workspace);
    v("stream", &Call::stream);
  }
};

template <>
struct Fields<Axis> {
  static constexpr const char* kWhat = "an axis";
  template <typename V>
  static void visit(V& v) {
    v("add", &Axis::add);
    v("modulus", &Axis::modulus);
    v("multiply", &Axis::multiply);
    v("repeat", &Axis::repeat);
  }
};

template <>
struct Fields<Remap> {
  static constexpr const char* kWhat = "a remap";
  template <typename V>
  static void visit(V& v) {
    v("batch", &Remap::batch);
    v("head_kv", &Remap::head_kv);
    v("head_q", &Remap::head_q);
    v("k_shift", &Remap::k_shift);
    v("key", &Remap::key);
    v("query", &Remap::query);
    v("seq_k", &Remap::seq_k);
    v("seq_q", &Remap::seq_q);
    v("v_added", &Remap::v_added);
  }
};

template <>
struct Fields<Case> {
  static constexpr const char* kWhat = "a case";
  template <typename V>
  static void visit(V& v) {
    v("calls", &Case::calls, AtMost{kMaxCalls});
    v("env", &Case::env);
    v.format("format");
    v("k", &Case::k);
    v("lane", &Case::lane);
    v("layout", &Case::layout);
    v("nan_beyond_lengths", &Case::nan_beyond_lengths);
    v("planted", &Case::planted, AtMost{kMaxPlanted});
    v("prefill", &Case::prefill, Names{kPrefillNames});
    v("problem", &Case::problem);
    v("q", &Case::q);
    v("remap", &Case::remap);
    v("v", &Case::v);
    v("want_lse", &Case::want_lse);
  }
};

}  // namespace attnfuzz::codec
