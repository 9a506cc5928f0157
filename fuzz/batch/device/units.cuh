// Lays out and checks a tensor on a device, unit by unit: a byte of a mask, two bytes of any other tensor. A
// unit belongs to an element, or to a redzone or a gap, which hold the tensor's pattern. All threads of the
// grid's first dimension work on one tensor.
//
//   lay_tensor<uint16_t>(work, kBias, unit_of);      // the inputs, and the poison of outputs
//   judge_tensor<uint16_t>(work, kBias, unit_of);    // counts what has changed in work.counts
//
// `unit_of(t, index, byte)` returns the unit at this byte of an input's element. The functions at the end
// compare the elements of an output with what is due.
#pragma once

#include <algorithm>

#include "fuzz/batch/device/kernels.h"
#include "fuzz/batch/device/laid.cuh"
#include "reference/cuda/block.cuh"

namespace attnfuzz::batch {

using cuda::kThreads;

// The most blocks of one job, and the units that a thread should have.
inline constexpr uint64_t kMostBlocks = 256, kUnitsAThread = 4;
inline unsigned blocks_for(const Call& call) {
  uint64_t bytes = call.workspace.end - call.workspace.begin;
  for (const TensorSlot& place : call.tensor) bytes = std::max(bytes, place.end - place.begin);
  return static_cast<unsigned>(std::min(bytes / (2 * kThreads * kUnitsAThread) + 1, kMostBlocks));
}

__device__ inline int64_t first_unit() { return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; }
__device__ inline int64_t stride_of_units() { return static_cast<int64_t>(gridDim.x) * kThreads; }

// The distance between rows of the oracle's bias or mask.
__device__ inline int64_t padded_keys(const cuda::RowsInput& in) { return (in.keys + 7) / 8 * 8; }

struct Element {
  bool is;
  uint32_t n[4];
};

// The element that lies `offset` elements behind the lowest one.
__device__ inline Element element_at(const TensorSlot& place, uint32_t offset) {
  Element e = {true, {}};
  for (int i = 0; i < 4; ++i) {
    const int dimension = place.order[i];
    const uint32_t n = offset / place.stride[dimension];
    offset -= n * place.stride[dimension];
    e.is &= n < place.size[dimension];
    e.n[dimension] = (place.backwards >> dimension & 1) != 0 ? place.size[dimension] - 1 - n : n;
  }
  e.is &= offset == 0;
  return e;
}

// Two bytes of the tensor's pattern at a place. The address is even, except in a mask.
__device__ inline uint16_t pattern_at(const TensorSlot& place, uint64_t at) {
  return static_cast<uint16_t>(place.pattern >> 8 * (address_of(place, at) & 3));
}

// The value of a unit before the call: of an input, a redzone, a gap or an output.
template <class Unit, class UnitOf>
__device__ inline Unit laid(const Work& work, int t, uint64_t at, const UnitOf& unit_of, Element* element) {
  const TensorSlot& place = work.call->tensor[t];
  *element = {};
  if (at >= place.data && at < place.elements_end) {
    const auto offset = static_cast<uint32_t>(at - place.data);
    const Element e = element_at(place, offset / place.element_bytes);
    *element = e;
    if (e.is && t < kOutput) return static_cast<Unit>(unit_of(t, e.n, offset % place.element_bytes));
  }
  return static_cast<Unit>(pattern_at(place, at));
}

// Calls visit(address, unit) for each unit of a tensor that this thread works on.
template <class Unit, class Visit>
__device__ inline void each_unit(const Work& work, int t, const Visit& visit) {
  const TensorSlot& place = work.call->tensor[t];
  for (uint64_t at = place.begin + sizeof(Unit) * static_cast<uint64_t>(first_unit()); at < place.end;
       at += sizeof(Unit) * static_cast<uint64_t>(stride_of_units()))
    visit(at, *reinterpret_cast<Unit*>(work.base[t] + address_of(place, at)));
}

template <class Unit, class UnitOf>
__device__ inline void lay_tensor(const Work& work, int t, const UnitOf& unit_of) {
  Element element;
  each_unit<Unit>(work, t, [&](uint64_t at, Unit& unit) { unit = laid<Unit>(work, t, at, unit_of, &element); });
}

// A count of 0, the usual one, costs no atomic operation.
__device__ inline void count(uint32_t* to, int mine) {
  if (mine > 0) atomicAdd(to, static_cast<uint32_t>(mine));
}

template <class Unit, class UnitOf>
__device__ inline void judge_tensor(const Work& work, int t, const UnitOf& unit_of) {
  const Call& call = *work.call;
  const TensorSlot& place = call.tensor[t];
  // Rows of an output that belong to no batch entry must not be written.
  const int64_t rows = is_packed(call, t) ? owned_rows(call, t) : int64_t{place.size[2]};
  int redzones = 0, inputs = 0, unwritten = 0;
  each_unit<Unit>(work, t, [&](uint64_t at, const Unit& is) {
    Element element;
    const Unit was = laid<Unit>(work, t, at, unit_of, &element);
    if (!element.is || element.n[2] >= rows)
      redzones += is != was;
    else if (t < kOutput)
      inputs += is != was;
    else if (call.complete && place.element_bytes == 2)
      unwritten += is == was;
    else if (call.complete && at % 4 == 0)  // of 32 bits
      unwritten += *reinterpret_cast<const uint32_t*>(work.base[t] + address_of(place, at)) == place.pattern;
  });
  count(&work.counts->redzones, redzones);
  count(&work.counts->inputs, inputs);
  count(&work.counts->unwritten, unwritten);
}

// The batch entry, head and query of a row; of dK and dV the KV head and the key.
struct Query {
  int64_t b, h, i;
};
__device__ inline Query query_of(const Call& call, int64_t row) {
  const int64_t head = row / call.problem.seq_q;
  return {head / call.problem.heads_q, head % call.problem.heads_q, row % call.problem.seq_q};
}
// True if the query lies behind the last one of its packed entry.
__device__ inline bool is_absent(const Call& call, const Query& query) {
  return query.i >= queries_of(call, query.b);
}

// The byte offset of an element of an output from the tensor's base.
__device__ inline uint64_t place_of(const Call& call, int t, const Query& query, int64_t column) {
  const TensorSlot& place = call.tensor[t];
  const bool packed = is_packed(call, t);
  const int64_t row = packed ? borders_of(call, t)[query.b] + query.i : query.i;
  const uint64_t offset =
      element_offset(place, static_cast<uint32_t>(packed ? 0 : query.b), static_cast<uint32_t>(query.h),
                     static_cast<uint32_t>(row), static_cast<uint32_t>(column));
  return address_of(place, place.data + offset * place.element_bytes);
}

__device__ inline void judge_ratio(double ratio, double* worst, int* outside) {
  if (ratio <= 1)
    *worst = max(*worst, ratio);
  else
    ++*outside;
}

// Stores what the first call wrote, and compares later calls with it. True if a later call has other bits
// although the plan is deterministic.
__device__ inline bool keep(const Work& work, float* first, int64_t at, float got) {
  if (!first) return false;
  if (work.number == 0) {
    first[at] = got;
    return false;
  }
  const bool same = __float_as_uint(first[at]) == __float_as_uint(got) || (isnan(first[at]) && isnan(got));
  return !same && work.call->plan.deterministic;
}

__device__ inline void count_ratios(const Work& work, double worst, int outside) {
  worst = cuda::over_warp(worst, cuda::Max());
  // Non-negative floats have the same order as their bits.
  if (threadIdx.x % 32 == 0 && worst > 0)
    atomicMax(&work.counts->worst, static_cast<unsigned long long>(__double_as_longlong(worst)));
  count(&work.counts->outside, outside);
}

}  // namespace attnfuzz::batch
