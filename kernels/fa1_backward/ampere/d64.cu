#include "kernels/fa1_backward/ampere/launch.h"

ATTN_BACKWARD_WALKS(Grad64, false);
