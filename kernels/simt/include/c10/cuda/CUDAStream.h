// Found in place of PyTorch's by -I kernels/simt/include, so that sources keep their includes.
#pragma once
#include "kernels/simt/cuda/torch.h"
