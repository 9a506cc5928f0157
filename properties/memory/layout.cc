#include "properties/memory/layout.h"

#include <algorithm>
#include <bit>
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
  const uint64_t features = problem_of(c.problem).features;
  for (const TensorSpec& spec : kTensors) {
    if (spec.role != Role::kScratch && in_problem(spec, features))
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
  if (is_integer(spec_of(t))) give_copy(t, tables_[static_cast<size_t>(t)]);
}

void LaidOut::give_copy(TensorId t, std::vector<std::byte>& copy) {
  const Extent& e = extent(t);
  const auto [stores, heads, rows, columns] = e.g.size;
  const auto bytes = static_cast<size_t>(e.g.row_bytes());
  const RowSpace all(stores, heads, rows);
  copy.resize(static_cast<size_t>(all.count()) * bytes);
  for_each_dense_row(e, [&](const Index& at, const std::byte* row) {
    std::memcpy(&copy[static_cast<size_t>(all.of(at.n[0], at.n[1], at.n[2])) * bytes], row, bytes);
  });
  set_view(given_, spec_of(t), {copy.data(), {heads * rows * columns, rows * columns, columns, 1}});
}

// The place of a state in the lists of states.
static size_t place_of(TensorId t) {
  return static_cast<size_t>(std::ranges::find(kStates, t) - kStates.begin());
}

void LaidOut::lay_out_state(TensorId t) {
  const Extent& e = extent(t);
  if (!e.g.present) return;
  fill_input(t);
  state_digests_[place_of(t)] = hash_elements(e);
  give_copy(t, before_[place_of(t)]);
}

std::byte* LaidOut::before(TensorId t, const Index& at) {
  const Geometry& g = extent(t).g;
  const auto [b, h, s] = at.n;
  return before_[place_of(t)].data() + ((b * g.size[1] + h) * g.size[2] + s) * g.row_bytes();
}

void LaidOut::restore_state(TensorId t) {
  Extent& e = extent(t);
  if (!e.g.present || hash_touched(e) == e.hash) return;
  for_each_row(e, [&](const Index& at, std::byte* row) { e.put(before(t, at), row); });
  e.hash = hash_touched(e);
}

void LaidOut::keep_state(TensorId t, std::span<const int64_t> bits) {
  const auto bytes = static_cast<size_t>(extent(t).g.element_bytes);
  std::vector<std::byte>& before = before_[place_of(t)];
  if (bits.size() * bytes != before.size())
    throw std::invalid_argument("keep_state(): the state has another number of elements");
  for (size_t n = 0; n < bits.size(); ++n) std::memcpy(&before[n * bytes], &bits[n], bytes);  // little-endian
  extent(t).hash = ~hash_touched(extent(t));  // so that restore_state() writes it
  keeps_states_ = true;
}

LaidOut::LaidOut(const Case& c, Arena& arena)
    : case_(c),
      packed_(c.problem),
      arena_(arena),
      strays_(std::make_unique<Strays>(arena)),
      extents_(kTensorCount) {
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
  // The redzones hold NaN patterns whatever the case's poison is. The workspace may end inside an element: a
  // shifted pattern of NaN is still NaN, and one of 2^100 would be another number.
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
  return InputRows(case_, packed_, t, dead_lse_, derived_[static_cast<size_t>(t)]);
}

std::span<const std::byte> LaidOut::workspace() const {
  const Extent& e = extent(TensorId::kWorkspace);
  if (!e.g.present) return {};
  return {e.data, static_cast<size_t>(e.g.span_bytes)};
}

void LaidOut::keep_workspace(std::span<const std::byte> left) {
  if (left.size() != workspace().size())
    throw std::invalid_argument("keep_workspace(): the workspace has another size");
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
    e.put(dense, row);
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
