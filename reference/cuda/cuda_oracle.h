// The oracle on a GPU: expected values and bounds of O and LSE in double, by kernels of its own.
//
//   std::string why;
//   if (auto oracle = open_cuda_oracle(&why)) reference = oracle->evaluate(...);   // fast_oracle.h
//
// One source with the CPU's: what a plan and a calibration are charged for (ErrorModel), which keys
// position allows (key_range), and every formula that is one number a row (row_terms.h). The device's
// own are the loops over keys and columns (scores.cuh, weights.cuh, mean.cuh), written from the formulas
// of scores.h, tile_walk.h, rounded_p.h and weighted_mean.h; products are the same chains of multiply-adds
// as the host's, sums over keys come in another order, and exp, log and tanh are CUDA's.
//
// Not for it, and left to the CPU's: what is so small that the CPU is done sooner, rows of more than 131,072
// keys, more than 256 MiB of inputs, one split's partials and a merge's (partials.h).
//
// The threat. It runs in the judging process, on a context of its own: a kernel under test lives in a
// worker's process and cannot write here, neither by pointer nor by device address, and a fault of it
// ends its own context alone. Inputs are read from the arena, as the CPU's oracle reads them, and
// whether the kernel changed them is asked of the arena after the run (LaidOut::check_memory). What is left is
// that these kernels are wrong themselves, or the GPU is: so every failure, and some of what passes, is
// judged by the CPU's oracle too (properties/judge/trial.h), and a test holds the two together.
//
// A process that has opened one must not fork for another: CUDA does not survive it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "reference/fast_oracle.h"

namespace attnfuzz {

// Multiply-adds from which on the way to the GPU and back is shorter than the CPU's oracle takes: measured
// on an H200 beside a kernel in its worker, whose context the GPU has to leave and come back to.
inline constexpr double kWorthIt = 0x1p20;

// `least_work`: below it a problem is left to the CPU's; 0: none is. nullptr, with a sentence in *why that says
// what to do, where there is no device or no nvcc was when this was built.
// `most_shared`: bytes of shared memory that a block may take, where the device has as many; no fewer than 16 KiB.
std::unique_ptr<FastOracle> open_cuda_oracle(std::string* why, double least_work = kWorthIt,
                                             int64_t most_shared = int64_t{1} << 20);

}  // namespace attnfuzz
