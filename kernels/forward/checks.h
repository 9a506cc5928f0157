// Host side of a forward kernel: is this a problem at all, and how does it look
// to the device? Every refusal says in a sentence what is wrong.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/attention.h"
#include "kernels/forward/params.h"

namespace attn {

struct Refusal {
  attn_status status = ATTN_OK;
  std::string reason;
  explicit operator bool() const { return status != ATTN_OK; }
};

// ATTN_INVALID for what no kernel could do: contradictory sizes, a wrong struct
// size, missing tensors, an output that overlaps itself.
Refusal check_problem(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env);

// The device's view of a checked problem. `packed`: query heads to a tile.
ForwardParams make_params(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env,
                          int packed);

// "cp.async", or "elementwise(qv)" naming the tensors that cannot be copied 16 bytes at a time.
std::string copy_path(const ForwardParams& params);

// The fields of a plan that all forward kernels of this family share. `keys`
// is how many KV tiles one row can meet.
void describe_arithmetic(const ForwardParams& params, attn_plan* plan);

// Writes a refusal into the caller's buffer and returns its status.
attn_status refuse(const Refusal& refusal, char* reason, uint64_t reason_size);

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// a * b * c where it is at most `limit`, else -1.
int64_t product_within(int64_t a, int64_t b, int64_t c, int64_t limit);

// Blocks of a one-dimensional CUDA grid.
inline constexpr int64_t kMaxBlocks = 2147483647;

}  // namespace attn
