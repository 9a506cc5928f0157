"""vLLM's decode_attention_fwd and unified_attention (Triton): a sequence without keys. decode gives O = 0 / 0. unified_attention
gives 0 in one pass; with its keys in segments it does not write O, which is what the memory held.

    python3 docs/found/vllm/vllm-sequence-without-keys.py       status 1: it shows, 0: it does not
"""
import importlib.metadata
import sys

import torch
from vllm.v1.attention.ops.triton_decode_attention import decode_attention_fwd
from vllm.v1.attention.ops.triton_unified_attention import unified_attention

print("torch", torch.__version__, "vllm", importlib.metadata.version("vllm"))
HEADS, DIM = 2, 16
q = torch.zeros(1, HEADS, DIM, dtype=torch.float16, device="cuda")
k = torch.zeros(1, 16, 1, DIM, dtype=torch.float16, device="cuda")
table, lengths = (torch.zeros(shape, dtype=torch.int32, device="cuda") for shape in ((1, 1), (1,)))

o, parts = torch.full_like(q, 1234.0), torch.empty(1, HEADS, 4, DIM + 1, device="cuda")
decode_attention_fwd(q, k, k, o, torch.empty(1, HEADS, device="cuda"), table, lengths, parts, 4, 1.0, page_size=16)
found = [o[0, 0, 0].item()]
print("decode_attention_fwd: O", found[0])
for segments in (None, 16):
    o = torch.full_like(q, 1234.0)
    room = [torch.empty(1, HEADS, 16, *rest, device="cuda") if segments else None for rest in ((DIM,), (), ())]
    ends = torch.tensor([0, 1], dtype=torch.int32, device="cuda")
    unified_attention(q, k, k, o, ends, 1, lengths, 1, 1.0, True, (-1, -1), table, 0.0, None, None, None, seq_threshold_3D=1 << 30 if segments else None,
                      num_par_softmax_segments=segments, softmax_segm_output=room[0], softmax_segm_max=room[1], softmax_segm_expsum=room[2])
    found.append(o[0, 0, 0].item())
    print("unified_attention,", segments or "no", "segments: O", found[-1])
sys.exit(any(x != 0 for x in found))
