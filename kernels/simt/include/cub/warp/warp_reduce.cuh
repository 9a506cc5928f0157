// Found in place of the toolkit's by -I kernels/simt/include, so that sources keep their includes.
#pragma once
#include "kernels/simt/cuda/cub.h"
