"""Calls kernels of a library on torch's tensors.

    kernel = load("lib/libattn_fa1_cuda.so")
    call = kernel.prepare(q, k, v, o, lse, True, environment(torch.cuda.get_device_properties(0)))
    call()   # launches on torch's current stream, and raises if it was refused
    call = kernel.prepare_backward(q, k, v, o, lse, dout, (dq, dk, dv), True, env)  # a kernel of gradients
    call = kernel.prepare(q, k, v, o, lse, True, env, lists=Lists(indices, 64))     # a kernel of listed blocks

Tensors are (batch, head, position, dim). A library of another ABI is refused.
"""

import ctypes
import dataclasses
import sys
from ctypes import c_int64, c_uint32
from pathlib import Path

# A build makes contract.py. A bundle has it in python/; a source tree has it in its build trees.
_here = Path(__file__).resolve()
_packages = [_here.parents[2] / "python", *sorted(_here.parents[2].glob("build/*/python"))]
sys.path += [str(p) for p in _packages if (p / "attnfuzz/contract.py").exists()][:1]
from attnfuzz.contract import (ABI, BF16, CUDA, F16, NONE, OK, FEATURE_BITS, FEATURE_WIDE, OPERATIONS,  # noqa: E402
                               Environment, KernelStruct, Plan, Problem, ReportFunction, Tensors, TensorView)


class Refused(Exception):
    """Raised when a kernel refuses a problem; has the reason."""


def environment(properties, variant=0):
    """The device to plan for, from torch.cuda.get_device_properties(). Variant 0 is the kernel's
    own choice."""
    messages = []

    @ReportFunction
    def report(_, text):
        messages.append(text.contents.message.decode())

    env = Environment(size=ctypes.sizeof(Environment), backend=CUDA, sm_count=properties.multi_processor_count,
                      compute_capability=10 * properties.major + properties.minor,
                      shared_memory_limit=getattr(properties, "shared_memory_per_block_optin", 232448),
                      variant=variant, report=report)
    env.messages, env.keep = messages, report
    return env


def _tensor(t):
    return TensorView(t.data_ptr(), (c_int64 * 4)(*t.stride()))


def _format(t):
    return {"torch.float16": F16, "torch.bfloat16": BF16}[str(t.dtype)]


class Planned:
    """A problem on one set of tensors; calling it launches it."""

    def _list(self, lists, operation):
        p = self.problem
        p.select, p.block, p.index_dtype = lists.indices.shape[3], lists.block, 1
        p.features |= OPERATIONS[operation] | FEATURE_BITS["int32"]
        self.tensors.indices = _tensor(lists.indices)

    def _take_plan(self, workspace):
        import torch

        kernel = self.kernel
        self.plan = Plan(size=ctypes.sizeof(Plan))
        reason = ctypes.create_string_buffer(512)
        status = kernel.struct.plan(self.problem, self.tensors, self.env, self.plan, reason, len(reason))
        if status != OK:
            raise Refused(f"{kernel.name} refuses: {reason.value.decode()}")
        if self.plan.size != ctypes.sizeof(Plan):
            raise Refused(f"{kernel.name} fills in a plan of {self.plan.size} bytes, not {ctypes.sizeof(Plan)}")
        if workspace is None or workspace.numel() < self.plan.workspace_bytes:
            workspace = torch.empty(max(self.plan.workspace_bytes, 16), dtype=torch.uint8, device=self.device)
        self.workspace = workspace
        self.tensors.workspace = workspace.data_ptr()
        self.tensors.workspace_bytes = workspace.numel()

    def __call__(self):
        import torch

        self.env.stream = torch.cuda.current_stream().cuda_stream
        status = self.kernel.struct.run(self.problem, self.tensors, self.plan, self.env)
        if status != OK:
            raise Refused(f"{self.kernel.name} did not run: status {status} {' '.join(self.env.messages)}")


@dataclasses.dataclass
class Packed:
    """Packed entries: Q, K and V have batch 1. Offsets are int32, on the device; `longest`: queries, or keys, of the
    longest entry."""
    cu: object
    entries: int
    longest: int


@dataclasses.dataclass
class Lists:
    """The blocks that each query sees: indices (batch, KV head, query, place), int32, and the keys of a block."""
    indices: object
    block: int


class Call(Planned):
    """A forward pass."""

    def __init__(self, kernel, q, k, v, o, lse, causal, env, workspace=None, num_splits=0, window_left=-1,
                 softcap=0.0, key_lengths=None, bias=None, latent=False, packed=None, table=None, lists=None):
        self.kernel, self.env, self.keep = kernel, env, (q, k, v, o, lse, key_lengths, bias, packed, table, lists)
        self.device, self.o, self.lse = q.device, o, lse
        batch, heads_q, seq_q, dim_qk = q.shape
        self.problem = Problem(
            size=ctypes.sizeof(Problem), dtype=_format(q), batch=batch, heads_q=heads_q, heads_kv=k.shape[1],
            seq_q=seq_q, seq_k=k.shape[2], dim_qk=dim_qk, dim_v=v.shape[3], scale=dim_qk**-0.5, causal=int(causal),
            window_left=window_left, window_right=-1, softcap=softcap, has_key_lengths=int(key_lengths is not None),
            num_splits=num_splits,
            bias_dtype=NONE if bias is None else _format(bias), latent=int(latent),
            features=(FEATURE_BITS["latent"] if latent else 0) | (FEATURE_WIDE if dim_qk > 256 else 0))
        self.tensors = Tensors(size=ctypes.sizeof(Tensors), q=_tensor(q), k=_tensor(k), v=_tensor(v), o=_tensor(o),
                               lse=_tensor(lse.unsqueeze(-1)))
        if key_lengths is not None:
            self.tensors.key_lengths = key_lengths.data_ptr()
        if bias is not None:
            self.tensors.bias = _tensor(bias)
        if packed is not None:
            self._pack(packed)
        if table is not None:
            self._page(table)
        if lists is not None:
            self._list(lists, "selected")
        self._take_plan(workspace)

    def _pack(self, packed):
        p = self.problem
        p.total_q, p.total_k, p.ragged, p.index_dtype = p.seq_q, p.seq_k, 3, 1
        p.batch, p.seq_q, p.seq_k = packed.entries, packed.longest, packed.longest
        p.features |= FEATURE_BITS["packed"] | FEATURE_BITS["int32"]
        self.tensors.cu_q = self.tensors.cu_k = packed.cu.data_ptr()

    def _page(self, table):
        p = self.problem
        entries, p.pages_per_seq = table.shape
        p.pages, p.page_size, p.index_dtype = self.keep[1].shape[0], p.seq_k, 1
        p.seq_k = p.pages_per_seq * p.page_size
        p.features |= FEATURE_BITS["paged"] | FEATURE_BITS["int32"]
        self.tensors.block_table = TensorView(table.data_ptr(), (c_int64 * 4)(table.stride(0), 0, 0, table.stride(1)))


class BackwardCall(Planned):
    """A backward pass. `grads`: dQ, dK and dV, which are written."""

    def __init__(self, kernel, q, k, v, o, lse, dout, grads, causal, env, workspace=None, lists=None):
        self.kernel, self.env, self.keep = kernel, env, (q, k, v, o, lse, dout, lists)
        self.device, self.grads = q.device, grads
        batch, heads_q, seq_q, dim_qk = q.shape
        self.problem = Problem(
            size=ctypes.sizeof(Problem), dtype=_format(q), batch=batch, heads_q=heads_q,
            heads_kv=k.shape[1], seq_q=seq_q, seq_k=k.shape[2], dim_qk=dim_qk, dim_v=v.shape[3], scale=dim_qk**-0.5,
            causal=int(causal), window_left=-1, window_right=-1, bias_dtype=NONE, features=0 if lists else OPERATIONS["backward"])
        dq, dk, dv = grads
        self.tensors = Tensors(size=ctypes.sizeof(Tensors), q=_tensor(q), k=_tensor(k), v=_tensor(v), o=_tensor(o),
                               lse=_tensor(lse.unsqueeze(-1)), dout=_tensor(dout), dq=_tensor(dq), dk=_tensor(dk),
                               dv=_tensor(dv))
        if lists is not None:
            self._list(lists, "selected_backward")
        self._take_plan(workspace)


class Kernel:
    def __init__(self, library, struct):
        self.library, self.struct, self.name = library, struct, struct.name.decode()

    def prepare(self, *arguments, **named):
        """A Call of this kernel. `key_lengths`: int64, one a batch entry; `bias`: (batch, head, query, key), expanded;
        `latent`: v is a view of k's first columns; `packed`: a Packed; `table`: (entry, page), int32, of pools k and v
        (page, head, slot, dim), and then key_lengths are int32; `lists`: Lists, for a kernel of ATTN_FEATURE_SELECTED."""
        return Call(self, *arguments, **named)

    def prepare_backward(self, *arguments, **named):
        """A BackwardCall of this kernel, which has ATTN_FEATURE_BACKWARD, or with `lists` ATTN_FEATURE_SELECTED_BACKWARD."""
        return BackwardCall(self, *arguments, **named)


def load(path):
    """The first kernel of a library; raises Refused if it speaks another contract."""
    library = ctypes.CDLL(path)
    library.attn_kernel_at.restype = ctypes.POINTER(KernelStruct)
    library.attn_kernel_at.argtypes = [c_uint32]
    pointer = library.attn_kernel_at(0)
    if not pointer:
        raise Refused(f"{path} holds no kernel")
    struct = pointer.contents
    if struct.abi != ABI or struct.size < ctypes.sizeof(KernelStruct):
        raise Refused(f"{path} speaks ABI {struct.abi} with a descriptor of {struct.size} bytes; this script knows "
                      f"ABI {ABI} with {ctypes.sizeof(KernelStruct)}")
    return Kernel(library, struct)
