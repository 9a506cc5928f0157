#include "kernels/fa1/ampere/launch.h"

ATTN_AMPERE_SHAPE(Ampere128);
ATTN_AMPERE_SHAPE(Ampere128Scored);
