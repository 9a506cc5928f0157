#include "kernels/splitk/hopper/launch.h"

ATTN_DECODE_SHAPE(Decode128);
ATTN_DECODE_SHAPE(Decode128Scored);
