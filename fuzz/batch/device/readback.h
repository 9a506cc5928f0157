// Places the oracle's results for a call, and the kernel's outputs, in one block of bytes.
//
//   const Readback places(call);
//   places.part[0].value           // the offset of the expected values of O, or of dQ
//
// The bytes from `from` on are read back. If `from` is not 0, the bounds are those of Expected::allowance(),
// which relations use.
#pragma once

#include <array>
#include <iterator>
#include <span>
#include <utility>

#include "fuzz/batch/device/call.h"

namespace attnfuzz::batch {

// The outputs that are judged: O and the LSE, or the gradients.
inline std::span<const Tensor> outputs_of(const Call& call, bool gradients) {
  static constexpr Tensor kOfForward[] = {kOutput, kLse}, kOfBackward[] = {kDq, kDk, kDv, kDbias, kDsink};
  if (!gradients) return kOfForward;
  return std::span(kOfBackward).first(has_lists(call) ? 3 : std::size(kOfBackward));
}

// True if the results have exact values of O beside values that predict the roundings of P.
inline bool predicts_p(const Call& call) { return !is_backward(call) && call.model.p_predicted != ATTN_NONE; }

struct Readback {
  // The arrays of an output: `elements` numbers each, dense.
  struct Part {
    Tensor tensor;
    uint64_t columns, elements;
    uint64_t value = 0, bound = 0;  // double
    uint64_t got = 0;               // float: what the kernel wrote
    uint64_t rule = 0;              // Due; not written for the LSE, because `state` says what is due
  };
  std::array<Part, kGradients> part = {};
  uint64_t exact;  // double: of O, if predicts_p()
  uint64_t state;  // of each query: RowState, and kAnyColumn (rows.h)
  uint64_t from = 0, bytes = 0;

  explicit Readback(const Call& call) : Readback(call, is_backward(call)) {}
  // `gradients` false: the results of the forward pass, which a backward call has, too.
  Readback(const Call& call, bool gradients) {
    const std::span<const Tensor> outputs = outputs_of(call, gradients);
    const auto each = [&](uint64_t Part::* member, uint64_t element_bytes) {
      for (size_t n = 0; n < outputs.size(); ++n) part[n].*member = take(part[n].elements * element_bytes);
    };
    for (size_t n = 0; n < outputs.size(); ++n) part[n] = part_of(call, outputs[n]);
    each(&Part::value, sizeof(double));
    exact = take(predicts_p(call) ? part[0].elements * sizeof(double) : 0);
    const uint64_t bounds = bytes;
    each(&Part::bound, sizeof(double));
    each(&Part::got, sizeof(float));
    each(&Part::rule, sizeof(uint8_t));
    const attn_problem& p = call.problem;
    state = take(static_cast<uint64_t>(p.batch * p.heads_q * p.seq_q));
    bytes = (bytes + 255) / 256 * 256;
    if (!call.readback_all) from = bounds;
  }
  uint64_t sent() const { return bytes - from; }

 private:
  uint64_t take(uint64_t more) { return std::exchange(bytes, bytes + more); }
  static Part part_of(const Call& call, Tensor tensor) {
    const TensorSpec& spec = spec_of(kIds[tensor]);
    const auto [batch, heads, rows, columns] = shape_of(spec, call.problem);
    const bool there = spec.feature == 0 || (spec.feature & call.problem.features) != 0;
    return {.tensor = tensor,
            .columns = static_cast<uint64_t>(columns),
            .elements = there ? static_cast<uint64_t>(batch * heads * rows * columns) : 0};
  }
};

}  // namespace attnfuzz::batch
