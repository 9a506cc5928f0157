// The device API for plain CUDA code, all of it. README.md has the list.
#pragma once

#include <math.h>
#include <stdio.h>

#include "kernels/simt/cuda/cuda.h"
#include "kernels/simt/cuda/half.h"
#include "kernels/simt/cuda/math.h"
#include "kernels/simt/cuda/sync.h"
#include "kernels/simt/cuda/vector.h"
