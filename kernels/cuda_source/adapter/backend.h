// The work of an adapter on the device, with the same functions for both back ends:
//
//   fill(call, at, value, bytes)                        sets bytes of device memory
//   make_pages(call, table)                             makes a page table, and the lengths of batch entries
//   make_borders(call, borders, given, rows)            makes the offsets of packed entries, as int
//   move_each(call, move, count)                        copies elements to a copy and back
//   run_between_redzones(call, takes, layout, space, run) runs the kernel and reports its faults
#pragma once

#include "kernels/cuda_source/adapter/move.h"
#include "kernels/primitives/launch.h"

#ifdef __CUDACC__
#include "kernels/cuda_source/adapter/backend_cuda.h"
#else
#include "kernels/cuda_source/adapter/backend_cpu.h"
#endif
