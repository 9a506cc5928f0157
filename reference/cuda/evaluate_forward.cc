// A forward pass on the device, over all keys or over listed blocks.
#include "reference/cuda/evaluate.h"
#include "reference/cuda/pack.h"
#include "reference/cuda/pack_forward.h"
#include "reference/cuda/row_results.h"
#include "reference/model/error_cap.h"
#include "reference/rows/visibility.h"
#include "reference/selected.h"

namespace attnfuzz::cuda {
namespace {

void run(Session& session, Packed& packed, const RowResults& results) {
  RowsInput& in = packed.input;
  std::byte* inputs = session.inputs.of(packed.bytes);
  relocate_rows(in, packed.has_mask, inputs);
  const RowsOutput out = output_at(session, results);
  RowsScratch scratch = divide_rows(in, session.blocks, session.shared_limit);
  const size_t of_blocks = scratch.bytes_a_block * static_cast<size_t>(scratch.blocks);
  const size_t slots = static_cast<size_t>(in.groups) * static_cast<size_t>(in.keys);
  scratch.memory = session.scratch.of(of_blocks + slots * (sizeof(double) + 1));
  scratch.key_norm = at<double>(scratch.memory, of_blocks);
  scratch.key_facts = at<uint8_t>(scratch.memory, of_blocks + slots * sizeof(double));
  const attn_env own = session.env();
  session.between_copies(inputs, packed.block, packed.bytes, start_of(out), results.bytes,
                         [&] { return launch_rows(in, out, scratch, &own); });
}

attn_problem without_lists(attn_problem problem) {
  problem.features &= ~ATTN_FEATURE_SELECTED;
  return problem;
}

}  // namespace

std::optional<Reference> forward_on_device(Session& session, const Asked& asked, std::string* why) {
  const auto& [problem, host, plan, calibration, sample] = asked;
  const bool lists = (problem.features & ATTN_FEATURE_SELECTED) != 0;
  const KnownFeatures known = lists ? KnownFeatures{"the oracle of listed blocks on a GPU", kSelectedKnows.bits}
                                    : KnownFeatures{"the oracle on a GPU", kForward | ATTN_FEATURE_KEY_STEP};
  *why = unknown_features(known, problem.features);
  if (!why->empty()) return std::nullopt;
  if (problem.has_sink && capped_plan(problem, plan, calibration).lse_sink) {
    *why = "an LSE that leaves the sink out";
    return std::nullopt;
  }
  const ErrorModel model = (lists ? selected_error_model : make_error_model)(problem, plan, calibration);
  if (model.factor_unit > 0) {
    *why = "Q and K that are converted";
    return std::nullopt;
  }
  std::vector<int64_t> rows = sampled_rows(problem, host, plan.tile_q, sample);
  // Absent rows are left to the host. They have no keys, whatever their lists name.
  const std::vector<int64_t> absent = take_absent(problem, host, &rows);
  if (rows.empty()) return evaluate_keys(without_lists(problem), host, model, absent, 0, 0);
  const RowResults results(rows.size(), static_cast<size_t>(problem.dim_v), model.p_predicted != ATTN_NONE);
  if (results.bytes > kMostResults) {
    *why = "more than 512 MiB of results";
    return std::nullopt;
  }
  Packed packed;
  const auto room = [&](size_t bytes) { return session.sent.of(bytes); };
  if (!pack(problem, host, rows, session.least_work, room, &packed, why)) return std::nullopt;
  packed.input.model = model;
  run(session, packed, results);
  return taken(session, without_lists(problem), host, model, rows, absent, results);
}

}  // namespace attnfuzz::cuda
