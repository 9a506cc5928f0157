#include "kernels/splitk/launch.h"

template attn_status attn::splitk_launch_reduce<attn::F16>(const ForwardParams&, const SplitParams&, const attn_env*);
template attn_status attn::splitk_launch_reduce<attn::BF16>(const ForwardParams&, const SplitParams&, const attn_env*);
