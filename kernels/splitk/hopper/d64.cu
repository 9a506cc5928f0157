#include "kernels/splitk/hopper/launch.h"

ATTN_DECODE_SHAPE(Decode64);
ATTN_DECODE_SHAPE(Decode64Scored);
