#include "kernels/splitk/launch.h"

template attn_status attn::splitk_launch_partial<attn::F16, true>(size_t, const ForwardParams&, const SplitParams&,
                                                                  bool, const attn_env*);
template attn_status attn::splitk_launch_partial<attn::BF16, true>(size_t, const ForwardParams&, const SplitParams&,
                                                                   bool, const attn_env*);
