#include "kernels/fa1_backward/walk_launch.h"

ATTN_BACKWARD_WALKS(Grad64, false);
