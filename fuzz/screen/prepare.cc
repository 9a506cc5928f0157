#include "fuzz/screen/prepare.h"

#include <algorithm>

#include "properties/case/geometry.h"
#include "properties/judge/bad_plan.h"
#include "properties/memory/extent.h"
#include "properties/memory/prefill.h"
#include "reference/error_model.h"

namespace attnfuzz::screen {
namespace {

constexpr TensorId kIds[kTensors] = {TensorId::kQ, TensorId::kK, TensorId::kV, TensorId::kO, TensorId::kLse};
constexpr uint64_t kAlign = 4096;
// Larger ones take long enough by themselves, and would set the size of every slot.
constexpr uint64_t kMostBytes = uint64_t{64} << 20;
constexpr double kMostWork = 0x1p28;  // of the oracle, in multiply-adds: as a trial samples rows from there
constexpr int64_t kMostKeys = int64_t{1} << 15;

uint64_t aligned(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

bool place(const Case& c, Tensor t, uint64_t* bytes, Place* to) {
  const TensorId id = kIds[t];
  const Geometry g = *geometry(c, id);
  const TensorLayout& layout = c.layout[static_cast<size_t>(id)];
  // extent_of() puts a guard in front of a tensor that begins far behind its slot's border.
  if (g.offset_bytes > kGapEnd || g.span_bytes > static_cast<int64_t>(kMostBytes)) return false;
  to->begin = aligned(*bytes, kAlign);
  to->data = to->begin + static_cast<uint64_t>(kGuardBefore + g.offset_bytes);
  to->elements_end = to->data + static_cast<uint64_t>(g.span_bytes);
  to->end = *bytes = to->elements_end + static_cast<uint64_t>(g.guard_after());
  const std::array<int64_t, 4> size = logical_size(c.problem, id);
  for (int n = 0; n < 4; ++n) {
    to->size[n] = static_cast<uint32_t>(g.size[n]);
    to->stride[n] = static_cast<uint32_t>(g.stride[n]);
    to->told[n] = size[n] == 1 && layout.junk_unit_strides ? kJunkStride + n : g.stride[n];
  }
  std::copy_n(g.order.begin(), 3, to->order);
  to->pattern = spec_of(id).role == Role::kInput ? kInputCanary : output_pattern(c, id);
  return true;
}

}  // namespace

std::optional<Call> prepare(const Case& c, int32_t backend, std::string* why) {
  const auto no = [&](const char* reason) {
    *why = reason;
    return std::nullopt;
  };
  const Problem& p = c.problem;
  if (p.dtype == ATTN_F32) return no("inputs of fp32");
  if (p.bias || p.mask || p.key_lengths) return no("a bias, a mask or key lengths");
  if (!c.planted.empty() || !(c.remap == Remap{})) return no("planted or rearranged values");
  if (c.calls.size() != 1 || !(c.calls[0] == attnfuzz::Call{})) return no("other calls than a single one");
  for (const TensorLayout& layout : c.layout) {
    if (layout.placement == Placement::kPageEnd) return no("a tensor at the end of its page");
    if (layout.spread > 0 || layout.row_gap * 4 > 2 * kGapEnd) return no("a tensor spread widely");
  }
  const double rows =
      static_cast<double>(p.batch) * static_cast<double>(p.heads_q) * static_cast<double>(p.seq_q);
  if (rows == 0 || p.seq_k == 0 || p.heads_kv == 0) return no("no query, or no key");
  if (p.dim_qk == 0 || p.dim_v == 0) return no("a dimension of 0");
  if (p.seq_k > kMostKeys ||
      rows * static_cast<double>(p.seq_k) * static_cast<double>(p.dim_qk + p.dim_v) > kMostWork)
    return no("large: rows are sampled, or it takes long by itself");
  Call call = {};
  call.problem = problem_of(c.problem);
  call.env = env_of(c.env);
  call.env.backend = backend;
  for (int t = 0; t < kTensors; ++t) {
    if (!is_present(c, kIds[t])) continue;
    if (!place(c, static_cast<Tensor>(t), &call.bytes, &call.tensor[t])) return no("a tensor spread widely");
  }
  call.fill[0] = c.q, call.fill[1] = c.k, call.fill[2] = c.v;
  call.complete = c.prefill == Prefill::kNan;
  if (call.bytes > kMostBytes) return no("more than 64 MiB");
  return call;
}

bool add_plan(const Case& c, const attn_plan& plan, const Calibration& calibration, Call* call,
              std::vector<std::string>* assumptions, std::string* why) {
  const auto no = [&](const char* reason) {
    *why = reason;
    return false;
  };
  if (bad_plan(plan)) return no("a plan that makes no sense");
  if (plan.qk_format != ATTN_FORMAT_UNKNOWN) return no("Q and K that are converted");
  if (plan.workspace_bytes % 4 != 0 || plan.workspace_bytes > kMostBytes || plan.workspace_align > kAlign)
    return no("a workspace of more than 64 MiB, or of an odd size or alignment");
  call->plan = plan;
  // As LaidOut::give_workspace().
  Workspace& workspace = call->workspace;
  const uint64_t align = std::max<uint64_t>(plan.workspace_align, 1), guard = kGuardBefore;
  const uint64_t slot = aligned(call->bytes, kAlign);
  workspace.data = aligned(slot + guard, align);
  workspace.begin = workspace.data - guard;
  workspace.end_of_data = workspace.data + plan.workspace_bytes;
  workspace.end = call->bytes = workspace.end_of_data + guard;
  workspace.pattern = workspace_pattern(c);
  const ErrorModel model = make_error_model(call->problem, plan, calibration);
  call->model = model;
  *assumptions = model.assumptions;
  call->overflow = output_overflow(model);
  return true;
}

}  // namespace attnfuzz::screen
