"""Targets of torch_sdpa.py as they are, on a CPU: in the place of each back end math, which refuses what PyTorch's own checks
of a call refuse (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, as of late 2026, on an sm_90 with cuDNN 9.19). How
much of what they declare is judged does not need a GPU."""

import contextlib
import importlib.util

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import attnfuzz
from attnfuzz.targets import path

torch.set_num_threads(1)
spec = importlib.util.spec_from_file_location("torch_sdpa_here", path("torch_sdpa"))
sdpa = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sdpa)

chosen = None


@contextlib.contextmanager
def choose(backend):
    global chosen
    chosen = backend
    yield


def refusal(q, k, v, mask, causal):
    sizes = (*q.shape, *k.shape, *v.shape)
    if 0 in sizes or any(t.stride(3) != 1 and t.shape[3] != 1 for t in (q, k, v)):
        return "a size of 0, or columns apart"
    if q.dtype not in (torch.float16, torch.bfloat16) or {k.shape[1], v.shape[1]} != {q.shape[1]}:
        return "formats or heads"
    if mask is not None and (causal or mask.dtype not in (torch.bool, q.dtype)):
        return "a mask with causal, or of another format"
    if q.shape[3] % 8 or v.shape[3] % 8:
        return "dims that are no multiple of 8"
    if chosen == SDPBackend.CUDNN_ATTENTION:
        if max(q.shape[0], q.shape[1]) > 65535 or max(q.shape[3], v.shape[3]) > 128 or k.shape[2] == 1:
            return "cuDNN: sizes"
    elif any(s >= 2**31 for t in (q, k, v) for s in t.stride()[:3]):
        return "overflows"
    return None


class Functional:
    @staticmethod
    def scaled_dot_product_attention(q, k, v, attn_mask=None, is_causal=False, scale=None):
        why = refusal(q, k, v, attn_mask, is_causal)
        if why:
            raise RuntimeError(f"No available kernel: {why}")
        with sdpa_kernel(SDPBackend.MATH):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, is_causal=is_causal,
                                                                    scale=scale)


sdpa.F, sdpa.sdpa_kernel = Functional, choose


def here(target):
    return attnfuzz.target(target.function, arrays="torch", tiles=target.tiles, errors=target.errors, domain=target.domain)


efficient, cudnn = here(sdpa.efficient), here(sdpa.cudnn)
