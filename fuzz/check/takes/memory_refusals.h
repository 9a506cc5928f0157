// The memory layouts that a kernel may refuse for a tensor, one by one, each with the change that removes it
// from a case: base addresses and rows that are no multiple of N bytes, gaps, another order of the dimensions,
// spans beyond 2^31 elements, junk as the stride of a dimension with one element, columns that do not lie side
// by side, negative strides, strides of 0.
//
// Each tensor is asked about separately. If a kernel checks three tensors and forgets the fourth, the fourth is
// still drawn in all layouts.
//
//   for (const MemoryRefusals& of : kMemoryRefusals) ask(of.order, of.another_order);
#pragma once

#include <algorithm>
#include <array>
#include <ranges>
#include <string_view>
#include <utility>

#include "properties/case/features/feature.h"
#include "properties/case/places/geometry.h"
#include "properties/case/size_set.h"

namespace attnfuzz {
namespace memory_refusals {

template <TensorId T>
TensorLayout& layout(Case& c) {
  return c.layout[static_cast<size_t>(T)];
}

// kBytes in elements of the tensor, at least 1.
template <TensorId T, int64_t kBytes>
int64_t elements(const Case& c) {
  return std::max<int64_t>(kBytes / element_bytes(c.problem, T), 1);
}

// "q: ...", kept by the type.
template <TensorId T, int64_t kBytes>
constexpr auto kName = [](std::string_view what) {
  std::array<char, 96> text = {};
  char* at = std::ranges::copy(std::string_view(attnfuzz::name_of(T)), text.begin()).out;
  at = std::ranges::copy(std::string_view(": "), at).out;
  at = std::ranges::copy(what, at).out;
  if (kBytes == 0) return text;
  for (int64_t digit = kBytes >= 100 ? 100 : kBytes >= 10 ? 10 : 1; digit > 0; digit /= 10)
    *at++ = static_cast<char>('0' + kBytes / digit % 10);
  std::ranges::copy(std::string_view(" bytes"), at);
  return text;
};
template <TensorId T, int64_t kBytes>
constexpr auto kBaseName = kName<T, kBytes>("base addresses that are no multiple of ");
template <TensorId T, int64_t kBytes>
constexpr auto kRowsName = kName<T, kBytes>("strides that are no multiple of ");
template <TensorId T>
constexpr auto kGapsName = kName<T, 0>("gaps after rows");
template <TensorId T>
constexpr auto kOrderName = kName<T, 0>("an order other than batch, head, row");
template <TensorId T>
constexpr auto kSpreadName = kName<T, 0>("offsets beyond 2^31");
template <TensorId T>
constexpr auto kJunkName = kName<T, 0>("any stride of one element");
template <TensorId T>
constexpr auto kStepName = kName<T, 0>("columns apart from one another");
template <TensorId T>
constexpr auto kAcrossName = kName<T, 0>("columns across rows");
template <TensorId T>
constexpr auto kBackwardsName = kName<T, 0>("negative strides");
template <TensorId T>
constexpr auto kOnceName = kName<T, 0>("strides of 0");

inline void nothing(Problem&) {}

template <TensorId T, int64_t kBytes>
void align_base(Case& c) {
  TensorLayout& l = layout<T>(c);
  l.offset = rounded_up(l.offset, elements<T, kBytes>(c));
  if (l.placement != Placement::kPageEnd) return;
  const auto g = geometry(c, T);
  if (!g || g->span_bytes % kBytes != 0) l.placement = Placement::kGuarded;
}

template <TensorId T, int64_t kBytes>
void align_rows(Case& c) {
  TensorLayout& l = layout<T>(c);
  const int64_t step = elements<T, kBytes>(c), columns = logical_size(c.problem, T)[3];
  // If dense rows are no multiple, the kernel refuses their length, not a gap. So they get no gap.
  if (l.row_gap != 0 || (columns % step != 0 && l.spread != 0))
    l.row_gap = rounded_up(columns + l.row_gap, step) - columns;
  l.spread = rounded_up(l.spread, step);
}

template <TensorId T, int64_t kBytes>
constexpr Refusal kBase = {kBaseName<T, kBytes>.data(), nothing, align_base<T, kBytes>};
template <TensorId T, int64_t kBytes>
constexpr Refusal kRows = {kRowsName<T, kBytes>.data(), nothing, align_rows<T, kBytes>};

struct Alignment {
  int64_t bytes;
  const Refusal *base, *rows;
};

}  // namespace memory_refusals

struct MemoryRefusals {
  TensorId tensor;
  Refusal gaps, order, spread, junk, step, across, backwards, once;
  std::array<memory_refusals::Alignment, 7> alignments;  // the smallest first
};

namespace memory_refusals {

template <TensorId T>
constexpr MemoryRefusals kOf = {
    T,
    {kGapsName<T>.data(), nothing, [](Case& c) { layout<T>(c).row_gap = 0; }},
    {kOrderName<T>.data(), nothing, [](Case& c) { layout<T>(c).order = {0, 1, 2}; }},
    {kSpreadName<T>.data(), nothing, [](Case& c) { layout<T>(c).spread = 0; }},
    {kJunkName<T>.data(), nothing, [](Case& c) { layout<T>(c).junk_unit_strides = false; }},
    {kStepName<T>.data(), nothing, [](Case& c) { layout<T>(c).step = 1; }},
    {kAcrossName<T>.data(), nothing, [](Case& c) { layout<T>(c).across = false; }},
    {kBackwardsName<T>.data(), nothing, [](Case& c) { layout<T>(c).backwards = 0; }},
    {kOnceName<T>.data(), nothing,
     [](Case& c) {
       if (const auto once = once_of(T)) c.once.*once = {};
     }},
    {{{2, &kBase<T, 2>, &kRows<T, 2>},
      {4, &kBase<T, 4>, &kRows<T, 4>},
      {8, &kBase<T, 8>, &kRows<T, 8>},
      {16, &kBase<T, 16>, &kRows<T, 16>},
      {32, &kBase<T, 32>, &kRows<T, 32>},
      {64, &kBase<T, 64>, &kRows<T, 64>},
      {128, &kBase<T, 128>, &kRows<T, 128>}}}};

}  // namespace memory_refusals

// The refusals of each tensor that has strides, in the order of the table.
inline constexpr auto kMemoryRefusals = [] {
  constexpr auto ids = [] {
    constexpr auto asked = [](const TensorSpec& spec) { return spec.strided() && in_problem(spec, 0); };
    std::array<TensorId, std::ranges::count_if(kTensors, asked)> strided = {};
    std::ranges::transform(kTensors | std::views::filter(asked), strided.begin(), &TensorSpec::id);
    return strided;
  }();
  return [&]<size_t... n>(std::index_sequence<n...>) {
    return std::array{memory_refusals::kOf<ids[n]>...};
  }(std::make_index_sequence<ids.size()>());
}();

}  // namespace attnfuzz
