// Those of fa1h's instantiations that only its mutants have.
#include "kernels/fa1/hopper/launch.h"

ATTN_HOPPER_SHAPE(Hopper64Mid);
ATTN_HOPPER_SHAPE(Hopper128);
