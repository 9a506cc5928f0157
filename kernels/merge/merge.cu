// Merges the results of two calls of attention over disjoint keys (ATTN_FEATURE_MERGE).
//
//   m  = max(LSE1, LSE2),  w_s = exp(LSE_s - m)
//   O  = (w_1 O_1 + w_2 O_2) / (w_1 + w_2),  LSE = m + ln(w_1 + w_2)
//
// A warp computes a row; its lanes take the columns. If a side's LSE is -inf, its O is not read: it saw no key.
// O and LSE may lie where the first side is (ATTN_FEATURE_IN_PLACE): a lane reads both sides of a column before it
// writes there, and all lanes read the LSEs before one writes the result's.
#include <array>

#include "kernels/forward/all_formats.h"
#include "kernels/forward/params.h"
#include "kernels/identity.h"
#include "kernels/plug_in.h"
#include "kernels/primitives/element.h"
#include "kernels/primitives/launch.h"
#include "kernels/primitives/math.h"
#include "kernels/primitives/warp.h"

namespace attn {
namespace {

constexpr int kWarps = 4;

struct MergeParams {
  Strided o, lse, o_of[2], lse_of[2];
  int64_t heads, seq_q, rows;
  int32_t dim_v;
};

template <class T>
__global__ void merge_kernel(const __grid_constant__ MergeParams p) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + warp_id();
  if (row >= p.rows) return;  // the whole warp returns
  const int64_t i = row % p.seq_q, h = row / p.seq_q % p.heads, b = row / p.seq_q / p.heads;

  float lse[2], weight[2];
  for (int side = 0; side < 2; ++side) lse[side] = *p.lse_of[side].at<float>(b, h, i);
  const float largest = fmax(lse[0], lse[1]);
  const bool dead = largest == neg_inf();
  for (int side = 0; side < 2; ++side)
    weight[side] = lse[side] == neg_inf() ? 0.0f : ex2((lse[side] - largest) * kLog2e);
  const float total = weight[0] + weight[1];
  const float inverse = dead ? 0.0f : rcp(total);

  syncwarp();
  if (lane_id() == 0 && p.lse.data != nullptr)
    *p.lse.at<float>(b, h, i) = dead ? neg_inf() : fma(lg2(total), kLn2, largest);
  for (int column = lane_id(); column < p.dim_v; column += 32) {
    float sum = 0;
    for (int side = 0; side < 2; ++side) {
      if (lse[side] == neg_inf()) continue;
      const Strided& o = p.o_of[side];
      sum = fma(weight[side], load_float(o.at<T>(b, h, i) + column * o.stride[3]), sum);
    }
    store_float(p.o.at<T>(b, h, i) + column * p.o.stride[3], sum * inverse);
  }
}

// Batch entries times heads times queries; negative if they do not fit a grid.
int64_t rows_of(const attn_problem& p) {
  return product_within(p.batch, p.heads_q, p.seq_q, kMaxBlocks * kWarps);
}

struct Merge {
  static constexpr const char* kName = "merge";
  static constexpr const char* kDescription = "merges two results of attention over disjoint keys by their LSE";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr const attn_build* kBuild = &attn_build_identity;
  static constexpr const attn_domain* kDomain = &kAllFormats;
  static constexpr uint64_t kFeatures =
      ATTN_FEATURE_MERGE | ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_F32 | ATTN_FEATURE_IN_PLACE;

  static Refusal plan(const Call& call, attn_plan* plan) {
    if (rows_of(call.problem) < 0)
      return {ATTN_UNSUPPORTED, "more than 2^31 - 1 blocks: batch * heads_q * seq_q is too large"};
    *plan = plain_plan("a warp a row", kWarps, 0);
    plan->exp_class = ATTN_EXP_EX2_APPROX;
    plan->log_class = ATTN_LOG_LG2_APPROX;
    plan->rcp_class = ATTN_RCP_APPROX;
    plan->merge_rule = ATTN_MERGE_BY_WEIGHT;
    plan->merge_order = ATTN_MERGE_ASCENDING;
    plan->lse_rule = ATTN_LSE_BY_FMA;
    plan->flush_to_zero = 1;
    plan->isolates_masked_nan = 1;
    return {};
  }

  static attn_status run(const Call& call, const attn_plan&) {
    const attn_problem& p = call.problem;
    const attn_tensors t = strided(p, call.tensors);
    const int64_t rows = rows_of(p);
    if (rows == 0) return ATTN_OK;
    const MergeParams params = {t.o,       t.lse,   {t.o1, t.o2}, {t.lse1, t.lse2},
                                p.heads_q, p.seq_q, rows,         static_cast<int32_t>(p.dim_v)};
    const auto kernel = p.dtype == ATTN_F32   ? merge_kernel<float>
                        : p.dtype == ATTN_F16 ? merge_kernel<F16>
                                              : merge_kernel<BF16>;
    return launch(kernel, dim3(static_cast<unsigned>(ceil_div(rows, kWarps))), dim3(kWarps * 32), 0, &call.env,
                  params);
  }
};

const attn_kernel kMerge = plug_in<Merge>();

}  // namespace
}  // namespace attn

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::kMerge : nullptr; }
