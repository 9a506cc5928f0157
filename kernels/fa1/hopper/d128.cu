#include "kernels/fa1/hopper/launch.h"

ATTN_HOPPER_SHAPE(Hopper128);
ATTN_HOPPER_SHAPE(Hopper128Scored);
ATTN_HOPPER_SHAPE(Hopper128Lengths);
