// Axes of memory: the address and strides of each tensor, and the circumstances of a call.
#include <algorithm>
#include <bit>

#include "properties/axes/axis.h"
#include "properties/case/codec/codec_fields.h"
#include "properties/case/places/geometry.h"
#include "properties/case/places/spread.h"

namespace attnfuzz {
namespace {

constexpr auto kPlaced = Phase::kMemory;
constexpr std::array<std::array<uint8_t, 3>, 6> kOrders = {
    {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}};
constexpr const char* kOrderNames[] = {"bhs", "bsh", "hbs", "hsb", "sbh", "shb"};
constexpr const char* kBases[] = {"of 1 byte",   "of 2 bytes",  "of 4 bytes",          "of 8 bytes",
                                  "of 16 bytes", "of 32 bytes", "of 64 bytes or more", "at a page's end"};
constexpr const char* kGaps[] = {"none", "of single bytes", "of 4 bytes", "of 16 bytes"};
constexpr const char* kReaches[] = {"below 2^31", "2^31", "2^32"};
constexpr const char* kSizeOneStrides[] = {"as dense", "junk"};
constexpr const char* kColumnForms[] = {"side by side", "apart", "across rows"};
constexpr const char* kSigns[] = {"positive", "negative of rows", "negative of columns", "negative of others"};
constexpr const char* kStored[] = {"whole", "once for heads", "once for the batch", "once for both"};

const TensorLayout& tensor_layout(const Case& c, TensorId t) { return c.layout[static_cast<size_t>(t)]; }

// A tensor that the case lacks is created: a mask that hides nothing, a bias of 0.
TensorLayout& tensor_layout(Case& c, TensorId t) {
  make_present(c, t);
  return c.layout[static_cast<size_t>(t)];
}
// Converts bytes to elements of a tensor. If they are no multiple of 4, an fp32 bias becomes fp16.
int64_t elements(Case& c, TensorId t, int64_t bytes) {
  if (t == TensorId::kBias && bytes % 4 != 0 && element_bytes(c.problem, t) == 4)
    c.problem.bias->dtype = ATTN_F16;
  return bytes / element_bytes(c.problem, t);
}

// The exponent of the largest power of two that divides n, at most `most`.
int power_of(int64_t n, int most) {
  return n == 0 ? most : std::min(std::countr_zero(static_cast<uint64_t>(n)), most);
}

// The class of the distance between the first and the last element, if a dimension can be spread that far.
int reach_of(const Case& c, TensorId t) {
  if (tensor_layout(c, t).spread == 0) return 0;
  const auto g = geometry(c, t);
  const int64_t elements = g ? g->span_bytes / g->element_bytes : 0;
  return elements >= int64_t{1} << 32 ? 2 : elements >= int64_t{1} << 31 ? 1 : 0;
}

// The class of a layout, if the case has the tensor.
template <class Get>
auto there(TensorId t, Get get) {
  return [=](const Case& c) { return is_present(c, t) ? get(c, tensor_layout(c, t)) : kNoClass; };
}

std::vector<CaseAxis> axes_of_placement(TensorId t) {
  const std::string name = name_of(t);
  return {
      kinds("alignment of " + name, kPlaced, kBases,
            there(t,
                  [t](const Case& c, const TensorLayout& l) {
                    if (l.placement == Placement::kPageEnd) return 7;
                    return power_of(l.offset * element_bytes(c.problem, t), 6);
                  }),
            [t](const DrawContext& context, int at, Case& c) {
              TensorLayout& l = tensor_layout(c, t);
              l.placement = at == 7 ? Placement::kPageEnd : Placement::kGuarded;
              const int64_t step = at == 7 ? 0 : elements(c, t, int64_t{1} << at);
              const int64_t place = at == 7 ? 0 : context.rng.range(0, 3);
              l.offset = at == 6 ? 64 * place : step * (2 * place + 1);
            }),
      kinds("gap after rows of " + name, kPlaced, kGaps,
            there(t,
                  [t](const Case& c, const TensorLayout& l) {
                    const int64_t bytes = l.row_gap * element_bytes(c.problem, t);
                    return bytes == 0 ? 0 : bytes % 16 == 0 ? 3 : bytes % 4 == 0 ? 2 : 1;
                  }),
            [t](const DrawContext& context, int at, Case& c) {
              TensorLayout& l = tensor_layout(c, t);
              const int64_t bytes[] = {0, context.rng.range(0, 3) * 4 + 2, context.rng.range(0, 3) * 16 + 4,
                                       context.rng.pick<int64_t>({16, 32, 128})};
              l.row_gap = elements(c, t, bytes[at]);
            }),
      kinds("order of " + name, kPlaced, kOrderNames,
            there(t,
                  [](const Case&, const TensorLayout& l) {
                    return static_cast<int>(std::ranges::find(kOrders, l.order) - kOrders.begin());
                  }),
            [t](const DrawContext&, int at, Case& c) {
              tensor_layout(c, t).order = kOrders[static_cast<size_t>(at)];
            }),
      kinds("offsets into " + name + " reach", kPlaced, kReaches,
            there(t, [t](const Case& c, const TensorLayout&) { return reach_of(c, t); }),
            [t](const DrawContext& context, int at, Case& c) {
              const TensorLayout before = tensor_layout(c, t);
              const int64_t far = draw_far_spread(context.rng);
              tensor_layout(c, t).spread = at == 0 ? 0 : at * far;
              if (at != 0)
                tensor_layout(c, t).step = 1, tensor_layout(c, t).across = false,
                                 tensor_layout(c, t).backwards &= ~8;
              if (reach_of(c, t) != at) tensor_layout(c, t) = before;
            }),
      kinds("strides of one element of " + name, kPlaced, kSizeOneStrides,
            there(t, [](const Case&, const TensorLayout& l) { return l.junk_unit_strides ? 1 : 0; }),
            [t](const DrawContext&, int at, Case& c) { tensor_layout(c, t).junk_unit_strides = at == 1; }),
  };
}

// Strides that few kernels take: negative ones, columns that do not lie side by side, tensors stored once.
std::vector<CaseAxis> axes_of_odd_strides(TensorId t) {
  const std::string name = name_of(t);
  std::vector<CaseAxis> table = {
      kinds("strides of " + name + " are", kPlaced, kSigns,
            there(t,
                  [](const Case&, const TensorLayout& l) {
                    return (l.backwards & 4) != 0 ? 1 : (l.backwards & 8) != 0 ? 2 : l.backwards != 0 ? 3 : 0;
                  }),
            [t](const DrawContext& context, int at, Case& c) {
              TensorLayout& l = tensor_layout(c, t);
              const int64_t others = context.rng.range(1, 3);
              l.backwards = at == 0 ? 0 : at == 1 ? 4 | (others & 1) : at == 2 ? 8 | (others & 2) : others;
              if (l.scattered()) l.spread = 0;
            }),
  };
  // One column lies side by side with itself.
  if (spec_of(t).shape[3] != Size::kOne)
    table.push_back(
        kinds("columns of " + name + " lie", kPlaced, kColumnForms,
              there(t, [](const Case&, const TensorLayout& l) { return l.across      ? 2
                                                                       : l.step != 1 ? 1
                                                                                     : 0; }),
              [t](const DrawContext& context, int at, Case& c) {
                TensorLayout& l = tensor_layout(c, t);
                l.across = at == 2;
                l.step = at == 1 ? context.rng.pick<int64_t>({2, 3, 8}) : 1;
                if (l.scattered()) l.spread = 0;
              }));
  if (const auto once = once_of(t))
    table.push_back(kinds(
        name + " is stored", kPlaced, kStored,
        [once](const Case& c) { return ((c.once.*once).head ? 1 : 0) + ((c.once.*once).batch ? 2 : 0); },
        [once](const DrawContext&, int at, Case& c) {
          c.once.*once = {.batch = at >= 2, .head = at % 2 == 1};
        }));
  for (CaseAxis& axis : table) axis.odd = true;
  return table;
}

bool any_dirty(const Case& c) { return std::ranges::any_of(c.calls, &Call::dirty_workspace); }
bool second_stream(const Case& c) {
  return std::ranges::any_of(c.calls, [](const Call& call) { return call.stream != 0; });
}

template <size_t kCount>
void make_calls(const DrawContext&, Case& c) {
  c.calls.resize(kCount);
}

}  // namespace

std::vector<CaseAxis> axes_of_memory() {
  std::vector<CaseAxis> table;
  for (const TensorSpec& spec : kTensors) {
    if (spec.strided() && in_problem(spec, 0))
      table = joined({std::move(table), axes_of_placement(spec.id), axes_of_odd_strides(spec.id)});
  }
  const std::vector<CaseAxis> others = {
      choice("outputs before:", kPlaced,
             {{"NaN", [](const Case& c) { return c.poison == Poison::kNan; },
               [](const DrawContext&, Case& c) { c.poison = Poison::kNan; }},
              {"huge", [](const Case&) { return true; },
               [](const DrawContext&, Case& c) { c.poison = Poison::kHuge; }}}),
      choice("LSE", kPlaced,
             {{"wanted", [](const Case& c) { return c.want_lse; },
               [](const DrawContext&, Case& c) { c.want_lse = true; }},
              {"not wanted", [](const Case&) { return true; },
               [](const DrawContext&, Case& c) { c.want_lse = false; }}}),
      number(
          "SMs", kPlaced, {1, 2, 8, 16, 17, 32, 64, 108, 109, 132, 133}, 256,
          [](const Case& c) { return int64_t{c.env.sm_count}; },
          [](Case& c, int64_t n) { c.env.sm_count = static_cast<int32_t>(n); }),
      choice("schedule:", kPlaced,
             {{"in order", [](const Case& c) { return c.env.schedule_seed == 0; },
               [](const DrawContext&, Case& c) { c.env.schedule_seed = 0; }},
              {"random", [](const Case&) { return true; },
               [](const DrawContext& context, Case& c) {
                 c.env.schedule_seed = 1 + context.rng.bits() % 65535;
               }}}),
      collected(choice("calls:", kPlaced,
                       {{"1", [](const Case& c) { return c.calls.size() < 2; }, make_calls<1>},
                        {"2", [](const Case& c) { return c.calls.size() < 3; }, make_calls<2>},
                        {"3 or more", [](const Case&) { return true; }, make_calls<3>}})),
      collected(choice("workspace", kPlaced,
                       {{"clean", [](const Case& c) { return !any_dirty(c); },
                         [](const DrawContext&, Case& c) {
                           for (Call& call : c.calls) call.dirty_workspace = false;
                         }},
                        {"dirty", [](const Case&) { return true; },
                         [](const DrawContext&, Case& c) { c.calls.back().dirty_workspace = true; }}})),
      collected(choice("streams:", kPlaced,
                       {{"one", [](const Case& c) { return !second_stream(c); },
                         [](const DrawContext&, Case& c) {
                           for (Call& call : c.calls) call.stream = 0;
                         }},
                        {"two", [](const Case&) { return true; },
                         [](const DrawContext&, Case& c) { c.calls.back().stream = 1; }}})),
  };
  std::ranges::copy(others, std::back_inserter(table));
  return table;
}

}  // namespace attnfuzz
