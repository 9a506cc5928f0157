#pragma once
#include <torch/types.h>
#define CHECK_INPUT(x) TORCH_CHECK(x.is_cuda() && x.is_contiguous(), #x " must be dense and on a GPU")
