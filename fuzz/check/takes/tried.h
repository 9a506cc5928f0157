// Finds what a plain CUDA function takes, by running it on small problems.
//
// A function that was not written for attnfuzz has no plan() that refuses. For a problem that it does not take,
// it throws, aborts, ends the process, fails its launch or writes nothing. Reported as failures, these would
// hide its bugs. So the function is first run on small problems within its declaration and Target::terms: usual
// head dimensions before others, each format that it may have, lengths, batches, heads, groups, causal or not.
//
//   const Tried tried = try_function(target);
//   if (tried.found) statements = as_takes(tried.domain, *target.info().domain);   // "dim = one_of(64, 128)"
//
// A wrong number, a NaN, a hang, and a read or write outside of a tensor are bugs, not limits. So is a single
// refused size among many that are taken (fill_narrow_holes() in sizes_taken.h).
//
// There is one exception. If the call names no lengths, as in 'o = forward(q, k, v)', nobody has said that they
// may differ. If the function is then right for every problem with equal lengths and wrong for all others,
// lengths must be equal.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "properties/judge/execution.h"
#include "reference/model/calibration.h"

namespace attnfuzz {

// Why a run shows that the kernel does not take the problem: "it threw: no such head dimension", "it wrote
// nothing into O". Nothing for any other end, good or bad.
std::optional<std::string> not_taken(const Execution& ran, const RunReply& reply);

struct Tried {
  struct Reason {
    std::string problem, why;  // the first problem that ended for this reason: "fp16 B 1 H 2 S 16 D 48"
  };
  bool found = false;           // true if the function takes some problem; else the other fields say nothing
  attn_domain domain = {};      // limits that it does not declare; all 0: it takes all problems that were tried
  int64_t shared = 0;           // bytes of shared memory a block that the device must have; 0: any device
  bool bottom_right = false;    // its causal mask or window is bottom right, although it declares top left
  std::vector<Reason> refused;  // each reason once, in the order of its first occurrence
  int runs = 0;
  bool in_time = true;  // false: time ran out before all problems were run
};

// Undeclared facts that are decided by judging the outputs with this table of errors.
// `lengths`: decide whether lengths must be equal, for a call that does not name them. `align`:
// decide whether the causal mask, or else the window, is bottom right. It is if every problem with more keys
// than queries is right by that reading and wrong by the declared one.
struct ByNumbers {
  const Calibration* table = nullptr;  // nullptr: nothing is decided
  bool lengths = false, align = false;
};

// Runs the function for at most `seconds`, with the brief watch for each problem.
Tried try_function(Target& target, double seconds = 20, const ByNumbers& judged = {});

// The findings as statements of --takes: "dim = one_of(64, 128)".
std::vector<std::string> statements(const Tried& tried, const attn_domain& declared);

// Some reasons why it refuses other problems, each with an example: "it threw: no such dim (f16 B 1
// H 1 S 16 D 32)".
std::string elsewhere(const Tried& tried);

}  // namespace attnfuzz
