// The inputs of a call as the rows' kernel takes them (rows.h): dense, and only what the rows that
// are evaluated need, whatever strides, guards and holes the tensors have in host memory.
//
//   Packed packed;
//   if (!pack(problem, host, rows, room, &packed, &why)) ...   // too large
//
// Everything lies in one block of bytes, to be copied at once; offsets are multiples of 256.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "reference/cuda/rows.h"

namespace attnfuzz::cuda {

struct Packed {
  RowsInput input;  // all but the model; pointers are offsets in the block
  bool has_mask;
  std::byte* block;
  size_t bytes;
};

// `room`: gives so many bytes of host memory. Nothing (false) if the problem is beyond what is done
// on a device, with a short reason.
// Nor if it comes to fewer than `least_work` multiply-adds, over the keys that position allows.
bool pack(const attn_problem& problem, const attn_tensors& host, const std::vector<int64_t>& rows,
          double least_work, const std::function<std::byte*(size_t)>& room, Packed* packed, std::string* why);

}  // namespace attnfuzz::cuda
