#include "kernels/fa1/ampere/launch.h"

ATTN_AMPERE_SHAPE(Ampere64);
ATTN_AMPERE_SHAPE(Ampere64Scored);
