// Replaces CUDA's header of this name on the executor (-I kernels/cuda_source/include). A source keeps its
// #include.
#pragma once
#include "kernels/cuda_source/cuda/cooperative_groups.h"
