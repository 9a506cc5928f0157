// Found in place of PyTorch's by -I kernels/cuda_source/include, so that sources keep their includes.
#pragma once
#include "kernels/cuda_source/cuda/torch.h"
