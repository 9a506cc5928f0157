// Adds up three results of attention, weighted by gates (ATTN_FEATURE_NSA_COMBINE): the last stage of native
// sparse attention.
//
//   O = g_0 O_0 + g_1 O_1 + g_2 O_2
//
// A warp computes a row; its lanes take the columns. If a side's gate is 0, the side is not read, so that a NaN
// in it does not reach the result.
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

constexpr int kWarps = 4, kSides = 3;

struct CombineParams {
  Strided o, gates, side[kSides];
  int64_t heads, seq_q, rows;
  int32_t dim_v;
};

template <class T>
__global__ void combine_kernel(const __grid_constant__ CombineParams p) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + warp_id();
  if (row >= p.rows) return;  // the whole warp returns
  const int64_t i = row % p.seq_q, h = row / p.seq_q % p.heads, b = row / p.seq_q / p.heads;

  float gate[kSides];
  for (int s = 0; s < kSides; ++s) gate[s] = load_float(p.gates.at<T>(b, h, i) + s * p.gates.stride[3]);
  for (int column = lane_id(); column < p.dim_v; column += 32) {
    float sum = 0;
    for (int s = 0; s < kSides; ++s) {
      if (gate[s] == 0) continue;
      const Strided& side = p.side[s];
      sum = fma(gate[s], load_float(side.at<T>(b, h, i) + column * side.stride[3]), sum);
    }
    store_float(p.o.at<T>(b, h, i) + column * p.o.stride[3], sum);
  }
}

// Batch entries times heads times queries; negative if they do not fit a grid.
int64_t rows_of(const attn_problem& p) {
  return product_within(p.batch, p.heads_q, p.seq_q, kMaxBlocks * kWarps);
}

struct Combine {
  static constexpr const char* kName = "nsa_combine";
  static constexpr const char* kDescription = "native sparse attention: adds up three results by gates";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr const attn_build* kBuild = &attn_build_identity;
  static constexpr const attn_domain* kDomain = &kAllFormats;
  static constexpr uint64_t kFeatures =
      ATTN_FEATURE_NSA_COMBINE | ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_F32 | ATTN_FEATURE_WIDE;

  static Refusal plan(const Call& call, attn_plan* plan) {
    if (rows_of(call.problem) < 0)
      return {ATTN_UNSUPPORTED, "more than 2^31 - 1 blocks: batch * heads_q * seq_q is too large"};
    *plan = plain_plan("a warp a row", kWarps, 0);
    plan->merge_format = ATTN_FORMAT_F32;
    plan->isolates_masked_nan = 1;
    return {};
  }

  static attn_status run(const Call& call, const attn_plan&) {
    const attn_problem& p = call.problem;
    const attn_tensors t = strided(p, call.tensors);
    const int64_t rows = rows_of(p);
    if (rows == 0) return ATTN_OK;
    const CombineParams params = {t.o,     t.gates, {t.o1, t.o2, t.o3}, p.heads_q,
                                  p.seq_q, rows,    static_cast<int32_t>(p.dim_v)};
    const auto kernel = p.dtype == ATTN_F32   ? combine_kernel<float>
                        : p.dtype == ATTN_F16 ? combine_kernel<F16>
                                              : combine_kernel<BF16>;
    return launch(kernel, dim3(static_cast<unsigned>(ceil_div(rows, kWarps))), dim3(kWarps * 32), 0, &call.env,
                  params);
  }
};

const attn_kernel kCombine = plug_in<Combine>();

}  // namespace
}  // namespace attn

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::kCombine : nullptr; }
