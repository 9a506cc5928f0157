// The backward pass computes dQ, dK and dV from a forward call's inputs, from dO, and from that call's O and
// LSE (ATTN_FEATURE_BACKWARD). Every drawn case is a forward call; here it becomes the backward pass of that
// call.
#include "properties/operations/operation.h"

#include <bit>

#include "properties/case/case.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/geometry.h"
#include "properties/case/places/layouts.h"
#include "properties/case/places/packed.h"
#include "properties/operations/backward/ask_for_gradients.h"
#include "properties/operations/shape_dice.h"
#include "reference/gradients/gradients.h"
#include "reference/model/calibration.h"
#include "reference/numbers/stored_bytes.h"

namespace attnfuzz::operations {
namespace {

using enum TensorId;

constexpr TensorId kInputsOfBackward[] = {kQ,    kK,      kV,        kBias, kMask, kKeyLengths, kSink,
                                          kDout, kSavedO, kSavedLse, kDlse, kCuQ,  kCuK};
constexpr Output kOutputsOfBackward[] = {
    {.tensor = kDq}, {.tensor = kDk}, {.tensor = kDv}, {.tensor = kDbias}, {.tensor = kDsink}};

uint64_t dice(const Case& drawn, uint64_t salt) { return number_of(drawn, salt); }

// dO is Gaussian in half of the cases, sometimes tiny or in blocks. In the others it is sparse, constant,
// uniform or by position, so that the place of an error shows its source.
Fill dout_of(const Case& c) {
  constexpr Fill kFills[] = {{.kind = FillKind::kGaussian},
                             {.kind = FillKind::kGaussian},
                             {.kind = FillKind::kGaussian},
                             {.kind = FillKind::kGaussian, .exponent = -6},
                             {.kind = FillKind::kGaussian, .exponent = 3},
                             {.kind = FillKind::kSmallInt},
                             {.kind = FillKind::kSmallInt},
                             {.kind = FillKind::kOneHot},
                             {.kind = FillKind::kConstant},
                             {.kind = FillKind::kUniform},
                             {.kind = FillKind::kBlocks},
                             {.kind = FillKind::kPosition}};
  Fill fill = kFills[dice(c, 1) % std::size(kFills)];
  const bool random = fill.kind != FillKind::kOneHot && fill.kind != FillKind::kConstant;
  if (random && fill.kind != FillKind::kPosition) fill.seed = dice(c, 2) % 65536;
  return fill;
}

// dO is stored once for several rows in some cases: the gradient of a sum is one number everywhere, and the
// gradient of a mean over queries is the same for all queries.
Repeated repeated_of(const Case& c) {
  const uint64_t n = dice(c, 3);
  switch (n % 16) {
    case 0:
      return {.batch = true, .head = true, .query = true, .column = true};
    case 1:
      return {.query = true};
    case 2:
      return {.batch = (n >> 8 & 1) != 0,
              .head = (n >> 9 & 1) != 0,
              .query = (n >> 10 & 1) != 0,
              .column = (n >> 11 & 1) != 0};
    default:
      return {};
  }
}

// dO gets the drawn layout of K, so that its strides are seldom those of O. The saved tensors get those of O
// and LSE.
void lay_out(const Case& drawn, Case& c) {
  constexpr std::pair<TensorId, TensorId> kFrom[] = {{kDout, kK}, {kSavedO, kO},   {kSavedLse, kLse},
                                                     {kDq, kV},   {kDk, kQ},       {kDv, kO},
                                                     {kDlse, kO}, {kDbias, kBias}, {kDsink, kSink}};
  for (const auto& [to, from] : kFrom) {
    if (!is_present(c, to)) continue;
    layout_of(c, to) = layout_of(drawn, from);
    drop_misfits(c, {to});
  }
}

// dLSE is Gaussian, small integers or constant, and sometimes much larger than D.
Fill dlse_of(const Case& c) {
  constexpr Fill kFills[] = {{.kind = FillKind::kGaussian},
                             {.kind = FillKind::kGaussian},
                             {.kind = FillKind::kGaussian, .exponent = 4},
                             {.kind = FillKind::kSmallInt},
                             {.kind = FillKind::kConstant}};
  Fill fill = kFills[dice(c, 5) % std::size(kFills)];
  if (fill.kind != FillKind::kConstant) fill.seed = dice(c, 6) % 65536;
  return fill;
}

// Adds further inputs and outputs that a kernel with these features has: dLSE, dbias, sinks and dsink. Their
// oracle evaluates all pairs, so large problems do not get all of them.
void add_more(const Case& drawn, uint64_t kernel_features, Case& c) {
  constexpr int64_t kMostPairs = int64_t{1} << 18;
  Problem& p = c.problem;
  if ((kernel_features & ATTN_FEATURE_DLSE) != 0 && dice(drawn, 7) % 3 == 0) {
    p.features |= ATTN_FEATURE_DLSE;
    c.dlse = dlse_of(drawn);
  }
  const double pairs = static_cast<double>(p.batch) * static_cast<double>(p.heads_q) *
                       static_cast<double>(p.seq_q) * static_cast<double>(p.seq_k);
  const bool small = pairs <= static_cast<double>(kMostPairs);
  if ((kernel_features & ATTN_FEATURE_DBIAS) != 0 && p.bias && small && dice(drawn, 8) % 4 != 0)
    p.features |= ATTN_FEATURE_DBIAS;
  // Few drawn cases have sinks and packed queries both.
  if (!p.sink && p.packed_q && dice(drawn, 10) % 3 == 0)
    p.sink = Sink{.kind = SinkKind::kGaussian, .seed = dice(drawn, 11) % 65536};
  if (p.sink && (kernel_features & ATTN_FEATURE_DSINK) != 0 && small)
    p.features |= ATTN_FEATURE_DSINK;
  else
    p.sink.reset();
}

// Moves some of the values planted in Q to dO or dLSE.
void plant_elsewhere(const Case& drawn, Case& c) {
  for (Planted& x : c.planted) {
    if (x.tensor != kQ || dice(drawn, 4) % 2 == 0) continue;
    x.tensor = kDout;
    x.d %= c.problem.dim_v;
    if (!is_present(c, kDlse) || dice(drawn, 9) % 3 != 0) continue;
    x.tensor = kDlse;
    x.d = 0;
    x.bits = std::bit_cast<uint32_t>(static_cast<float>(decode(c.problem.dtype, &x.bits, 0)));
  }
}

void shape(Case& c, uint64_t kernel_features) {
  if ((c.problem.features & ATTN_FEATURE_BACKWARD) == 0)
    ask_for_gradients(c, ATTN_FEATURE_BACKWARD, kernel_features);
}

}  // namespace

Reference evaluate_backward(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                            const Calibration& calibration, RowSample sample, bool) {
  return evaluate_gradients(problem, host, plan, calibration, sample);
}

attn_plan exact_forward(const attn_plan& plan) {
  attn_plan exact = {};
  exact.size = sizeof exact;
  exact.tile_q = exact.tile_k = 64;
  exact.num_splits = 1;
  exact.scale_mode = ATTN_SCALE_SEPARATE;
  exact.p_format = ATTN_FORMAT_F32;
  exact.isolates_masked_nan = 1;
  exact.lse_base = plan.lse_base;
  exact.lse_dead = plan.lse_dead;
  exact.lse_sink = plan.lse_sink;
  return exact;
}

std::vector<std::byte> saved_bytes(const Expected& exact, int32_t dtype) {
  std::vector<float> values(exact.value.size());
  for (size_t n = 0; n < values.size(); ++n) {
    const auto due = static_cast<Due>(exact.rule[n]);
    values[n] = due == Due::kNumber      ? static_cast<float>(exact.value[n])
                : due == Due::kMustBeNaN ? std::numeric_limits<float>::quiet_NaN()
                                         : 0.0f;
  }
  return stored_bytes(dtype, values);
}

void save_forward(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                  const std::function<void(TensorId, std::vector<std::byte>)>& derive) {
  const Reference due = evaluate_forward_of(problem, host, exact_forward(plan), documented());
  derive(kSavedO, saved_bytes(due[kO], problem.dtype));
  derive(kSavedLse, saved_bytes(due[kLse], ATTN_F32));
}

void ask_for_gradients(Case& c, uint64_t operation, uint64_t kernel_features) {
  const Case drawn = c;
  c.problem.features |= operation;
  c.problem.num_splits = 0;
  c.problem.slopes.reset();
  c.problem.latent = false;
  if ((kernel_features & ATTN_FEATURE_RAGGED) == 0) unpack(c);
  if ((kernel_features & ATTN_FEATURE_INDEX32) == 0) c.problem.index_dtype = ATTN_INDEX_64;
  c.want_lse = true;
  c.dout = dout_of(drawn);
  c.dout_repeated = repeated_of(drawn);
  add_more(drawn, kernel_features, c);
  tidy(c);  // before anything is laid out: dO of packed queries is not repeated over them
  lay_out(drawn, c);
  plant_elsewhere(drawn, c);
  tidy(c);
}

extern const Operation backward = {.name = "backward",
                                   .feature = ATTN_FEATURE_BACKWARD,
                                   .inputs = kInputsOfBackward,
                                   .outputs = kOutputsOfBackward,
                                   .evaluate = evaluate_backward,
                                   .known = kGradientsKnow,
                                   .prepare = save_forward,
                                   .shape = shape};

}  // namespace attnfuzz::operations
