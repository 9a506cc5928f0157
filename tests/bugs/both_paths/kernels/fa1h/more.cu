// The second of fa1h's two instantiations; fa1h.cu has the first.
#include "kernels/fa1/hopper/launch.h"

ATTN_HOPPER_SHAPE(Hopper64Short);
