#include "fuzz/host/answer_checks.h"

namespace attnfuzz {

std::optional<std::string> nonsense(const attn_partials& p, const attn_problem& problem,
                                    const attn_plan& plan) {
  if (p.size < ATTN_PARTIALS_MIN) {
    return "partials.size is " + std::to_string(p.size) + ", must be at least " +
           std::to_string(ATTN_PARTIALS_MIN);
  }
  if (p.num_splits < 1 || p.num_splits > plan.num_splits) {
    return "partials.num_splits is " + std::to_string(p.num_splits) + ", must be 1.." +
           std::to_string(plan.num_splits);
  }
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
