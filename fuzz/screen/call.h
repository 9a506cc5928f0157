// What a host asks of a screen on a device, and what it is told: plain data, a call and a result a case.
//
// A screen (screen.h) is given many cases at once. Each is laid out on the device from its recipe,
// planned and run, and judged there by the oracle's kernels; only counts come back. It is believed
// where it finds nothing wrong. A call has no pointer: places are bytes in a stretch of device
// memory, its slot, that one case of a batch has to itself while it is under way.
#pragma once

#include <cstdint>

#include "kernels/attention.h"
#include "properties/case/case.h"
#include "reference/error_model.h"

namespace attnfuzz::screen {

inline constexpr uint32_t kMostCalls = 256;  // of a batch
enum Tensor : int { kQuery, kKey, kValue, kOutput, kLse, kTensors };

// One tensor in its slot, guards and gaps included: extent.h.
struct Place {
  uint64_t begin, data, elements_end, end;  // bytes; all 0: there is none
  uint32_t size[4], stride[4];              // as stored, in elements
  uint8_t order[4];                         // of the first three dimensions, outermost first
  uint32_t pattern;                         // of guards and gaps, and of outputs before the call
  int64_t told[4];                          // strides as the kernel is told them
};

struct Workspace {
  uint64_t begin, data, end_of_data, end;  // multiples of 4 bytes
  uint32_t pattern;                        // of what the kernel may use; its guards are all ones
};

struct Call {
  attn_problem problem;
  attn_env env;  // stream, callbacks and probe NULL
  attn_plan plan;
  ErrorNumbers model;
  Place tensor[kTensors];
  Workspace workspace;
  Fill fill[3];      // of Q, K and V
  double overflow;   // Expected::overflow of O
  int32_t complete;  // whether an element never written can be told
  uint64_t bytes;    // of the slot
};

// What was counted; all of it 0 but `worst` and the rows where nothing is wrong.
struct Counts {
  unsigned long long worst;  // bits of the largest error/bound among those of at most 1
  uint32_t outside;          // elements outside of their bound
  uint32_t guards;           // units of guards and gaps that were written
  uint32_t inputs;           // units of inputs that were
  uint32_t unwritten;        // elements of outputs that were not
  uint32_t dead, uninformative, unconstrained, unknown;  // rows; unknown: not evaluated
};

struct Result {
  int32_t status;    // attn_status, of plan() or of run()
  int32_t reported;  // whether env->report was called
  attn_plan plan;    // of plan()
  Counts counts;     // of run()
  double launch_s;   // of run(): the CPU's, until all of the call was launched
};

}  // namespace attnfuzz::screen
