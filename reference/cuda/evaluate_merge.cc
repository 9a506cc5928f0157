// A merge on the device.
#include "reference/cuda/evaluate.h"
#include "reference/cuda/pack.h"
#include "reference/cuda/row_results.h"
#include "reference/merge.h"

namespace attnfuzz::cuda {
namespace {

void run(Session& session, PackedMerge& packed, const RowResults& results) {
  MergeInput& in = packed.input;
  std::byte* inputs = session.inputs.of(packed.bytes);
  for (int side = 0; side < 2; ++side) relocate(in.o[side], inputs), relocate(in.lse[side], inputs);
  const RowsOutput out = output_at(session, results);
  const attn_env own = session.env();
  session.between_copies(inputs, packed.block, packed.bytes, start_of(out), results.bytes,
                         [&] { return launch_merge(in, out, &own); });
}

}  // namespace

std::optional<Reference> merge_on_device(Session& session, const Asked& asked, std::string* why) {
  const auto& [problem, host, plan, calibration, sample] = asked;
  *why = unknown_features({"the oracle of merges on a GPU", kMergeKnows.bits}, problem.features);
  if (!why->empty()) return std::nullopt;
  const ErrorModel model = merge_error_model(problem, plan, calibration);
  const std::vector<int64_t> rows = sampled_rows(problem, host, plan.tile_q, sample);
  const RowResults results(rows.size(), static_cast<size_t>(problem.dim_v), false);
  if (results.bytes > kMostResults) {
    *why = "more than 512 MiB of results";
    return std::nullopt;
  }
  attn_problem forward = problem;
  forward.features &= ~(ATTN_FEATURE_MERGE | ATTN_FEATURE_IN_PLACE);
  PackedMerge packed;
  const auto room = [&](size_t bytes) { return session.sent.of(bytes); };
  if (!pack_merge(problem, host, rows, session.least_work, room, &packed, why)) return std::nullopt;
  packed.input.model = model;
  run(session, packed, results);
  return taken(session, forward, {}, model, rows, {}, results);
}

}  // namespace attnfuzz::cuda
