// The oracle on a GPU: expected values and bounds in double, by kernels of its own, for a merge, and
// for a forward or a backward pass over all keys or over listed blocks.
//
//   std::string why;
//   if (auto oracle = open_cuda_oracle(&why)) reference = oracle->evaluate(...);   // fast_oracle.h
//
// It shares source with the CPU's oracle: the charges of a plan and a calibration (ErrorModel), the keys
// that position allows (key_range), every formula that gives one number a row (row_terms.h), and those of a
// pair and of an element of a gradient (gradient_pairs.h). The device has its own loops over keys and columns:
// scores.cuh, weights.cuh and mean.cuh follow scores.h, tile_walk.h, rounded_p.h and weighted_mean.h;
// gradient_rows.cuh, gradient_pairs.cuh, gradient_sums.cuh and gradients.cu follow gradients.cc and
// gradient_sums.h. Products are the same chains of multiply-adds as on the host. Sums over keys have another
// order, and exp, log and tanh are CUDA's.
//
// It leaves to the CPU's oracle: problems so small that the CPU is faster, rows of more than 131,072 keys,
// more than 256 MiB of inputs, and single splits' partials and their merges (partials.h). Of backward passes it
// leaves more than 16 million pairs, and more than 65,535 KV heads of all batch entries. It also leaves head
// dimensions above 1024, a bias, a mask or lists of 4 million rows, results of more than 512 MiB, and of
// forward passes those that convert Q and K or leave the sink out of the LSE.
//
// Threat model. It runs in the judging process, in its own context. A kernel under test lives in a worker's
// process and cannot write here, neither by pointer nor by device address, and a fault in it ends only
// its own context. Inputs are read from the arena, as the CPU's oracle reads them; the arena is checked for
// changes after the run (LaidOut::check_memory). These kernels, or the GPU, may still be wrong. Every
// failure, and some passes, are therefore judged by the CPU's oracle, too (properties/judge/trial.h), and a
// test compares the two.
//
// A process that has opened this oracle must not fork a child that opens another: CUDA does not
// survive a fork.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "reference/fast_oracle.h"

namespace attnfuzz {

// From this many multiply-adds on, the GPU is faster than the CPU's oracle. Measured on an H200 while a kernel
// ran in its worker: the GPU has to switch between the two contexts.
inline constexpr double kWorthIt = 0x1p20;

// `least_work`: smaller problems are left to the CPU; 0: none is. `most_shared`: the most bytes of shared
// memory for a block, as far as the device has them; at least 16 KiB. nullptr if there is no device, or if
// there was no nvcc when this was built; *why then says what to do.
std::unique_ptr<FastOracle> open_cuda_oracle(std::string* why, double least_work = kWorthIt,
                                             int64_t most_shared = int64_t{1} << 20);

}  // namespace attnfuzz
