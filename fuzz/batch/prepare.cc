#include "fuzz/batch/prepare.h"

#include <algorithm>

#include "properties/case/codec/as_contract.h"
#include "properties/case/places/far_blocks.h"
#include "properties/case/places/geometry.h"
#include "properties/case/places/packed.h"
#include "properties/data/recipe.h"
#include "properties/judge/bad_plan.h"
#include "properties/memory/case_poison.h"
#include "properties/memory/extent.h"
#include "properties/operations/backward/ask_for_gradients.h"
#include "reference/call/known_features.h"
#include "reference/cuda/gradients.h"
#include "reference/gradients/gradient_setup.h"
#include "reference/merge.h"
#include "reference/model/error_cap.h"
#include "reference/model/error_model.h"
#include "reference/numbers/formats.h"
#include "reference/selected.h"

namespace attnfuzz::batch {
namespace {

constexpr uint64_t kAlign = 4096;
constexpr uint64_t kFarBegin = 2 * kAlign;  // so that a block and the page before it lie in one granule of memory
// A larger case keeps the device busy by itself, and would set the size of every slot.
constexpr uint64_t kMostBytes = kMostTensorBytes;
constexpr double kMostWork = 0x1p31;  // multiply-adds of the oracle
// The most pairs of query and key in a backward pass. A pair has 33 bytes of scratch. With dbias it has 49, and 21 bytes
// of results.
constexpr double kMostPairs = 0x1p21;
constexpr int64_t kMostKeys = int64_t{1} << 18;
constexpr int64_t kMostSelect = 4096;             // of a list, which a thread makes
constexpr double kMostMasked = 0x1p26;            // bytes of the oracle's masks: one for each list and key
constexpr int64_t kMostPages = int64_t{1} << 17;  // each page needs memory outside of the slot as well

uint64_t aligned(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

// The blocks of a tensor whose outermost dimension leaves more than two pages between its slices: LaidOut fills
// it block by block. `blocks` is 0 for all other tensors. Nothing if other dimensions leave such gaps, too.
struct Blocks {
  int64_t blocks = 0, block = 0, left_out = 0;  // the last two in bytes: TensorSlot
};
std::optional<Blocks> blocks_of(const Geometry& g) {
  constexpr int64_t kMostTogether = int64_t{1} << 30;  // bytes of a tensor with any number of blocks
  Blocks found;
  if (g.scattered() || g.empty()) return found;  // LaidOut does not fill these block by block
  int64_t inside = g.size[3];
  for (int n = 2; n >= 0; --n) {
    const int64_t count = g.size[g.order[n]], stride = std::abs(g.stride[g.order[n]]);
    if (count <= 1) continue;
    if (found.blocks > 0) return std::nullopt;
    if ((stride - inside) * g.element_bytes > 2 * kGapEnd) {
      const int64_t block = inside * g.element_bytes + 2 * kGapEnd;
      found = {count, block, stride * g.element_bytes - block};
    }
    inside += (count - 1) * stride;
  }
  // Each block that lies far from the others needs memory of its own.
  if (found.blocks > kMostFarBlocks && g.span_bytes > kMostTogether) return std::nullopt;
  return found;
}

bool at_page_end(const Case& c, TensorId id) {
  return c.layout[static_cast<size_t>(id)].placement == Placement::kPageEnd;
}

// Writes the dimensions from the outermost to the innermost, as geometry() has them, columns included.
void write_order(const Geometry& g, const TensorLayout& layout, TensorSlot* to) {
  const std::array<uint8_t, 4> order = layout.across
                                           ? std::array<uint8_t, 4>{g.order[0], g.order[1], 3, g.order[2]}
                                           : std::array<uint8_t, 4>{g.order[0], g.order[1], g.order[2], 3};
  std::ranges::copy(order, to->order);
}

// Places a tensor. Returns the distance, in elements, from its lowest element to (0,0,0,0); nothing
// if a batch does not support its layout.
std::optional<int64_t> place(const Case& c, Tensor t, uint64_t* bytes, TensorSlot* to) {
  const TensorId id = kIds[t];
  const Geometry g = *geometry(c, id);
  const TensorLayout& layout = c.layout[static_cast<size_t>(id)];
  const auto blocks = blocks_of(g);
  // extent_of() puts a redzone in front of a tensor that begins far behind its slot's border.
  if (!blocks || g.offset_bytes > kGapEnd) return std::nullopt;
  const int64_t span_bytes = g.span_bytes - std::max<int64_t>(blocks->blocks - 1, 0) * blocks->left_out;
  if (span_bytes > static_cast<int64_t>(kMostBytes)) return std::nullopt;
  to->blocks = static_cast<uint32_t>(blocks->blocks);
  to->block = static_cast<uint64_t>(blocks->block);
  to->left_out = static_cast<uint64_t>(blocks->left_out);
  const auto span = static_cast<uint64_t>(span_bytes);
  // Page-end and spread tensors get an address range of their own. All others are packed one after another.
  uint64_t own = kFarBegin;
  uint64_t& next = to->blocks > 0 ? own : *bytes;
  if (at_page_end(c, id)) {
    const uint64_t left_out = to->blocks > 0 ? (to->blocks - 1) * to->left_out : 0;
    to->end = to->elements_end = aligned(kRedzoneBefore + span + left_out, kAlign) - left_out;
    to->data = to->end - span;
    to->begin = to->data - kRedzoneBefore;
  } else {
    to->begin = aligned(next, kAlign);
    to->data = to->begin + static_cast<uint64_t>(kRedzoneBefore + g.offset_bytes);
    to->elements_end = to->data + span;
    to->end = next = to->elements_end + static_cast<uint64_t>(g.redzone_after());
  }
  to->element_bytes = static_cast<uint32_t>(g.element_bytes);
  const std::array<int64_t, 4> size = stored_size(c.problem, id);
  const std::array<bool, 4> once = repeated(c, id);
  for (int n = 0; n < 4; ++n) {
    const int64_t stride = std::abs(g.stride[n]) * g.element_bytes;
    const bool outermost = to->blocks > 0 && stride == blocks->block + blocks->left_out;
    to->size[n] = static_cast<uint32_t>(g.size[n]);
    // The stride of a dimension with one index is never used, and may have any value.
    to->stride[n] = g.size[n] < 2
                        ? ~uint32_t{0}
                        : static_cast<uint32_t>((outermost ? blocks->block : stride) / g.element_bytes);
    to->given_stride[n] = size[n] == 1 && layout.junk_unit_strides ? kJunkStride + n
                          : once[n]                                ? 0
                                                                   : g.stride[n];
    if (g.stride[n] < 0) to->backwards |= uint32_t{1} << n;
  }
  write_order(g, layout, to);
  to->pattern = spec_of(id).role == Role::kInput ? kInputRedzone : output_pattern(c, id);
  return g.first;
}

// Returns false if there are too many batch entries.
bool write_borders(const Problem& p, Recipe* to) {
  if (!p.packed_q && !p.packed_k) return true;
  if (p.batch > kMostLengths) return false;
  const PackedCase packed(p);
  std::ranges::copy(packed.borders_q(), to->borders_q);
  std::ranges::copy(packed.borders_k(), to->borders_k);
  to->numbers_q = p.packed_q && p.packed_q->numbers;
  to->numbers_k = p.packed_k && p.packed_k->numbers;
  return true;
}

// Writes the recipe of the inputs. Returns false if a call has no room for it.
bool write_recipe(const Case& c, Recipe* to) {
  const Problem& p = c.problem;
  const Remap& r = c.remap;
  to->fill[0] = c.q, to->fill[1] = c.k, to->fill[2] = c.v;
  if (p.bias) to->bias = *p.bias;
  if (p.mask) to->mask = *p.mask;
  to->side_o[0] = c.o1, to->side_o[1] = c.o2, to->side_lse[0] = c.lse1, to->side_lse[1] = c.lse2;
  to->sides = c.sides;
  to->dout = c.dout, to->dlse = c.dlse;
  std::ranges::copy(repeated(c, TensorId::kDout), to->once_dout);
  if (p.sink) to->sink = *p.sink;
  if (p.slopes) to->slopes = *p.slopes;
  to->remapped = !(r == Remap{});
  to->batch = r.batch, to->head_q = r.head_q, to->head_kv = r.head_kv, to->query = r.query, to->key = r.key;
  to->shared_keys = r.shared_keys;
  to->seq_q = r.seq_q ? r.seq_q : p.seq_q;
  to->seq_k = r.seq_k ? r.seq_k : p.seq_k;
  to->has_k_shift = r.k_shift.has_value(), to->k_shift = r.k_shift.value_or(Fill{});
  to->has_v_added = r.v_added.has_value(), to->v_added = r.v_added.value_or(Fill{});
  to->nan_beyond_lengths = c.nan_beyond_lengths;
  for (int t = 0; t < 3; ++t) {
    const auto [batch, head, row, column] = repeated(c, kIds[t]);
    to->once_batch[t] = batch, to->once_head[t] = head;
  }
  for (int64_t b = 0; b < p.batch; ++b) to->longest = std::max(to->longest, key_length(p, b));
  if (!write_borders(p, to)) return false;
  if (p.paging) to->paging = *p.paging;
  to->selection = p.selection;
  if (p.selects()) to->listed = p.listed();
  if (p.key_lengths) {
    if (p.key_lengths->size() > kMostLengths) return false;
    std::ranges::copy(*p.key_lengths, to->lengths);
  }
  if (c.planted.empty()) return true;
  for (const Planted& x : planted_at(c)) {
    const auto tensor = std::ranges::find(kIds, x.tensor);
    if (to->planted == kMostPlanted || tensor == std::end(kIds)) return false;
    to->plant[to->planted++] = {x.bits,
                                static_cast<int32_t>(tensor - std::begin(kIds)),
                                {static_cast<uint32_t>(x.b), static_cast<uint32_t>(x.h),
                                 static_cast<uint32_t>(x.s), static_cast<uint32_t>(x.d)}};
  }
  return true;
}

// The features that a batch takes together with the operation that `features` asks for.
KnownFeatures known_of(uint64_t features) {
  constexpr uint64_t kGradients = ATTN_FEATURE_BACKWARD | ATTN_FEATURE_DLSE | ATTN_FEATURE_DBIAS |
                                  ATTN_FEATURE_DSINK | ATTN_FEATURE_F32 | ATTN_FEATURE_SINK |
                                  ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32 | ATTN_FEATURE_KEY_STEP;
  constexpr uint64_t kOfLists = ATTN_FEATURE_F32 | ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32;
  if ((features & ATTN_FEATURE_BACKWARD) != 0) return {"a batch of backward passes on a GPU", kGradients};
  if ((features & ATTN_FEATURE_SELECTED_BACKWARD) != 0)
    return {"a batch of gradients over listed blocks on a GPU",
            ATTN_FEATURE_SELECTED_BACKWARD | ATTN_FEATURE_DLSE | kOfLists};
  if ((features & ATTN_FEATURE_SELECTED) != 0)
    return {"a batch of listed blocks on a GPU", ATTN_FEATURE_SELECTED | ATTN_FEATURE_WIDE | kOfLists};
  if ((features & ATTN_FEATURE_MERGE) != 0)
    return {"a batch of merges on a GPU", kForward | ATTN_FEATURE_MERGE};
  return {"a batch on a GPU", kForward | ATTN_FEATURE_KEY_STEP};
}

// Why a batch cannot make the lists of a problem; nullptr if it can.
const char* lists_too_large(const Problem& p) {
  if (!p.selects()) return nullptr;
  const double lists =
      static_cast<double>(p.batch) * static_cast<double>(p.heads_kv) * static_cast<double>(p.seq_q);
  if (p.select() > kMostSelect) return "lists of more than 4,096 numbers";
  if (lists * static_cast<double>(p.seq_k) > kMostMasked) return "lists over more than 67 million keys in all";
  return nullptr;
}

}  // namespace

std::optional<Call> prepare(const Case& c, int32_t backend, std::string* why) {
  const auto no = [&](const char* reason) {
    *why = reason;
    return std::nullopt;
  };
  const Problem& p = c.problem;
  *why = unknown_features(known_of(p.features), problem_of(p).features);
  if (!why->empty()) return std::nullopt;
  // A mutation or a property may leave a tensor that is too large for any memory, and so has no geometry.
  if (illegal(c)) return no("a case that cannot be run");
  if (c.calls.empty() || c.calls.size() > kMostRepeats) return no("many calls");
  const double rows =
      static_cast<double>(p.batch) * static_cast<double>(p.heads_q) * static_cast<double>(p.seq_q);
  if (p.heads_kv == 0) return no("no head");
  if (p.dim_qk == 0 || p.dim_v == 0) return no("a dimension of 0");
  if (p.paging && page_count(p) > kMostPages) return no("many pages");
  if (gives_gradients(p.features) &&
      (rows * static_cast<double>(p.seq_k) > kMostPairs || p.batch * p.heads_kv > cuda::kMostGroups))
    return no("a backward pass of more than 2 million pairs, or of more than 65,535 KV heads");
  if (p.seq_k > kMostKeys || multiply_adds(p) > kMostWork) return no("large: it takes long by itself");
  if (const char* reason = lists_too_large(p)) return no(reason);
  Call call = {};
  call.problem = problem_of(c.problem);
  call.env = env_of(c.env);
  call.env.backend = backend;
  for (int t = 0; t < kTensors; ++t) {
    if (!is_present(c, kIds[t])) continue;
    const auto first = place(c, static_cast<Tensor>(t), &call.bytes, &call.tensor[t]);
    if (!first) return no("a tensor spread widely in several dimensions, or large");
    call.first[t] = *first;
    if (at_page_end(c, kIds[t])) call.at_page_end |= uint32_t{1} << t;
    if (call.tensor[t].blocks > 0) call.spread |= uint32_t{1} << t;
    if (in_pages(p, kIds[t])) call.paged |= uint32_t{1} << t;
    if (packing_of(p, kIds[t]))
      (of_queries(spec_of(kIds[t])) ? call.packed_q : call.packed_k) |= uint32_t{1} << t;
  }
  for (const attnfuzz::Call& one : c.calls)
    call.repeat[call.repeats++] = {one.dirty_workspace, static_cast<uint8_t>(one.stream != 0)};
  if (!write_recipe(c, &call.recipe)) return no("many key lengths, packed entries or planted values");
  call.readback_at = kNoReadback;
  call.complete = c.poison == Poison::kNan;
  if (call.bytes > kMostBytes) return no("more than 256 MiB");
  return call;
}

// The error model of a call. A backward pass also gets the numbers that its bounds share.
static ErrorModel model_of(const attn_plan& plan, const Calibration& calibration, Call* call) {
  const attn_problem& p = call->problem;
  const auto of_forward = has_lists(*call) ? selected_error_model : make_error_model;
  if (is_merge(*call)) return merge_error_model(p, plan, calibration);
  if (!is_backward(*call)) return of_forward(p, plan, calibration);
  ErrorModel model = gradients::error_model(p, plan, calibration);
  call->terms = gradients::make_terms(p, capped_plan(p, plan, calibration), model);
  call->saved = of_forward(forward_of(p), operations::exact_forward(plan), documented());
  if (p.bias_dtype != ATTN_NONE) call->dbias_overflow = format_of(p.bias_dtype).overflow;
  call->dsink_overflow = format_of(ATTN_F32).overflow;
  return model;
}

bool add_plan(const Case& c, const attn_plan& plan, const Calibration& calibration, Call* call,
              std::vector<Assumption>* assumptions, std::string* why) {
  const auto no = [&](const char* reason) {
    *why = reason;
    return false;
  };
  if (bad_plan(plan)) return no("a plan that makes no sense");
  const bool backward = is_backward(*call);
  if (backward && recomputes(capped_plan(call->problem, plan, calibration)))
    return no("a backward pass that computes O and the LSE anew");
  if (!backward && plan.qk_format != ATTN_FORMAT_UNKNOWN) return no("Q and K that are converted");
  const bool apart = plan.lse_sink != 0 || capped_plan(call->problem, plan, calibration).lse_sink != 0;
  if (call->problem.has_sink && apart) return no("an LSE that leaves the sink out");
  if (plan.workspace_bytes % 4 != 0 || plan.workspace_bytes > kMostBytes || plan.workspace_align > kAlign)
    return no("a workspace of more than 256 MiB, or of an odd size or alignment");
  call->plan = plan;
  // Places the workspace as LaidOut::give_workspace() does.
  Workspace& workspace = call->workspace;
  const uint64_t align = std::max<uint64_t>(plan.workspace_align, 1), redzone = kRedzoneBefore;
  if (at_page_end(c, TensorId::kWorkspace)) {
    call->at_page_end |= uint32_t{1} << kTensors;
    workspace.end = aligned(redzone + plan.workspace_bytes + align, kAlign);
    workspace.data = (workspace.end - plan.workspace_bytes) / align * align;
  } else {
    workspace.data = aligned(aligned(call->bytes, kAlign) + redzone, align);
    workspace.end = call->bytes = workspace.data + plan.workspace_bytes + redzone;
  }
  workspace.begin = workspace.data - redzone;
  workspace.end_of_data = workspace.data + plan.workspace_bytes;
  workspace.pattern = workspace_pattern(c);
  const ErrorModel model = model_of(plan, calibration, call);
  call->model = model;
  *assumptions = model.assumptions;
  call->overflow = output_overflow(model);
  return true;
}

}  // namespace attnfuzz::batch
