// Packs the inputs of a call for the rows' kernel (rows.h): dense, and only what the evaluated rows need,
// whatever strides, redzones and gaps the tensors have in host memory.
//
//   Packed packed;
//   if (!pack(problem, host, rows, room, &packed, &why)) ...   // too large
//
// Everything lies in one block of bytes, which is copied at once. Offsets are multiples of 256.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "reference/cuda/gradients.h"
#include "reference/cuda/merge.h"
#include "reference/cuda/rows.h"
#include "reference/gradients/gradients.h"

namespace attnfuzz::cuda {

struct Packed {
  RowsInput input;  // without the model; pointers are offsets in the block
  bool has_mask;
  std::byte* block;
  size_t bytes;
};

// `room`: returns this many bytes of host memory. False, with a short reason, if the device does not handle
// the problem, or if it takes fewer than `least_work` multiply-adds over the keys that position allows.
bool pack(const attn_problem& problem, const attn_tensors& host, const std::vector<int64_t>& rows,
          double least_work, const std::function<std::byte*(size_t)>& room, Packed* packed, std::string* why);

struct Forward;  // pack_forward.h

// The same for a backward pass. `rows`: every query that a batch entry has. `forward`: forward_of_rows() of
// these rows, with all groups. `own`: O and LSE of a kernel that computes both by itself; nullptr for other
// kernels.
struct PackedGradients {
  GradientsInput input;  // without the model and the terms; pointers are offsets in the block
  bool has_mask;
  std::byte* block;
  size_t bytes;
};
bool pack_gradients(const attn_problem& problem, const attn_tensors& host, const std::vector<int64_t>& rows,
                    const Forward& forward, const ExactRows* own, const std::function<std::byte*(size_t)>& room,
                    PackedGradients* packed, std::string* why);

// The same for a merge.
struct PackedMerge {
  MergeInput input;  // without the model; pointers are offsets in the block
  std::byte* block;
  size_t bytes;
};
bool pack_merge(const attn_problem& problem, const attn_tensors& host, const std::vector<int64_t>& rows,
                double least_work, const std::function<std::byte*(size_t)>& room, PackedMerge* packed,
                std::string* why);

}  // namespace attnfuzz::cuda
