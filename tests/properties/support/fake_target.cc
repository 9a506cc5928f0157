#include "tests/properties/support/fake_target.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "reference/numbers/formats.h"
#include "tests/properties/support/fake_attention.h"

namespace attnfuzz {
namespace {

constexpr std::pair<Flaw, const char*> kNames[] = {
    {Flaw::kNone, "none"},
    {Flaw::kTextbook, "textbook"},
    {Flaw::kTextbookOpen, "textbook_open"},
    {Flaw::kDropsLastKey, "drops_last_key"},
    {Flaw::kWholeTileLost, "whole_tile_lost"},
    {Flaw::kHeadMap, "head_map"},
    {Flaw::kBatchScale, "batch_scale"},
    {Flaw::kSoftcapIgnored, "softcap_ignored"},
    {Flaw::kWindowExclusive, "window_exclusive"},
    {Flaw::kWindowOverflow, "window_overflow"},
    {Flaw::kAlignIgnored, "align_ignored"},
    {Flaw::kLengthIgnored, "length_ignored"},
    {Flaw::kMaskBroadcast, "mask_broadcast"},
    {Flaw::kBiasClipped, "bias_clipped"},
    {Flaw::kStrideOfV, "stride_of_v"},
    {Flaw::kLseBase, "lse_base"},
    {Flaw::kNanOnDeadRow, "nan_on_dead_row"},
    {Flaw::kDeadRowDisturbs, "dead_row_disturbs"},
    {Flaw::kConstantAdded, "constant_added"},
    {Flaw::kVClipped, "v_clipped"},
    {Flaw::kNoMaximum, "no_maximum"},
    {Flaw::kScoresClipped, "scores_clipped"},
    {Flaw::kScaleRounded, "scale_rounded"},
    {Flaw::kFlushesP, "flushes_p"},
    {Flaw::kFirstKeyTwice, "first_key_twice"},
    {Flaw::kReductionCountsTwice, "reduction_counts_twice"},
    {Flaw::kReductionTrustsFirst, "reduction_trusts_first"},
    {Flaw::kSplitsWeighed, "splits_weighed"},
    {Flaw::kPartialLseWrong, "partial_lse_wrong"},
    {Flaw::kBatchRounds, "batch_rounds"},
    {Flaw::kHeadRounds, "head_rounds"},
    {Flaw::kHiddenKeyRounds, "hidden_key_rounds"},
    {Flaw::kLayoutRounds, "layout_rounds"},
    {Flaw::kScaleRounds, "scale_rounds"},
    {Flaw::kHeadsAligned, "heads_aligned"},
    {Flaw::kWorkspaceTrusted, "workspace_trusted"},
    {Flaw::kKeepsPartials, "keeps_partials"},
    {Flaw::kCountsCalls, "counts_calls"},
    {Flaw::kStreamMatters, "stream_matters"},
    {Flaw::kWritesPast, "writes_past"},
    {Flaw::kSkipsLastRow, "skips_last_row"},
    {Flaw::kSkipsLse, "skips_lse"},
    {Flaw::kWritesInput, "writes_input"},
    {Flaw::kReadsBeyondLength, "reads_beyond_length"},
    {Flaw::kNanLeaksBatch, "nan_leaks_batch"},
    {Flaw::kNanSwallowed, "nan_swallowed"},
    {Flaw::kRefusesSilently, "refuses_silently"},
    {Flaw::kRefusesLate, "refuses_late"},
    {Flaw::kAcceptsDims, "accepts_dims"},
    {Flaw::kAcceptsNanScale, "accepts_nan_scale"},
    {Flaw::kPlanNonsense, "plan_nonsense"},
    {Flaw::kPlansIn32Bits, "plans_in_32_bits"},
    {Flaw::kLeavesForNoKeys, "leaves_for_no_keys"},
    {Flaw::kIgnoresVariant, "ignores_variant"},
    {Flaw::kCrashes, "crashes"},
    {Flaw::kHangs, "hangs"},
    {Flaw::kFaults, "faults"},
};

// The reason why a problem is invalid, or nullptr.
const char* nonsense(Flaw flaw, bool fp32, const attn_problem& p, const attn_tensors& t, const attn_env& env) {
  if (p.size < ATTN_PROBLEM_MIN) return "problem.size is smaller than this kernel's contract";
  if (t.size < ATTN_TENSORS_MIN) return "tensors.size is smaller than this kernel's contract";
  if (env.size < ATTN_ENV_MIN) return "env.size is smaller than this kernel's contract";
  if (p.dtype != ATTN_F16 && p.dtype != ATTN_BF16 && !(fp32 && p.dtype == ATTN_F32))
    return "dtype must be fp16 or bf16";
  if (p.dim_qk < 1 || p.dim_v < 1) return "head dimensions must be positive";
  if ((p.dim_qk > 256 || p.dim_v > 256) && flaw != Flaw::kAcceptsDims) return "head dimensions above 256";
  if (p.batch < 0 || p.seq_q < 0 || p.seq_k < 0) return "a negative size";
  if (p.heads_kv < 1 || p.heads_q < 1 || p.heads_q % p.heads_kv != 0) return "heads_kv must divide heads_q";
  __int128 product = 1;
  for (const int64_t n : {p.batch, p.heads_q, std::max(p.seq_q, p.seq_k), std::max(p.dim_qk, p.dim_v)}) {
    product *= n;
    if (product > (int64_t{1} << 60)) return "sizes beyond 64-bit offsets";
  }
  if (p.num_splits < 0) return "num_splits is negative";
  if (!std::isfinite(p.scale) && flaw != Flaw::kAcceptsNanScale) return "scale must be finite";
  if (!std::isfinite(p.softcap) || p.softcap < 0) return "softcap must be 0, or positive and finite";
  if (p.align != ATTN_TOP_LEFT && p.align != ATTN_BOTTOM_RIGHT) return "align is unknown";
  if (p.bias_dtype < ATTN_NONE || p.bias_dtype > ATTN_F32) return "bias_dtype is unknown";
  if (env.variant < 0 || env.sm_count < 1) return "env.variant or env.sm_count makes no sense";
  if (flaw == Flaw::kLeavesForNoKeys && p.seq_k == 0) return nullptr;
  if (p.batch * p.heads_q * p.seq_q > 0) {
    if (!t.q.data || !t.o.data) return "q or o has no data";
    if (p.seq_k > 0 && (!t.k.data || !t.v.data)) return "k or v has no data";
    if (p.seq_k > 0 && p.bias_dtype != ATTN_NONE && !t.bias.data) return "the bias has no data";
    if (p.seq_k > 0 && p.has_mask && !t.mask.data) return "the mask has no data";
    if (p.has_key_lengths && !t.key_lengths) return "key_lengths has no data";
  }
  return nullptr;
}

uint16_t* last_of(const attn_tensor& t, int64_t b, int64_t h, int64_t s, int64_t d) {
  return static_cast<uint16_t*>(t.data) + (b - 1) * t.stride[0] + (h - 1) * t.stride[1] +
         (s - 1) * t.stride[2] + (d - 1) * t.stride[3];
}

}  // namespace

bool fake_o_is_aligned(const attn_problem& p, const attn_tensors& t) {
  const bool rows = p.dim_v % 8 == 0 && t.o.stride[3] == 1 && (p.seq_q == 1 || t.o.stride[2] % 8 == 0) &&
                    reinterpret_cast<uintptr_t>(t.o.data) % 16 == 0;
  return !rows || ((p.heads_q == 1 || t.o.stride[1] % 8 == 0) && (p.batch == 1 || t.o.stride[0] % 8 == 0));
}

const char* to_string(Flaw flaw) {
  for (const auto& [known, name] : kNames) {
    if (known == flaw) return name;
  }
  return "?";
}

FakeTarget::FakeTarget(Flaw flaw, bool stages) : flaw_(flaw) {
  info_.name = std::string("fake-") + to_string(flaw);
  info_.description = "plain host attention";
  info_.variants = {"16x16"};
  if (flaw == Flaw::kIgnoresVariant) info_.variants.emplace_back("32x32");
  info_.has_stages = stages;
}

PlanReply FakeTarget::plan(const attn_problem& p, const attn_tensors& t, const attn_env& env) {
  PlanReply reply;
  if (flaw_ == Flaw::kRefusesSilently && p.dim_qk > 64) {
    reply.status = ATTN_UNSUPPORTED;
    return reply;
  }
  if ((p.features & kOperations & ~info_.features) != 0) {
    reply.status = ATTN_UNSUPPORTED;
    reply.reason = "it has the forward pass alone";
    return reply;
  }
  if (const char* why = nonsense(flaw_, (info_.features & ATTN_FEATURE_F32) != 0, p, t, env)) {
    reply.status = ATTN_INVALID;
    reply.reason = why;
    return reply;
  }
  attn_plan& plan = reply.plan;
  plan.size = sizeof plan;
  plan.accumulator = ATTN_ACC_FFMA;
  std::strcpy(plan.path, "host 16x16");
  plan.tile_q = kTileQ;
  plan.tile_k = flaw_ == Flaw::kPlanNonsense ? 0 : kTileK;
  const int64_t tiles = std::max<int64_t>(1, (p.seq_k + kTileK - 1) / kTileK);
  plan.num_splits = p.num_splits > 0 ? std::min<int64_t>(p.num_splits, 64) : tiles > 4 ? 2 : 1;
  plan.split_tiles = (tiles + plan.num_splits - 1) / plan.num_splits;
  plan.rescales = plan.split_tiles;
  plan.merges = plan.num_splits;
  plan.exp_class = ATTN_EXP_EXPF;
  plan.log_class = ATTN_LOG_LOGF;
  plan.rcp_class = ATTN_RCP_EXACT;
  plan.tanh_class = ATTN_TANH_TANHF;
  plan.scale_mode = ATTN_SCALE_SEPARATE;
  plan.p_format = ATTN_FORMAT_F32;
  plan.partial_format = ATTN_FORMAT_F32;
  if (fake_rounds_p(flaw_)) {
    plan.p_format = ATTN_FORMAT_OF_INPUT;
    plan.p_order = flaw_ == Flaw::kTextbookOpen ? ATTN_P_ANY : ATTN_P_NORMALISED;
  }
  plan.isolates_masked_nan = flaw_ != Flaw::kHiddenTimesZero;
  plan.deterministic = 1;
  // The partials, and one word that outlives a call.
  plan.workspace_bytes = fake_lse_offset(p, plan.num_splits) +
                         4ull * static_cast<uint64_t>(plan.num_splits * p.batch * p.heads_q * p.seq_q) + 4;
  if (flaw_ == Flaw::kPlansIn32Bits) plan.workspace_bytes &= 0xffffffff;
  plan.workspace_align = 64;
  return reply;
}

RunReply FakeTarget::run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
                         const attn_env&, int stream) {
  RunReply reply;
  if (flaw_ == Flaw::kRefusesLate && p.dim_qk > 64) reply.status = ATTN_UNSUPPORTED;
  if (p.seq_k % kTileK == 1) {
    if (flaw_ == Flaw::kCrashes) reply.crash = "SIGSEGV";
    if (flaw_ == Flaw::kHangs) reply.timed_out = true;
    if (flaw_ == Flaw::kFaults) {
      reply.fault = Fault{
          .kind = ATTN_REPORT_SHARED, .block = {}, .thread = {}, .message = "red zone", .file = "", .line = 0};
    }
  }
  if (flaw_ == Flaw::kHeadsAligned && !fake_o_is_aligned(p, t)) {
    reply.fault = Fault{
        .kind = ATTN_REPORT_ALIGNMENT, .block = {}, .thread = {}, .message = "16 bytes", .file = "", .line = 0};
  }
  if (reply.status != ATTN_OK || reply.crash || reply.timed_out || reply.fault) return reply;

  const int64_t rows = p.batch * p.heads_q * p.seq_q;
  uint32_t word;
  char* const memory = static_cast<char*>(t.workspace) + (plan.workspace_bytes - 4);
  std::memcpy(&word, memory, 4);
  constexpr uint32_t kUsed = 0x1234;
  const bool used = word == kUsed;
  const bool kept = flaw_ == Flaw::kKeepsPartials && used;
  if (stage != Stage::kReduce && !kept) fake_partial(flaw_, p, t, plan);
  if (stage != Stage::kPartial) fake_reduce(flaw_, p, t, plan);
  if (rows == 0 || stage == Stage::kPartial) return reply;

  uint16_t* const last = last_of(t.o, p.batch, p.heads_q, p.seq_q, p.dim_v);
  std::memcpy(memory, &kUsed, 4);
  // Changes the last bit of a result, but not of an exact 0 or a NaN.
  const bool plain = (*last & 0x7fff) != 0 && (*last & 0x7c00) != 0x7c00;
  if (plain && flaw_ == Flaw::kWorkspaceTrusted && used) *last ^= 1;
  if (plain && flaw_ == Flaw::kStreamMatters && stream == 1) *last ^= 1;
  if (plain && flaw_ == Flaw::kCountsCalls && calls_++ % 2 == 1) *last ^= 1;
  if (flaw_ == Flaw::kWritesPast) last[1] = 0;
  if (flaw_ == Flaw::kWritesInput) *last_of(t.q, 1, 1, 1, 1) ^= 1;
  return reply;
}

std::optional<attn_partials> FakeTarget::partials(const attn_problem& p, const attn_plan& plan, std::string*) {
  if (!info_.has_stages) return std::nullopt;
  const int64_t rows = p.batch * p.heads_q * p.seq_q;
  attn_partials where = {};
  where.size = sizeof where;
  where.num_splits = plan.num_splits;
  where.lse_offset = fake_lse_offset(p, plan.num_splits);
  const int64_t stride[4] = {rows, p.heads_q * p.seq_q, p.seq_q, 1};
  for (int n = 0; n < 4; ++n) {
    where.lse_stride[n] = stride[n];
    where.o_stride[n] = stride[n] * p.dim_v;
  }
  return where;
}

}  // namespace attnfuzz
