// Compares the answers of two calls of plan() with the same arguments.
#pragma once

#include <string>

#include "kernels/attention.h"

namespace attnfuzz::worker {

struct PlanAnswer {
  attn_status status;
  attn_plan plan;  // counts only if the status is ATTN_OK
};

// Says how two answers differ; empty if they do not:
//
//   "asked the same twice, plan() took the problem and then refused it"
//   "asked the same twice, plan() answered tile_k 64 and then 128"
//
// The reasons of two refusals may differ, and so may the bytes behind a path's NUL.
std::string plans_differ(const PlanAnswer& first, const PlanAnswer& second);

}  // namespace attnfuzz::worker
