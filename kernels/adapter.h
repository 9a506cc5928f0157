// The door of an adapter: a kernel in plain CUDA includes this to be tested (docs/own-kernel.md).
#pragma once
#include "kernels/cuda_source/adapter/adapter.h"
