// The second of the mma path's two instantiations. fa1a.cu has the first, which limits the columns that it takes.
#include "kernels/fa1/ampere/launch.h"

ATTN_AMPERE_SHAPE(Ampere128);
ATTN_AMPERE_SHAPE(Ampere128Scored);
