#include "properties/memory/layout.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "properties/case/codec/as_contract.h"
#include "properties/data/bits16.h"
#include "properties/data/fills.h"
#include "properties/data/recipe.h"
#include "properties/memory/case_poison.h"
#include "properties/memory/extent.h"
#include "properties/memory/inputs.h"
#include "properties/memory/strays.h"
#include "reference/call/row_space.h"
#include "reference/call/sequences.h"

namespace attnfuzz {
namespace {

std::string coordinates(const std::array<int64_t, 4>& at) {
  return "(" + std::to_string(at[0]) + "," + std::to_string(at[1]) + "," + std::to_string(at[2]) + "," +
         std::to_string(at[3]) + ")";
}

std::array<int64_t, 4> last_index(const Geometry& g) {
  std::array<int64_t, 4> at;
  for (int n = 0; n < 4; ++n) at[n] = std::max<int64_t>(g.size[n] - 1, 0);
  return at;
}

// Checks the bytes between the elements of a tensor with scattered columns.
std::optional<MemoryFault> between_elements(const Extent& e, TensorId t, uint32_t pattern) {
  std::vector<std::byte> due(static_cast<size_t>(e.g.span_bytes) + 4), here(due.size());
  // The pattern repeats by address.
  const auto turn = static_cast<int64_t>(reinterpret_cast<uintptr_t>(e.data) & 3);
  for (size_t n = 0; n < due.size(); ++n)
    due[n] = static_cast<std::byte>(pattern >> (8 * ((static_cast<int64_t>(n) + turn) & 3)));
  std::memcpy(here.data(), e.data, static_cast<size_t>(e.g.span_bytes));
  for_each_row(e, [&](const Index&, const std::byte* row) {
    for (int64_t d = 0; d < e.g.size[3]; ++d) {
      const int64_t at = row - e.data + d * e.g.stride[3] * e.g.element_bytes;
      std::memcpy(&here[static_cast<size_t>(at)], &due[static_cast<size_t>(at)],
                  static_cast<size_t>(e.g.element_bytes));
    }
  });
  const int64_t bad =
      std::mismatch(here.begin(), here.begin() + e.g.span_bytes, due.begin()).first - here.begin();
  if (bad == e.g.span_bytes) return std::nullopt;
  return MemoryFault{MemoryFault::Kind::kGap,
                     t,
                     {},
                     std::string("a gap between elements of ") + name_of(t) + " was written, " +
                         std::to_string(bad) + " bytes past the beginning"};
}

// Finds redzones and gaps that no longer hold `pattern`.
std::optional<MemoryFault> surroundings(const Extent& e, TensorId t, uint32_t pattern) {
  using enum MemoryFault::Kind;
  if (const std::byte* bad = differs_from(e.begin, e.data, pattern)) {
    return MemoryFault{
        kRedzone,
        t,
        {},
        "memory " + std::to_string(e.data - bad) + " bytes before " + name_of(t) + " was written"};
  }
  if (const std::byte* bad = differs_from(e.elements_end(), e.end, pattern)) {
    return MemoryFault{kRedzone, t, last_index(e.g),
                       "memory " + std::to_string(bad - e.elements_end()) + " bytes past the end of " +
                           name_of(t) + " was written"};
  }
  if (!e.has_gaps()) return std::nullopt;
  if (e.g.scattered()) return between_elements(e, t, pattern);
  std::optional<MemoryFault> fault;
  const std::byte* until = e.data;
  Index before;
  const auto report = [&](const std::byte* bad) {
    const std::array<int64_t, 4> at = {before.n[0], before.n[1], before.n[2], e.g.size[3] - 1};
    fault = MemoryFault{kGap, t, at,
                        std::string("the gap between rows of ") + name_of(t) + " was written, " +
                            std::to_string(bad - until) + " bytes past the end of row " + coordinates(at)};
  };
  for_each_row(e, [&](const Index& at, const std::byte* row) {
    if (fault) return;
    if (row - until <= 2 * kGapEnd) {
      if (const std::byte* bad = differs_from(until, row, pattern)) report(bad);
    } else if (const std::byte* low = differs_from(until, until + kGapEnd, pattern)) {
      report(low);
    } else if (const std::byte* high = differs_from(row - kGapEnd, row, pattern)) {
      report(high);
    }
    until = row + e.g.row_bytes();
    before = at;
  });
  return fault;
}

// (b, h, i) of a stored row. A row that belongs to no batch entry gets the indices of the row before it.
std::array<int64_t, 4> named(const PackedCase& packed, TensorId t, const Index& at, int64_t d) {
  const StoredRow place = packed.nearest(t, {at.n[0], at.n[2]});
  return {place.entry, at.n[1], place.row, d};
}

// Finds a row of an output that belongs to no batch entry and no longer holds `pattern`.
std::optional<MemoryFault> written_slack(const PackedCase& packed, const Extent& e, TensorId t, uint32_t pattern) {
  if (!packed.packs(t)) return std::nullopt;
  std::optional<MemoryFault> fault;
  for_each_row(e, [&](const Index& at, const std::byte* row) {
    if (fault || logical_index(packed, t, at)) return;
    for (int64_t d = 0; d < e.g.size[3]; ++d) {
      const std::byte* element = row + d * e.g.stride[3] * e.g.element_bytes;
      if (differs_from(element, element + e.g.element_bytes, pattern) == nullptr) continue;
      fault = MemoryFault{MemoryFault::Kind::kGap, t, named(packed, t, at, d),
                          "row " + std::to_string(at.n[2]) + " of " + name_of(t) +
                              ", behind the last batch entry, was written"};
      return;
    }
  });
  return fault;
}

// Finds the element of an input that has changed.
std::optional<MemoryFault> changed_element(const PackedCase& packed, const Extent& e, TensorId t, InputRows rows) {
  std::optional<MemoryFault> fault;
  std::vector<std::byte> expected(static_cast<size_t>(e.g.row_bytes()));
  for_each_dense_row(e, [&](const Index& at, const std::byte* row) {
    if (fault) return;
    rows.write(at, expected.data());
    if (std::memcmp(row, expected.data(), expected.size()) == 0) return;
    const auto bad = std::mismatch(expected.begin(), expected.end(), row).first - expected.begin();
    const std::array<int64_t, 4> index = named(packed, t, at, bad / e.g.element_bytes);
    fault = MemoryFault{MemoryFault::Kind::kInputChanged, t, index,
                        std::string("the input ") + name_of(t) + " was written at " + coordinates(index)};
  });
  return fault;
}

template <typename Bits>
int64_t find_never_written(const std::byte* row, int64_t count, uint64_t pattern) {
  // Counts without branches first, because there is almost never a hit.
  int64_t found = 0;
  for (int64_t n = 0; n < count; ++n) {
    Bits bits;
    std::memcpy(&bits, row + n * sizeof bits, sizeof bits);
    found += bits == static_cast<Bits>(pattern);
  }
  if (found == 0) return -1;
  for (int64_t n = 0; n < count; ++n) {
    Bits bits;
    std::memcpy(&bits, row + n * sizeof bits, sizeof bits);
    if (bits == static_cast<Bits>(pattern)) return n;
  }
  return -1;
}

std::optional<MemoryFault> never_written(const PackedCase& packed, const Extent& e, TensorId t, uint32_t pattern) {
  std::optional<MemoryFault> fault;
  const uint64_t twice = uint64_t{pattern} << 32 | pattern;
  const auto find = e.g.element_bytes == 2   ? find_never_written<uint16_t>
                    : e.g.element_bytes == 4 ? find_never_written<uint32_t>
                                             : find_never_written<uint64_t>;
  for_each_dense_row(e, [&](const Index& at, const std::byte* row) {
    if (fault) return;
    const int64_t d = find(row, e.g.size[3], twice);
    if (d < 0 || !logical_index(packed, t, at)) return;
    const std::array<int64_t, 4> index = named(packed, t, at, d);
    fault = MemoryFault{MemoryFault::Kind::kUnwritten, t, index,
                        name_of(t) + coordinates(index) + " was never written"};
  });
  return fault;
}

// The view of a tensor that the kernel gets.
attn_tensor told(const Case& c, TensorId t, const Extent& e) {
  if (!e.g.present) return {};
  attn_tensor view = {e.first(), {}};
  const std::array<int64_t, 4> size = stored_size(c.problem, t);
  const std::array<bool, 4> once = repeated(c, t);
  for (int n = 0; n < 4; ++n) {
    const bool junk = size[n] == 1 && c.layout[static_cast<size_t>(t)].junk_unit_strides;
    view.stride[n] = junk ? kJunkStride + n : once[n] ? 0 : e.g.stride[n];
  }
  return view;
}

}  // namespace

float dead_lse_of(const attn_plan& plan) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  return plan.lse_dead == ATTN_LSE_DEAD_PLUS_INF ? kInfinite : -kInfinite;
}

// A tensor that lies in the memory of another one gets the view of that one.
static void share_memory(const Case& c, attn_tensors& tensors) {
  if (c.problem.latent) tensors.v = tensors.k;
  for (const TensorId t : kInputs) {
    if (home_of(c, t) != t) set_view(tensors, spec_of(t), view_of(tensors, spec_of(home_of(c, t))));
  }
}

attn_tensors placed(const Case& c, Arena& arena) {
  attn_tensors tensors = {};
  tensors.size = sizeof tensors;
  for (const TensorSpec& spec : kTensors) {
    if (spec.role != Role::kScratch && in_problem(spec, problem_of(c.problem).features))
      set_view(tensors, spec, told(c, spec.id, extent_of(c, spec.id, arena)));
  }
  share_memory(c, tensors);
  return tensors;
}

Extent& LaidOut::extent(TensorId t) { return extents_[static_cast<size_t>(t)]; }
const Extent& LaidOut::extent(TensorId t) const { return extents_[static_cast<size_t>(t)]; }

attn_tensor LaidOut::place(TensorId t) {
  extent(t) = extent_of(case_, t, arena_);
  return told(case_, t, extent(t));
}

void LaidOut::fill_input(TensorId t) {
  Extent& e = extent(t);
  if (!e.g.present) return;
  if (e.has_gaps()) {
    for (const auto& stretch : e.touched) {
      fill_pattern(stretch.data(), stretch.data() + stretch.size(), arena_.poison.input);
    }
  } else {
    fill_pattern(e.begin, e.data, arena_.poison.input);
    fill_pattern(e.elements_end(), e.end, arena_.poison.input);
  }
  InputRows rows = rows_of(t);
  if (e.g.scattered()) {
    std::vector<std::byte> dense(static_cast<size_t>(e.g.row_bytes()));
    for_each_row(e, [&](const Index& at, std::byte* row) {
      rows.write(at, dense.data());
      e.scatter(dense.data(), row);
    });
  } else {
    for_each_row(e, [&](const Index& at, std::byte* row) { rows.write(at, row); });
  }
  e.hash = hash_touched(e);
}

// The place of a state in the lists of states.
static size_t place_of(TensorId t) { return static_cast<size_t>(std::ranges::find(kStates, t) - kStates.begin()); }

void LaidOut::lay_out_state(TensorId t) {
  const Extent& e = extent(t);
  if (!e.g.present) return;
  fill_input(t);
  state_digests_[place_of(t)] = hash_elements(e);
  const auto [stores, heads, slots, columns] = e.g.size;
  before_[place_of(t)].resize(static_cast<size_t>(stores * heads * slots * e.g.row_bytes()));
  for_each_dense_row(e, [&](const Index& at, const std::byte* row) {
    std::memcpy(before(t, at), row, static_cast<size_t>(e.g.row_bytes()));
  });
  set_view(given_, spec_of(t), {before_[place_of(t)].data(), {heads * slots * columns, slots * columns, columns, 1}});
}

std::byte* LaidOut::before(TensorId t, const Index& at) {
  const Geometry& g = extent(t).g;
  const auto [b, h, s] = at.n;
  return before_[place_of(t)].data() + ((b * g.size[1] + h) * g.size[2] + s) * g.row_bytes();
}

void LaidOut::restore_state(TensorId t) {
  Extent& e = extent(t);
  if (!e.g.present || hash_touched(e) == e.hash) return;
  for_each_row(e, [&](const Index& at, std::byte* row) {
    if (e.g.scattered())
      e.scatter(before(t, at), row);
    else
      std::memcpy(row, before(t, at), static_cast<size_t>(e.g.row_bytes()));
  });
  e.hash = hash_touched(e);
}

void LaidOut::keep_state(TensorId t, std::span<const int64_t> bits) {
  const auto bytes = static_cast<size_t>(extent(t).g.element_bytes);
  std::vector<std::byte>& before = before_[place_of(t)];
  if (bits.size() * bytes != before.size()) throw std::invalid_argument("another state's elements");
  for (size_t n = 0; n < bits.size(); ++n) std::memcpy(&before[n * bytes], &bits[n], bytes);  // little-endian
  extent(t).hash = ~hash_touched(extent(t));  // so that restore_state() writes it
  keeps_states_ = true;
}

LaidOut::LaidOut(const Case& c, Arena& arena)
    : case_(c), packed_(c.problem), arena_(arena), strays_(std::make_unique<Strays>(arena)), extents_(kTensorCount) {
  problem_ = problem_of(c.problem);
  tensors_.size = sizeof tensors_;
  for (const TensorSpec& spec : kTensors) {
    if (spec.role == Role::kScratch) continue;
    const attn_tensor view = place(spec.id);
    if (in_problem(spec, problem_.features)) set_view(tensors_, spec, view);  // two rows may share a member
  }
  share_memory(c, tensors_);
  given_ = tensors_;
  for (const TensorId t : kInputs) {
    if (home_of(c, t) != t) overwritten_.push_back({.tensor = t});
  }
  for (TensorId t : kInputs) fill_input(t);
  for (TensorId t : kStates) lay_out_state(t);
  for (const TensorSpec& spec : kTensors) keep(spec.id);
  poison_outputs();
  strays_->before();
}

void LaidOut::keep(TensorId t) {
  const Extent& e = extent(t);
  if (e.touched.empty()) return;
  strays_->fill(e);
  if (e.touched.size() > 1 || !arena_.keep(t, e.begin, e.end)) passing_.push_back(t);
}

LaidOut::~LaidOut() {
  for (const TensorId t : passing_) {
    try {
      arena_.forget(t);
    } catch (const std::exception&) {
      // The pages stay. This costs memory, not correctness.
    }
  }
}

attn_env LaidOut::env() const { return env_of(case_.env); }

void LaidOut::give_workspace(uint64_t bytes, uint64_t align) {
  if (bytes > static_cast<uint64_t>(kMaxCaseBytes)) {
    throw std::invalid_argument("a workspace of " + std::to_string(bytes) + " bytes was asked for; at most " +
                                std::to_string(kMaxCaseBytes) + " are given");
  }
  if (!std::has_single_bit(align) || align > kMaxWorkspaceAlign) {
    throw std::invalid_argument("a workspace alignment of " + std::to_string(align) +
                                " was asked for; it must be a power of two, at most " +
                                std::to_string(kMaxWorkspaceAlign));
  }
  Extent& e = extent(TensorId::kWorkspace);
  e = Extent{};
  e.g.present = true;
  e.g.element_bytes = 1;
  e.g.size = {1, 1, 1, static_cast<int64_t>(bytes)};
  e.g.stride = {0, 0, 0, 1};
  e.g.span_bytes = static_cast<int64_t>(bytes);
  const auto step = static_cast<int64_t>(align);
  const auto misaligned = [step](const std::byte* p) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(p) & static_cast<uintptr_t>(step - 1));
  };
  if (case_.layout[static_cast<size_t>(TensorId::kWorkspace)].placement == Placement::kPageEnd) {
    e.end = arena_.slot_end(TensorId::kWorkspace);
    e.data = e.end - bytes;
    e.data -= misaligned(e.data);
  } else {
    const uint64_t room = std::max<uint64_t>(align, kRedzoneBefore) + bytes + kRedzoneBefore;
    e.data = arena_.slot(TensorId::kWorkspace) + Arena::lead(room) + kRedzoneBefore;
    e.data += misaligned(e.data) ? step - misaligned(e.data) : 0;
    e.end = e.data + bytes + kRedzoneBefore;
  }
  e.begin = e.data - kRedzoneBefore;
  e.touched.emplace_back(e.begin, e.end);
  // The redzones hold NaN patterns whatever the case's poison is, because the workspace's size need not be a
  // multiple of an element's size.
  fill_pattern(e.begin, e.data, arena_.poison.workspace);
  fill_pattern(e.elements_end(), e.end, arena_.poison.workspace);
  fill_pattern(e.data, e.elements_end(), workspace_pattern(case_, arena_.poison));
  workspace_used_ = false;
  keep(TensorId::kWorkspace);
  strays_->before();
  tensors_.workspace = e.data;
  tensors_.workspace_bytes = bytes;
}

void LaidOut::follow(const attn_plan& plan) {
  if (dead_lse_of(plan) == dead_lse_) return;
  dead_lse_ = dead_lse_of(plan);
  for (const TensorId t : kTensorsWith<&Varied::by_plan>) fill_input(t);
  if (!overwritten_.empty()) poison_outputs();
}

void LaidOut::derive(TensorId t, std::vector<std::byte> elements) {
  derived_[static_cast<size_t>(t)] = std::move(elements);
  fill_input(t);
  if (home_of(case_, t) != t) poison_outputs();
}

InputRows LaidOut::rows_of(TensorId t) const {
  return InputRows(case_, t, dead_lse_, derived_[static_cast<size_t>(t)]);
}

std::span<const std::byte> LaidOut::workspace() const {
  const Extent& e = extent(TensorId::kWorkspace);
  if (!e.g.present) return {};
  return {e.data, static_cast<size_t>(e.g.span_bytes)};
}

void LaidOut::keep_workspace(std::span<const std::byte> left) {
  if (left.size() != workspace().size()) throw std::invalid_argument("another workspace's bytes");
  if (left.empty()) return;
  std::memcpy(extent(TensorId::kWorkspace).data, left.data(), left.size());
  workspace_used_ = true;
}

void LaidOut::poison_outputs() {
  for (TensorId t : kOutputs) {
    for (const auto& stretch : extent(t).touched) {
      fill_pattern(stretch.data(), stretch.data() + stretch.size(), output_pattern(case_, t, arena_.poison));
    }
  }
  for (Overwritten& input : overwritten_) fill_overwritten(input);
}

void LaidOut::fill_overwritten(Overwritten& input) {
  Extent& e = extent(home_of(case_, input.tensor));
  InputRows rows = rows_of(input.tensor);
  const auto [batch, heads, queries, columns] = e.g.size;
  const auto bytes = static_cast<size_t>(e.g.row_bytes());
  const RowSpace all(batch, heads, queries);
  input.before.resize(static_cast<size_t>(all.count()) * bytes);
  for_each_row(e, [&](const Index& at, std::byte* row) {
    std::byte* const dense = &input.before[static_cast<size_t>(all.of(at.n[0], at.n[1], at.n[2])) * bytes];
    rows.write(at, dense);
    if (e.g.scattered())
      e.scatter(dense, row);
    else
      std::memcpy(row, dense, bytes);
  });
  e.hash = hash_touched(e);
  input.digest = hash_elements(e);
  set_view(given_, spec_of(input.tensor),
           {input.before.data(), {heads * queries * columns, queries * columns, columns, 1}});
}

bool LaidOut::holds_input(TensorId output) const {
  return std::ranges::any_of(overwritten_,
                             [&](const Overwritten& input) { return home_of(case_, input.tensor) == output; });
}

void LaidOut::before_call(const Call& call) {
  poison_outputs();
  for (TensorId t : kStates) restore_state(t);
  strays_->before();
  const Extent& e = extent(TensorId::kWorkspace);
  if (!e.g.present) return;
  if (!call.dirty_workspace) {
    fill_pattern(e.data, e.elements_end(), workspace_pattern(case_, arena_.poison));
  } else if (!workspace_used_) {
    // Junk as a call of another shape could have left it: random bits, few of which are NaN.
    for (int64_t at = 0; at < e.g.span_bytes; at += 8) {
      const uint64_t junk = mix(0, 0, 0, 0, static_cast<uint64_t>(at));
      std::memcpy(e.data + at, &junk, static_cast<size_t>(std::min<int64_t>(8, e.g.span_bytes - at)));
    }
  }
  workspace_used_ = true;
}

std::optional<MemoryFault> LaidOut::check_surroundings(TensorId t, uint32_t pattern) const {
  std::optional<MemoryFault> fault = surroundings(extent(t), t, pattern);
  if (fault && packed_.packs(t)) {
    const auto [b, h, s, d] = fault->index;
    fault->index = named(packed_, t, {{b, h, s}}, d);
  }
  return fault;
}

std::optional<MemoryFault> LaidOut::check_unchanged(TensorId t) const {
  const Extent& e = extent(t);
  if (!e.g.present || hash_touched(e) == e.hash) return std::nullopt;
  if (auto fault = check_surroundings(t, arena_.poison.input)) return fault;
  if (auto fault = changed_element(packed_, e, t, rows_of(t))) return fault;
  return MemoryFault{
      MemoryFault::Kind::kInputChanged, t, {}, std::string("the input ") + name_of(t) + " was written"};
}

std::optional<MemoryFault> LaidOut::check_inputs() const {
  for (TensorId t : kInputs) {
    if (auto fault = check_unchanged(t)) return fault;
  }
  return std::nullopt;
}

std::optional<MemoryFault> LaidOut::check_planned() const {
  for (TensorId t : kOutputs) {
    const Extent& e = extent(t);
    if (holds_input(t) && e.g.present && hash_touched(e) == e.hash) continue;
    for (const std::span<const std::byte> stretch : e.touched) {
      const std::byte* end = stretch.data() + stretch.size();
      if (differs_from(stretch.data(), end, output_pattern(case_, t, arena_.poison)) == nullptr) continue;
      if (auto fault = check_surroundings(t, output_pattern(case_, t, arena_.poison))) return fault;
      return MemoryFault{MemoryFault::Kind::kTooEarly, t, {}, std::string(name_of(t)) + " was written"};
    }
  }
  if (auto fault = check_inputs()) return fault;
  for (TensorId t : kStates) {
    if (auto fault = check_unchanged(t)) {
      if (fault->kind == MemoryFault::Kind::kInputChanged)
        *fault = {MemoryFault::Kind::kTooEarly, t, fault->index, std::string(name_of(t)) + " was written"};
      return fault;
    }
  }
  return strays_->after(extents_);
}

std::optional<MemoryFault> LaidOut::check_memory(bool outputs) const {
  for (TensorId t : kOutputs) {
    const Extent& e = extent(t);
    if (!e.g.present) continue;
    const uint32_t pattern = output_pattern(case_, t, arena_.poison);
    if (auto fault = check_surroundings(t, pattern)) return fault;
    if (auto fault = written_slack(packed_, e, t, pattern)) return fault;
  }
  if (extent(TensorId::kWorkspace).g.present) {
    if (auto fault = check_surroundings(TensorId::kWorkspace, arena_.poison.workspace)) return fault;
  }
  for (TensorId t : kStates) {
    if (!extent(t).g.present) continue;
    if (auto fault = check_surroundings(t, arena_.poison.input)) return fault;
  }
  if (auto fault = check_inputs()) return fault;
  if (auto fault = strays_->after(extents_)) return fault;
  if (!outputs || case_.poison != Poison::kNan) return std::nullopt;
  for (TensorId t : kOutputs) {
    if (holds_input(t)) continue;  // it holds an input, not poison; the oracle judges an element that stays
    if (auto fault = never_written(packed_, extent(t), t, arena_.poison.output)) return fault;
  }
  return std::nullopt;
}

std::vector<float> LaidOut::read(TensorId t) const {
  const Extent& e = extent(t);
  if (!e.g.present) return {};
  const std::array<bool, 4> once = repeated(case_, t);
  const bool repeats = once[0] || once[1] || once[2];
  const std::array<int64_t, 4> size = packed_.packs(t) || repeats ? logical_size(case_.problem, t) : e.g.size;
  const int64_t n = size[3];
  const RowSpace rows(size[0], size[1], size[2]);
  std::vector<float> out(static_cast<size_t>(rows.count() * n));
  const int32_t dtype = dtype_of(case_.problem, t);
  for_each_dense_row(e, [&](const Index& at, const std::byte* row) {
    const std::optional<Index> place = logical_index(packed_, t, at);
    if (!place) return;
    const auto [b, h, s] = place->n;
    float* to = &out[static_cast<size_t>(rows.of(b, h, s) * n)];
    const auto* bits = reinterpret_cast<const uint16_t*>(row);
    // The format is a constant in each loop, so that the loops vectorise.
    if (dtype == ATTN_F16) {
      for (int64_t d = 0; d < n; ++d) to[d] = to_float(ATTN_F16, bits[d]);
    } else if (dtype == ATTN_BF16) {
      for (int64_t d = 0; d < n; ++d) to[d] = to_float(ATTN_BF16, bits[d]);
    } else {
      std::memcpy(to, row, static_cast<size_t>(4 * n));
    }
  });
  // Copies a row that is stored once to each of the rows that it stands for.
  for (int64_t row = 0; repeats && row < rows.count(); ++row) {
    const auto [b, h, s] = rows.at(row);
    const int64_t from = rows.of(once[0] ? 0 : b, once[1] ? 0 : h, once[2] ? 0 : s);
    if (from != row) std::copy_n(&out[static_cast<size_t>(from * n)], n, &out[static_cast<size_t>(row * n)]);
  }
  return out;
}

std::vector<int64_t> LaidOut::read_integers(TensorId t) const {
  const Extent& e = extent(t);
  if (!e.g.present) return {};
  const std::array<int64_t, 4> size = packed_.packs(t) ? logical_size(case_.problem, t) : e.g.size;
  const int64_t n = size[3];
  const RowSpace rows(size[0], size[1], size[2]);
  std::vector<int64_t> out(static_cast<size_t>(rows.count() * n));
  const auto bytes = static_cast<size_t>(e.g.element_bytes);
  const bool indices = is_integer(spec_of(t));
  for_each_dense_row(e, [&](const Index& at, const std::byte* row) {
    const std::optional<Index> place = logical_index(packed_, t, at);
    if (!place) return;
    const auto [b, h, s] = place->n;
    int64_t* to = &out[static_cast<size_t>(rows.of(b, h, s) * n)];
    for (int64_t d = 0; d < n; ++d) {
      if (indices)
        to[d] = index_at(bytes == 4 ? ATTN_INDEX_32 : ATTN_INDEX_64, row, d);
      else
        std::memcpy(&to[d], row + static_cast<size_t>(d) * bytes, bytes);  // bits, little-endian
    }
  });
  return out;
}

std::array<uint64_t, kTensorCount> LaidOut::digests() const {
  std::array<uint64_t, kTensorCount> all = {};
  for (TensorId t : kInputs) all[static_cast<size_t>(t)] = hash_elements(extent(t));
  for (TensorId t : kStates) all[static_cast<size_t>(t)] = state_digests_[place_of(t)];
  for (const Overwritten& input : overwritten_) all[static_cast<size_t>(input.tensor)] = input.digest;
  return all;
}

std::vector<MemoryRange> LaidOut::ranges() const {
  std::vector<MemoryRange> ranges;
  for (size_t t = 0; t < extents_.size(); ++t) {
    for (const std::span<std::byte> touched : extents_[t].touched) {
      const uint64_t begin = arena_.offset(touched.data());
      ranges.push_back({static_cast<TensorId>(t), begin, begin + touched.size()});
    }
  }
  return ranges;
}

}  // namespace attnfuzz
