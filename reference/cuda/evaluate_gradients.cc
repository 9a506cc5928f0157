// A backward pass on the device.
#include <algorithm>
#include <numeric>
#include <utility>

#include "reference/call/row_space.h"
#include "reference/call/sequences.h"
#include "reference/cuda/evaluate.h"
#include "reference/cuda/pack.h"
#include "reference/cuda/pack_forward.h"
#include "reference/cuda/row_results.h"
#include "reference/gradients/gradient_setup.h"
#include "reference/model/error_cap.h"
#include "reference/rows/visibility.h"

namespace attnfuzz::cuda {
namespace {

constexpr double kMostPairs = 0x1p24;  // each has 33 bytes of scratch, with dbias 49

// The offsets of the elements of a backward pass in one block of bytes.
struct GradientResults {
  struct Part {
    size_t value, bound, rule, elements;
  };
  Part dq, dk, dv, dbias, dsink;
  size_t state, bytes = 0;

  explicit GradientResults(const GradientsInput& in) {
    const auto slots = static_cast<size_t>(in.rows.groups) * static_cast<size_t>(in.rows.keys);
    const auto rows = static_cast<size_t>(in.rows.rows), dim_qk = static_cast<size_t>(in.rows.dim_qk);
    dq = numbers(rows * dim_qk);
    dk = numbers(slots * dim_qk);
    dv = numbers(slots * static_cast<size_t>(in.rows.dim_v));
    const auto queries = static_cast<size_t>(in.rows.groups / in.heads_kv) * static_cast<size_t>(in.heads_q) *
                         static_cast<size_t>(in.seq_q);
    dbias = numbers(in.biased ? queries * static_cast<size_t>(in.rows.keys) : 0);
    dsink = numbers(in.sinks ? static_cast<size_t>(in.heads_q) : 0);
    for (Part* part : {&dq, &dk, &dv, &dbias, &dsink})
      part->rule = std::exchange(bytes, bytes + part->elements);
    state = std::exchange(bytes, bytes + rows);
  }

 private:
  Part numbers(size_t elements) {
    Part part = {.value = bytes, .bound = bytes + elements * sizeof(double), .rule = 0, .elements = elements};
    bytes += 2 * elements * sizeof(double);
    return part;
  }
};

void run(Session& session, PackedGradients& packed, const GradientResults& results) {
  GradientsInput& in = packed.input;
  std::byte* inputs = session.inputs.of(packed.bytes);
  relocate_rows(in.rows, packed.has_mask, inputs);
  relocate(in.tasks, inputs), relocate(in.first_row, inputs);
  relocate(in.dout, inputs);
  if (in.dlse != nullptr) relocate(in.dlse, inputs);
  if (in.own_o != nullptr) {
    relocate(in.own_o, inputs), relocate(in.own_o_error, inputs);
    relocate(in.own_lse, inputs), relocate(in.own_lse_error, inputs);
    if (in.own_lse_apart != nullptr)
      relocate(in.own_lse_apart, inputs), relocate(in.own_lse_apart_error, inputs);
  } else {
    relocate(in.o, inputs), relocate(in.lse, inputs);
  }
  std::byte* const to = session.results.of(results.bytes);
  const auto part = [&](const GradientResults::Part& at_part) {
    return GradientOutput{at<double>(to, at_part.value), at<double>(to, at_part.bound),
                          at<uint8_t>(to, at_part.rule)};
  };
  const GradientsOutput out = {part(results.dq),    part(results.dk),    part(results.dv),
                               part(results.dbias), part(results.dsink), at<uint8_t>(to, results.state)};
  GradientsScratch scratch;
  std::byte* const memory = session.scratch.of(divide_gradients(in, nullptr, &scratch));
  divide_gradients(in, memory, &scratch);
  const attn_env own = session.env();
  session.between_copies(inputs, packed.block, packed.bytes, to, results.bytes,
                         [&] { return launch_gradients(in, out, scratch, &own); });
}

// Copies results from the returned block into the reference.
void take(Session& session, const Asked& asked, const std::vector<int64_t>& rows,
          const gradients::Wanted& wanted, const GradientResults& results, Reference& due) {
  const attn_problem& problem = asked.problem;
  std::byte* const from = session.received.of(results.bytes);
  const auto copy = [&](const GradientResults::Part& part, size_t index, Expected& to, int64_t row) {
    const auto columns = static_cast<size_t>(to.columns), first = static_cast<size_t>(row) * columns;
    std::copy_n(at<double>(from, part.value) + index * columns, columns, to.value.data() + first);
    std::copy_n(at<double>(from, part.bound) + index * columns, columns, to.bound.data() + first);
    std::copy_n(at<uint8_t>(from, part.rule) + index * columns, columns, to.rule.data() + first);
  };
  const uint8_t* states = at<uint8_t>(from, results.state);
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto row = static_cast<size_t>(rows[r]);
    if (!wanted.rows[row]) continue;
    const auto state = static_cast<RowState>(states[r] & ~kAnyColumn);
    if (state > RowState::kNaN) throw std::runtime_error("the oracle on the GPU: a row that was not evaluated");
    copy(results.dq, r, due[TensorId::kDq], rows[r]);
    due.state[row] = state;
    ++due.sampled;
    due.dead += state == RowState::kDead;
    due.unconstrained += (states[r] & kAnyColumn) != 0;
  }
  const Sequences sequences(problem, asked.host);
  for (size_t slot = 0; slot < wanted.keys.size(); ++slot) {
    const auto key = static_cast<int64_t>(slot);
    const int64_t b = key / (problem.heads_kv * problem.seq_k);
    if (!wanted.keys[slot] || key % problem.seq_k >= sequences.keys.length(b)) continue;
    copy(results.dk, slot, due[TensorId::kDk], key);
    copy(results.dv, slot, due[TensorId::kDv], key);
  }
  for (int64_t row = 0; results.dbias.elements > 0 && row < due.rows; ++row)
    copy(results.dbias, static_cast<size_t>(row), due[TensorId::kDbias], row);
  for (size_t h = 0; h < results.dsink.elements; ++h)
    copy(results.dsink, h, due[TensorId::kDsink], static_cast<int64_t>(h));
}

// The forward pass of a kernel that computes O and LSE by itself, on the device if it handles the problem.
gradients::OwnForward::Evaluate own_forward(Session& session) {
  return [&session](const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                    const Calibration& calibration) {
    std::string why;
    auto due = forward_on_device(session, {forward_of(problem), host, plan, calibration, {}}, &why);
    return due ? *std::move(due) : evaluate_forward_of(problem, host, plan, calibration);
  };
}

}  // namespace

std::optional<Reference> gradients_on_device(Session& session, const Asked& asked, std::string* why) {
  const auto& [problem, host, plan, calibration, sample] = asked;
  const auto no = [&](const char* reason) {
    *why = reason;
    return std::nullopt;
  };
  const bool lists = (problem.features & ATTN_FEATURE_SELECTED_BACKWARD) != 0;
  const KnownFeatures known =
      lists ? KnownFeatures{"the oracle of gradients over listed blocks on a GPU", kSelectedGradientsKnow.bits}
            : KnownFeatures{"the oracle of gradients on a GPU", kGradientsKnow.bits};
  *why = unknown_features(known, problem.features);
  if (!why->empty()) return std::nullopt;
  if (problem.batch * problem.heads_kv < 1 || problem.batch * problem.heads_kv > kMostGroups)
    return no("no KV head of a batch entry, or more than 65,535");
  std::vector<int64_t> rows(static_cast<size_t>(RowSpace(problem).count()));
  std::iota(rows.begin(), rows.end(), 0);
  take_absent(problem, host, &rows);
  const double pairs = static_cast<double>(rows.size()) * static_cast<double>(problem.seq_k);
  if (pairs > kMostPairs) return no("more than 16 million pairs of a query and a key");
  // forward_of_rows() finds this out too, but later.
  if (pairs * static_cast<double>(problem.dim_qk + problem.dim_v) < session.least_work)
    return no("small: the CPU's oracle is faster");
  const attn_plan capped = capped_plan(problem, plan, calibration);
  // Refuses before a forward pass is evaluated for `own`.
  const std::optional<Forward> to_pack = forward_of_rows(problem, host, rows, true, session.least_work, why);
  if (!to_pack) return std::nullopt;
  std::optional<gradients::OwnForward> forward;
  if (recomputes(capped)) forward.emplace(problem, host, plan, calibration, own_forward(session));
  const std::optional<ExactRows> own = forward ? std::optional(forward->rows()) : std::nullopt;
  PackedGradients packed = {};
  const auto room = [&](size_t bytes) { return session.sent.of(bytes); };
  if (!pack_gradients(problem, host, rows, *to_pack, own ? &*own : nullptr, room, &packed, why))
    return std::nullopt;
  GradientsInput& in = packed.input;
  const ErrorModel model = gradients::error_model(problem, plan, calibration);
  in.rows.model = model;
  in.terms = gradients::make_terms(problem, capped, model);
  set_numbers(problem, plan, gradients::leaves_sink_out(problem, plan, calibration), &in);
  const GradientResults results(in);
  if (results.bytes > kMostResults) return no("more than 512 MiB of results");
  Reference due = gradients::unset_gradients(problem, host, model);
  if (results.bytes > 0) {
    run(session, packed, results);
    take(session, asked, rows, gradients::wanted(problem, host, plan, sample), results, due);
  }
  if (forward) forward->add_assumptions(&due);
  return due;
}

}  // namespace attnfuzz::cuda
