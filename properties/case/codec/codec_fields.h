// The fields of a case in JSON. The writer and the reader share this one table, so they cannot drift apart.
//
// kFields<T> holds the fields of T, sorted by name. If the type of a member does not determine how
// it is written, a form does. A new field of a case is one line here; a new field of a Problem is one
// line in case.h. Its default must give a file without the field its old meaning.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "properties/case/case.h"
#include "properties/case/codec_form.h"
#include "reference/model/arithmetic_names.h"

namespace attnfuzz::codec {

inline constexpr const char* kFillNames[] = {"zero",      "constant",    "one_hot",   "small_int", "position",
                                             "same_rows", "signed_zero", "subnormal", "uniform",   "negative",
                                             "gaussian",  "blocks",      "huge",      "intervals", "levels"};
inline constexpr const char* kPatternNames[] = {"all",       "nothing",   "first_key",  "last_key", "prefix",
                                                "documents", "dead_rows", "dead_tiles", "stripes",  "random",
                                                "tree",      "sink_window", "blockwise"};
inline constexpr const char* kBiasNames[] = {"zero",          "row_constant", "gaussian", "alibi",
                                             "very_negative", "masking",      "wide",     "far_below"};
inline constexpr const char* kPlacementNames[] = {"guarded", "page_end"};
inline constexpr const char* kPoisonNames[] = {"nan", "huge"};
inline constexpr const char* kSlopeNames[] = {"zero", "powers", "uneven", "negative", "steep", "mixed"};
inline constexpr const char* kSinkNames[] = {"zero", "above", "gaussian", "below", "minus_inf", "mixed",
                                           "far_below"};
static_assert(std::size(kFillNames) == kFillKinds);
static_assert(std::size(kPatternNames) == kPatternKinds);
static_assert(std::size(kBiasNames) == kBiasKinds);
static_assert(std::size(kSinkNames) == kSinkKinds);
static_assert(std::size(kSlopeNames) == kSlopeKinds);

inline constexpr size_t kMaxPlanted = 65536;
inline constexpr size_t kMaxCalls = 256;

// The tensors in the order of their names.
constexpr std::array<size_t, kTensorCount> tensors_by_name() {
  std::array<size_t, kTensorCount> order{};
  for (size_t n = 0; n < order.size(); ++n) order[n] = n;
  std::ranges::sort(order, {}, [](size_t t) { return std::string_view(kTensorNames[t]); });
  return order;
}

// One field a line.
// clang-format off
template <> inline constexpr auto kFields<Fill> = fields("a fill",
    field("exponent", &Fill::exponent),
    field("kind", &Fill::kind, Names{kFillNames}),
    field("seed", &Fill::seed),
    field("version", &Fill::version, Within{1, 1}));

template <> inline constexpr auto kFields<Pattern> = fields("a pattern",
    field("kind", &Pattern::kind, Names{kPatternNames}),
    field("parameter", &Pattern::parameter),
    field("seed", &Pattern::seed));

template <> inline constexpr auto kFields<Broadcast> = fields("a broadcast",
    field("batch", &Broadcast::batch),
    field("head", &Broadcast::head),
    field("query", &Broadcast::query));

template <> inline constexpr auto kFields<Bias> = fields("a bias",
    field("broadcast", &Bias::broadcast),
    field("dtype", &Bias::dtype, Names{kDtypes}),
    field("finite", &Bias::finite),
    field("kind", &Bias::kind, Names{kBiasNames}),
    field("seed", &Bias::seed));

template <> inline constexpr auto kFields<Mask> = fields("a mask",
    field("broadcast", &Mask::broadcast),
    field("visible", &Mask::visible));

template <> inline constexpr auto kFields<Sink> = fields("a sink",
    field("dtype", &Sink::dtype, Names{kDtypes}),
    field("kind", &Sink::kind, Names{kSinkNames}),
    field("seed", &Sink::seed));

template <> inline constexpr auto kFields<Slopes> = fields("slopes",
    field("entries", &Slopes::entries),
    field("kind", &Slopes::kind, Names{kSlopeNames}),
    field("seed", &Slopes::seed));

template <> inline constexpr auto kFields<Environment> = fields("an environment",
    field("arithmetic", &Environment::arithmetic, Names{kArithmeticNames}),
    field("compute_capability", &Environment::compute_capability),
    field("schedule_seed", &Environment::schedule_seed),
    field("shared_memory_limit", &Environment::shared_memory_limit),
    field("sm_count", &Environment::sm_count),
    field("variant", &Environment::variant));

template <> inline constexpr auto kFields<TensorLayout> = fields("a layout",
    field("across", &TensorLayout::across),
    field("backwards", &TensorLayout::backwards, Within{0, 15}),
    field("junk_unit_strides", &TensorLayout::junk_unit_strides),
    field("offset", &TensorLayout::offset),
    field("order", &TensorLayout::order, Within{0, 2}),
    field("placement", &TensorLayout::placement, Names{kPlacementNames}),
    field("row_gap", &TensorLayout::row_gap),
    field("spread", &TensorLayout::spread),
    field("step", &TensorLayout::step));

template <> inline constexpr auto kFields<Once> = fields("what is stored once",
    field("batch", &Once::batch),
    field("head", &Once::head));

template <> inline constexpr auto kFields<StoredOnce> = fields("tensors that are stored once",
    field("k", &StoredOnce::k),
    field("q", &StoredOnce::q),
    field("v", &StoredOnce::v));

template <> inline constexpr auto kFields<Repeated> = fields("what of dO is repeated",
    field("batch", &Repeated::batch),
    field("column", &Repeated::column),
    field("head", &Repeated::head),
    field("query", &Repeated::query));

template <> inline constexpr auto kFields<Planted> = fields("a planted value",
    field("b", &Planted::b),
    field("bits", &Planted::bits, Bits{}),
    field("d", &Planted::d),
    field("h", &Planted::h),
    field("s", &Planted::s),
    field("tensor", &Planted::tensor, Names{kTensorNames}));

template <> inline constexpr auto kFields<PageCopy> = fields("a copy of a page",
    field("from", &PageCopy::from),
    field("to", &PageCopy::to));

template <> inline constexpr auto kFields<Call> = fields("a call",
    field("dirty_workspace", &Call::dirty_workspace),
    field("stream", &Call::stream));

template <> inline constexpr auto kFields<Axis> = fields("an axis",
    field("add", &Axis::add),
    field("modulus", &Axis::modulus),
    field("multiply", &Axis::multiply),
    field("repeat", &Axis::repeat));

template <> inline constexpr auto kFields<Remap> = fields("a remap",
    field("batch", &Remap::batch),
    field("head_kv", &Remap::head_kv),
    field("head_q", &Remap::head_q),
    field("k_shift", &Remap::k_shift),
    field("key", &Remap::key),
    field("query", &Remap::query),
    field("seq_k", &Remap::seq_k),
    field("seq_q", &Remap::seq_q),
    field("shared_keys", &Remap::shared_keys),
    field("v_added", &Remap::v_added));

template <> inline constexpr auto kFields<Case> = fields("a case",
    field("calls", &Case::calls, AtMost{kMaxCalls}),
    field("copies", &Case::copies, AtMost{kMaxPlanted}),
    field("dlse", &Case::dlse),
    field("dout", &Case::dout),
    field("dout_repeated", &Case::dout_repeated),
    field("env", &Case::env),
    FormatField{},
    field("gates", &Case::gates),
    field("k", &Case::k),
    field("lane", &Case::build_kind),
    field("layout", &Case::layout),
    field("lse1", &Case::lse1),
    field("lse2", &Case::lse2),
    field("nan_beyond_lengths", &Case::nan_beyond_lengths),
    field("o1", &Case::o1),
    field("o2", &Case::o2),
    field("o3", &Case::o3),
    field("once", &Case::once),
    field("planted", &Case::planted, AtMost{kMaxPlanted}),
    field("prefill", &Case::poison, Names{kPoisonNames}),
    field("problem", &Case::problem),
    field("q", &Case::q),
    field("remap", &Case::remap),
    field("scores", &Case::scores),
    field("sides", &Case::sides),
    field("v", &Case::v),
    field("want_lse", &Case::want_lse));
// clang-format on

template <Structure T>
inline constexpr bool kSorted =
    std::ranges::is_sorted(kFields<T>.names(), {}, [](const char* name) { return std::string_view(name); });
static_assert(kSorted<Case> && kSorted<Problem> && kSorted<Environment> && kSorted<TensorLayout>);

}  // namespace attnfuzz::codec
