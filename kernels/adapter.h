// The only header that an adapter includes. An adapter makes a kernel in plain CUDA testable
// (docs/own-kernel.md).
#pragma once
#include "kernels/cuda_source/adapter/adapter.h"
