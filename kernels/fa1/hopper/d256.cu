#include "kernels/fa1/hopper/launch.h"

ATTN_HOPPER_SHAPE(Hopper256);
ATTN_HOPPER_SHAPE(Hopper256Short);
ATTN_HOPPER_SHAPE(Hopper256Lengths);
