#include "kernels/fa1_backward/walk_launch.h"

ATTN_BACKWARD_WALKS(Grad128, true);
ATTN_BACKWARD_WALKS(Grad128Small, true);
