"""Targets of xformers_attention.py and flashinfer_attention.py as they are, on a CPU: in the place of each library its
conventions, as its source has them (xFormers 0.0.35, FlashInfer 0.7.2), computed by plain PyTorch. What the adapters convert, and
how much of what they declare is judged, does not need a GPU."""

import importlib.util
import math
import sys
import types
from dataclasses import dataclass, replace

import torch

import attnfuzz
from attnfuzz.targets import path

torch.set_num_threads(1)


def attend(q, k, v, scale, seen=None, bias=None, softcap=0.0):
    """(..., position, dim) in fp32; O as Q, and the natural LSE."""
    scores = q.float() @ k.float().transpose(-1, -2) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias.float()
    if seen is not None:
        scores = scores.masked_fill(~seen, -math.inf)
    lse = scores.logsumexp(-1)
    p = scores.softmax(-1).masked_fill(lse[..., None] == -math.inf, 0)
    return (p @ v.float()).to(q.dtype), lse


def band(queries, keys, left, right, shift):
    offset = torch.arange(keys)[None, :] - torch.arange(queries)[:, None] - shift
    return (offset >= -left) & (offset <= right)


# xFormers: batch, position, heads (or groups and heads of a group), dim.
class LowerTriangularMask:
    def seen(self, m, n):
        return band(m, n, m + n, 0, 0)


class LowerTriangularFromBottomRightMask:
    def seen(self, m, n):
        return band(m, n, m + n, 0, n - m)


@dataclass
class LowerTriangularFromBottomRightLocalAttentionMask:
    _window_size: int

    def seen(self, m, n):
        return band(m, n, self._window_size - 1, 0, n - m)


@dataclass
class LocalAttentionFromBottomRightMask:
    window_left: int
    window_right: int

    def __post_init__(self):
        if self.window_left < 0 or self.window_right < 0:
            raise ValueError("Invalid window value passed")

    def seen(self, m, n):
        return band(m, n, self.window_left, self.window_right, n - m)


@dataclass
class BlockDiagonalPaddedKeysMask:
    queries: list
    padding: int
    keys: list
    causal = False

    @classmethod
    def from_seqlens(cls, q_seqlen, kv_padding, kv_seqlen, device=None):
        if any(not 0 <= n <= kv_padding for n in kv_seqlen):
            raise ValueError("lengths beyond the padding")
        return cls(q_seqlen, kv_padding, kv_seqlen)


class BlockDiagonalCausalWithOffsetPaddedKeysMask(BlockDiagonalPaddedKeysMask):
    causal = True


class Cutlass:
    masks = (LowerTriangularMask, LowerTriangularFromBottomRightMask)
    bias, pad, dead = True, 32, math.inf


class Flash:
    masks = (LowerTriangularMask, LowerTriangularFromBottomRightMask, LocalAttentionFromBottomRightMask,
             LowerTriangularFromBottomRightLocalAttentionMask)
    bias, pad, dead = False, 1, math.inf


class SplitK:
    masks = (BlockDiagonalPaddedKeysMask, BlockDiagonalCausalWithOffsetPaddedKeysMask)
    bias, pad, dead = True, 1, -math.inf


def forward_requires_grad(query, key, value, attn_bias=None, scale=None, *, op):
    reasons = []
    if query.shape[-1] % 8 or value.shape[-1] % 8 or query.stride(-2) % 8:
        reasons.append("alignment")
    if isinstance(attn_bias, torch.Tensor):
        if not op.bias or attn_bias.dtype != query.dtype or any(s % 8 for s in attn_bias.stride()[:-1]):
            reasons.append(f"bias {attn_bias.dtype} {attn_bias.shape} {attn_bias.stride()}")
    elif attn_bias is not None and type(attn_bias) not in op.masks:
        reasons.append(type(attn_bias).__name__)
    if op is not Cutlass and query.shape[-1] != value.shape[-1]:
        reasons.append("dims")
    if op is SplitK and query.shape[-1] not in (16, 32, 64, 128, 256, 512):
        reasons.append("embed dim")
    if op is Flash and isinstance(attn_bias, LowerTriangularMask) and query.shape[1] != key.shape[1]:
        reasons.append("top left")
    if op is SplitK and getattr(attn_bias, "causal", False) and max(attn_bias.queries) > 16:
        reasons.append("more than 16 queries")
    if reasons:
        raise ValueError(f"Operator `{op.__name__}` does not support inputs: {reasons}")
    if isinstance(attn_bias, BlockDiagonalPaddedKeysMask):
        assert query.shape[0] == 1 and len(set(attn_bias.queries)) == 1
        m, n = attn_bias.queries[0], attn_bias.padding
        q, k, v = (t.unflatten(1, (-1, rows)).squeeze(0) for t, rows in ((query, m), (key, n), (value, n)))
        v = v.nan_to_num(0)  # what lies beyond a length is not read
        lengths = torch.tensor(attn_bias.keys).reshape(-1, *[1] * (query.ndim - 1))
        seen = torch.arange(n) < lengths
        if attn_bias.causal:
            seen = seen & (torch.arange(n) <= torch.arange(m)[:, None] + lengths - m)
    else:
        q, k, v, seen = query, key, value, None
        if attn_bias is not None and not isinstance(attn_bias, torch.Tensor):
            seen = attn_bias.seen(q.shape[1], k.shape[1])
    bias = attn_bias if isinstance(attn_bias, torch.Tensor) else None
    out, lse = attend(*(t.movedim(1, -2) for t in (q, k, v)), scale, seen, bias)
    lse = lse.masked_fill(lse == -math.inf, op.dead)
    lse = torch.nn.functional.pad(lse, (0, -lse.shape[-1] % op.pad), value=7.0)
    out = out.movedim(-2, 1)
    if isinstance(attn_bias, BlockDiagonalPaddedKeysMask):
        out = out.flatten(0, 1)[None]
    return out, lse


# FlashInfer: position, heads, dim; an LSE of base 2.
def prefill(q, k, v, custom_mask=None, causal=False, kv_layout="NHD", sm_scale=None, window_left=-1, logits_soft_cap=None,
            backend="auto", return_lse=False):
    if kv_layout == "HND":
        k, v = k.transpose(0, 1), v.transpose(0, 1)
    m, n = q.shape[0], k.shape[0]
    far = m + n
    if causal and custom_mask is None and m > n and backend == "fa2":
        raise RuntimeError("kv_len must be greater than or equal to qo_len")
    if backend == "fa3" and (custom_mask is not None or window_left >= 0):
        raise RuntimeError("not done")
    seen = band(m, n, window_left if window_left >= 0 else far, 0 if causal and custom_mask is None else far, n - m)
    if custom_mask is not None:
        seen = seen & custom_mask
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    out, lse = attend(*(t.transpose(0, 1) for t in (q, k, v)), sm_scale, seen, None, logits_soft_cap or 0)
    return out.transpose(0, 1), lse.transpose(0, 1) / math.log(2)


def decode(q, k, v, kv_layout="NHD", sm_scale=None, window_left=-1, logits_soft_cap=None, return_lse=False):
    if not (q.is_contiguous() and k.is_contiguous() and v.is_contiguous()):
        raise RuntimeError("must be contiguous")
    out, lse = prefill(q[None], k, v, None, False, kv_layout, sm_scale, window_left, logits_soft_cap)
    return out[0], lse[0]


def module(name, **names):
    sys.modules[name] = made = types.ModuleType(name)
    vars(made).update(names)
    return made


def operator(of):
    return types.SimpleNamespace(FwOp=of)


masks = types.SimpleNamespace(**{c.__name__: c for c in (*Cutlass.masks, *Flash.masks, *SplitK.masks)})
fmha = module("xformers.ops.fmha", attn_bias=masks, cutlass=operator(Cutlass), flash=operator(Flash),
              triton_splitk=operator(SplitK))
module("xformers", ops=module("xformers.ops", fmha=fmha, memory_efficient_attention_forward_requires_grad=forward_requires_grad))
module("flashinfer", single_prefill_with_kv_cache=prefill, single_decode_with_kv_cache=decode)


def here(library):
    spec = importlib.util.spec_from_file_location(f"{library}_here", path(library))
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    for name, target in vars(loaded).items():
        if isinstance(target, attnfuzz.declare.Target):
            yield name, attnfuzz.target(target.function, arrays="torch", tiles=target.tiles, domain=target.domain,
                                        errors=replace(target.errors, flush_to_zero=True))


for _library, _prefix in (("xformers_attention", "xformers_"), ("flashinfer_attention", "flashinfer_")):
    for _name, _target in here(_library):
        globals()[_prefix + _name] = _target
del _target
