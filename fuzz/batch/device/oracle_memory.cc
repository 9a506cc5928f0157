#include "fuzz/batch/device/oracle_memory.h"

#include <algorithm>

#include "fuzz/batch/device/readback.h"

namespace attnfuzz::batch {
namespace {

uint64_t up(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

// Hands out the parts of one block of bytes.
struct Parts {
  std::byte* base;
  uint64_t bytes = 0;
  template <class T>
  void take(T*& to, uint64_t count) {
    to = reinterpret_cast<T*>(base + bytes);
    bytes += up(count * sizeof(T), 256);
  }
};

// The number of stored rows of a bias or a mask.
uint64_t stored_rows(const TensorSlot& place) {
  return uint64_t{1} * place.size[0] * place.size[1] * place.size[2];
}

// Places the oracle's inputs for a forward call.
void take_inputs(const Call& call, Parts& parts, Work* work) {
  const attn_problem& p = call.problem;
  cuda::RowsInput& in = work->input;
  in.model = is_backward(call) ? call.saved : call.model;
  in.dtype = p.dtype;
  in.bias_dtype = p.bias_dtype;
  in.slopes = p.has_alibi != 0;
  in.rows = static_cast<int32_t>(p.batch * p.heads_q * p.seq_q);
  in.groups = static_cast<int32_t>(p.batch * p.heads_kv);
  in.keys = in.most_keys = static_cast<int32_t>(p.seq_k);
  in.dim_qk = static_cast<int32_t>(p.dim_qk);
  in.dim_v = static_cast<int32_t>(p.dim_v);
  in.stride_qk = static_cast<int32_t>(cuda::padded(p.dim_qk));
  in.stride_v = static_cast<int32_t>(cuda::padded(p.dim_v));
  const auto rows = static_cast<uint64_t>(in.rows), groups = static_cast<uint64_t>(in.groups),
             slots = groups * static_cast<uint64_t>(in.keys), qk = static_cast<uint64_t>(in.stride_qk),
             v = static_cast<uint64_t>(in.stride_v);
  parts.take(in.facts, groups);
  parts.take(in.tasks, rows);
  parts.take(in.lengths, groups);
  const uint64_t number = static_cast<uint64_t>(number_bytes(in));
  std::byte *q = nullptr, *k = nullptr, *values = nullptr;
  parts.take(q, rows * qk * number);
  parts.take(k, slots * qk * number);
  parts.take(values, slots * v * number);
  in.q = q, in.k = k, in.v = values;
  const uint64_t stride_k = up(static_cast<uint64_t>(in.keys), 8);
  std::byte *bias = nullptr, *mask = nullptr;
  if (p.bias_dtype != ATTN_NONE)
    parts.take(bias, stored_rows(call.tensor[kBias]) * stride_k * call.tensor[kBias].element_bytes);
  if (p.has_mask) parts.take(mask, stored_rows(call.tensor[kMask]) * stride_k);
  if (has_lists(call)) {
    const auto lists = static_cast<uint64_t>(p.batch * p.heads_kv * p.seq_q);
    parts.take(mask, lists * stride_k);
    parts.take(work->lists, lists * static_cast<uint64_t>(p.select));
  }
  in.bias = bias;
  in.mask = reinterpret_cast<const uint8_t*>(mask);
}

// Places the oracle's inputs for a merge.
void take_sides(const Call& call, Parts& parts, Work* work) {
  const attn_problem& p = call.problem;
  cuda::MergeInput& in = work->merge;
  in.model = call.model;
  in.dtype = p.dtype;
  in.rows = work->input.rows = static_cast<int32_t>(p.batch * p.heads_q * p.seq_q);
  in.columns = static_cast<int32_t>(p.dim_v);
  for (int side = 0; side < 2; ++side) {
    std::byte* o = nullptr;
    float* lse = nullptr;
    parts.take(
        o, static_cast<uint64_t>(in.rows) * static_cast<uint64_t>(in.columns) * (p.dtype == ATTN_F32 ? 4 : 2));
    parts.take(lse, static_cast<uint64_t>(in.rows));
    in.o[side] = o, in.lse[side] = lse;
  }
}

// The results of the forward pass, or of a merge.
cuda::RowsOutput rows_at(const Call& call, const Readback& places, std::byte* results) {
  const auto number_at = [&](uint64_t at) { return reinterpret_cast<double*>(results + at); };
  cuda::RowsOutput out;
  out.o = number_at(places.part[0].value);
  out.o_bound = number_at(places.part[0].bound);
  // Verdicts do not depend on the exact values.
  out.o_exact = predicts_p(call) && call.readback_at != kNoReadback ? number_at(places.exact) : nullptr;
  out.lse = number_at(places.part[1].value);
  out.lse_bound = number_at(places.part[1].bound);
  out.o_rule = reinterpret_cast<uint8_t*>(results + places.part[0].rule);
  out.state = reinterpret_cast<uint8_t*>(results + places.state);
  return out;
}

cuda::GradientsOutput gradients_at(const Readback& places, std::byte* results) {
  const auto at = [&](const Readback::Part& part) {
    return cuda::GradientOutput{reinterpret_cast<double*>(results + part.value),
                                reinterpret_cast<double*>(results + part.bound),
                                reinterpret_cast<uint8_t*>(results + part.rule)};
  };
  return {at(places.part[0]), at(places.part[1]), at(places.part[2]),
          at(places.part[3]), at(places.part[4]), reinterpret_cast<uint8_t*>(results + places.state)};
}

// Places what a backward pass needs beside the inputs of its forward pass.
void take_gradients(const Call& call, Parts& parts, OracleMemory* to) {
  const attn_problem& p = call.problem;
  cuda::GradientsInput& in = to->gradients.input;
  in.rows = to->gradients.work.input;
  in.rows.model = call.model;
  in.terms = call.terms;
  cuda::set_numbers(p, call.plan, /*apart=*/false, &in);  // add_plan() refuses an LSE without the sink
  in.most_rows = static_cast<int32_t>(p.heads_q / p.heads_kv * p.seq_q);
  const auto indices = [&](int dimension) { return static_cast<int32_t>(call.tensor[kDbias].size[dimension]); };
  if (in.biased) in.dbias = {indices(0), indices(1), indices(2)};
  const auto rows = static_cast<uint64_t>(in.rows.rows),
             numbers = rows * static_cast<uint64_t>(in.rows.stride_v * number_bytes(in.rows));
  const auto take = [&](auto*& pointer, uint64_t count) {
    std::remove_const_t<std::remove_reference_t<decltype(*pointer)>>* place = nullptr;
    parts.take(place, count);
    pointer = place;
  };
  take(in.tasks, rows);
  take(in.first_row, static_cast<uint64_t>(in.rows.groups) + 1);
  std::byte *dout = nullptr, *o = nullptr;
  parts.take(dout, numbers), parts.take(o, numbers);
  in.dout = dout, in.o = o;
  take(in.lse, rows);
  if ((p.features & ATTN_FEATURE_DLSE) != 0) take(in.dlse, rows);
  std::byte* scratch = nullptr;
  parts.take(scratch, cuda::divide_gradients(in, nullptr, &to->pairs));
  cuda::divide_gradients(in, scratch, &to->pairs);
}

// Places results, and what the kernel under test has written.
void take_results(const Call& call, Parts& parts, OracleMemory* to) {
  Work& work = to->gradients.work;
  const Readback places(call);
  parts.take(to->results, places.bytes);
  const bool asked = call.readback_at != kNoReadback || call.repeats > 1;
  const auto got_at = [&](size_t part) {
    return asked ? reinterpret_cast<float*>(to->results + places.part[part].got) : nullptr;
  };
  if (!is_backward(call)) {
    work.output = rows_at(call, places, to->results);
    work.got = got_at(0), work.got_lse = got_at(1);
    return;
  }
  const Readback forward(call, false);
  std::byte* saved = nullptr;
  parts.take(saved, forward.bytes);
  work.output = rows_at(call, forward, saved);
  to->gradients.due = gradients_at(places, to->results);
  for (size_t n = 0; n < places.part.size(); ++n) to->gradients.got[n] = got_at(n);
}

}  // namespace

uint64_t place_oracle(const Call& call, std::byte* base, int blocks, int64_t shared_limit, OracleMemory* to) {
  Parts parts{base};
  Work& work = to->gradients.work;
  work.input = {}, work.merge = {}, to->gradients.input = {};
  work.lists = nullptr;
  if (is_merge(call))
    take_sides(call, parts, &work);
  else
    take_inputs(call, parts, &work);
  take_results(call, parts, to);
  if (is_merge(call)) return parts.bytes;
  const cuda::RowsInput& in = work.input;
  const uint64_t slots = static_cast<uint64_t>(in.groups) * static_cast<uint64_t>(in.keys);
  to->rows = cuda::divide_rows(in, blocks, shared_limit);
  parts.take(to->rows.key_norm, slots);
  parts.take(to->rows.key_facts, slots);
  parts.take(to->rows.memory, to->rows.bytes_a_block * static_cast<uint64_t>(to->rows.blocks));
  if (is_backward(call)) take_gradients(call, parts, to);
  return parts.bytes;
}

}  // namespace attnfuzz::batch
