// Found in place of the toolkit's by -I kernels/cuda_source/include, so that sources keep their includes.
#pragma once
#include "kernels/cuda_source/runtime.h"
