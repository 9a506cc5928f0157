// Starts the kernel on the stream of `env`.
#pragma once

#include "attention.cuh"
#include "kernels/primitives/launch.h"

attn_status launch_attention(bool bf16, const AttentionArgs& args, unsigned blocks, const attn_env* env);
