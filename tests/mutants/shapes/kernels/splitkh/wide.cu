// Those of splitkh's instantiations that only its mutants have.
#include "kernels/splitk/hopper/launch.h"

ATTN_DECODE_SHAPE(Decode256);
ATTN_DECODE_SHAPE(Decode128Scored);
