#include "kernels/fa1/hopper/launch.h"

ATTN_HOPPER_SHAPE(Hopper64);
ATTN_HOPPER_SHAPE(Hopper64Mid);
ATTN_HOPPER_SHAPE(Hopper64Short);
ATTN_HOPPER_SHAPE(Hopper64Scored);
ATTN_HOPPER_SHAPE(Hopper64Lengths);
