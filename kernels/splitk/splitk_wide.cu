#include "kernels/splitk/wide/kernel.h"

template attn_status attn::splitk_launch_wide<attn::F16>(const ForwardParams&, const SplitParams&, bool, bool,
                                                         const attn_env*);
template attn_status attn::splitk_launch_wide<attn::BF16>(const ForwardParams&, const SplitParams&, bool, bool,
                                                          const attn_env*);
