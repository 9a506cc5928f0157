#include "kernels/fa1/launch.h"

template attn_status attn::fa1_launch<attn::F16>(size_t, const ForwardParams&, const attn_env*);
