#include "fuzz/host/answer_checks.h"

#include <bit>
#include <cstring>

#include "properties/memory/arena.h"

namespace attnfuzz {
namespace {

struct Range {
  const char* field;
  int64_t value, low, high;
};

template <size_t N>
std::optional<std::string> outside(const Range (&ranges)[N]) {
  for (const Range& r : ranges) {
    if (r.value >= r.low && r.value <= r.high) continue;
    return std::string(r.field) + " is " + std::to_string(r.value) + ", must be " + std::to_string(r.low) +
           ".." + std::to_string(r.high);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> nonsense(const attn_plan& p) {
  constexpr int64_t kCount = int64_t{1} << 31;
  constexpr int64_t kBytes = static_cast<int64_t>(Arena::kSlotBytes - 4 * Arena::kPage);
  if (p.size < ATTN_PLAN_MIN) {
    return "plan.size is " + std::to_string(p.size) + ", must be at least " + std::to_string(ATTN_PLAN_MIN);
  }
  if (!std::memchr(p.path, 0, sizeof p.path)) return "plan.path does not end";
  const Range ranges[] = {
      {"plan.tile_q", p.tile_q, 1, kCount},
      {"plan.tile_k", p.tile_k, 1, kCount},
      {"plan.num_splits", p.num_splits, 1, kCount},
      {"plan.split_tiles", p.split_tiles, 0, kCount},
      {"plan.rescales", p.rescales, 0, kCount},
      {"plan.merges", p.merges, 0, kCount},
      {"plan.mma_block", p.mma_block, 0, 1 << 16},
      {"plan.accumulator", p.accumulator, ATTN_ACC_UNKNOWN, ATTN_ACC_TENSOR},
      {"plan.exp_class", p.exp_class, ATTN_EXP_UNKNOWN, ATTN_EXP_FAST_EXPF},
      {"plan.log_class", p.log_class, ATTN_LOG_UNKNOWN, ATTN_LOG_FAST_LOGF},
      {"plan.rcp_class", p.rcp_class, ATTN_RCP_UNKNOWN, ATTN_RCP_EXACT},
      {"plan.tanh_class", p.tanh_class, ATTN_TANH_UNKNOWN, ATTN_TANH_TANHF},
      {"plan.scale_mode", p.scale_mode, ATTN_SCALE_UNKNOWN, ATTN_SCALE_FOLDED_Q},
      {"plan.p_format", p.p_format, ATTN_FORMAT_UNKNOWN, ATTN_FORMAT_OF_INPUT},
      {"plan.partial_format", p.partial_format, ATTN_FORMAT_UNKNOWN, ATTN_FORMAT_OF_INPUT},
      {"plan.flush_to_zero", p.flush_to_zero, 0, 1},
      {"plan.isolates_masked_nan", p.isolates_masked_nan, 0, 1},
      {"plan.deterministic", p.deterministic, 0, 1},
  };
  if (auto why = outside(ranges)) return why;
  if (p.workspace_bytes > static_cast<uint64_t>(kBytes)) {
    return "plan.workspace_bytes is " + std::to_string(p.workspace_bytes) + ", there is room for " +
           std::to_string(kBytes);
  }
  if (!std::has_single_bit(p.workspace_align) || p.workspace_align > (1u << 21)) {
    return "plan.workspace_align is " + std::to_string(p.workspace_align) +
           ", must be a power of two of at most 2097152";
  }
  return std::nullopt;
}

std::optional<std::string> nonsense(const attn_partials& p, const attn_problem& problem,
                                    const attn_plan& plan) {
  if (p.size < ATTN_PARTIALS_MIN) {
    return "partials.size is " + std::to_string(p.size) + ", must be at least " +
           std::to_string(ATTN_PARTIALS_MIN);
  }
  const Range ranges[] = {{"partials.num_splits", p.num_splits, 1, plan.num_splits}};
  if (auto why = outside(ranges)) return why;
  const int64_t extents[4] = {p.num_splits, problem.batch, problem.heads_q, problem.seq_q};
  struct Array {
    const char* name;
    uint64_t offset;
    const int64_t* stride;
    int64_t inner;
  };
  for (const Array& a :
       {Array{"o", p.o_offset, p.o_stride, problem.dim_v}, Array{"lse", p.lse_offset, p.lse_stride, 1}}) {
    const std::string name = std::string("partials.") + a.name;
    if (a.offset % 4 != 0) return name + "_offset is " + std::to_string(a.offset) + ": not aligned to a float";
    __int128 elements = a.inner;
    bool empty = false;
    for (int i = 0; i < 4; ++i) {
      if (a.stride[i] < 0) return name + "_stride is negative";
      empty |= extents[i] == 0;
      elements += static_cast<__int128>(extents[i] - 1) * a.stride[i];
    }
    if (!empty && elements * 4 + a.offset > static_cast<__int128>(plan.workspace_bytes)) {
      return name + " does not lie in the planned workspace of " + std::to_string(plan.workspace_bytes) +
             " bytes";
    }
  }
  return std::nullopt;
}

}  // namespace attnfuzz
