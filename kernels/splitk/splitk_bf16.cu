#include "kernels/splitk/launch.h"
#include "kernels/splitk/wide/kernel.h"

template attn_status attn::splitk_launch_partial<attn::BF16>(size_t, const ForwardParams&, const SplitParams&,
                                                             bool, const attn_env*);
template attn_status attn::splitk_launch_reduce<attn::BF16>(const ForwardParams&, const SplitParams&,
                                                            const attn_env*);
template attn_status attn::splitk_launch_wide<attn::BF16>(const ForwardParams&, const SplitParams&, bool, bool,
                                                         const attn_env*);
