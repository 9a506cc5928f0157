"""attention.h for Python: the contract's structs, and kernels loaded from a library.

    kernel = load("lib/libattn_fa1_cuda.so")
    call = kernel.prepare(q, k, v, o, lse, causal=True, environment=environment())
    call()   # launches on torch's current stream, and raises if it was refused

Tensors are torch's, (batch, head, position, dim). Layouts follow attention.h
field by field, as far as the first contract goes: a library of a later one is called
as an older host would, one of another ABI is refused.
"""

import ctypes
from ctypes import c_char_p, c_float, c_int32, c_int64, c_uint32, c_uint64, c_void_p

ABI = 1
OK, UNSUPPORTED = 0, 1
NONE, F16, BF16 = -1, 0, 1
CUDA = 1


class Problem(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32), ("dtype", c_int32),
        ("batch", c_int64), ("heads_q", c_int64), ("heads_kv", c_int64), ("seq_q", c_int64), ("seq_k", c_int64),
        ("dim_qk", c_int64), ("dim_v", c_int64),
        ("scale", c_float), ("softcap", c_float), ("causal", c_int32), ("align", c_int32),
        ("window_left", c_int64), ("window_right", c_int64),
        ("has_key_lengths", c_int32), ("bias_dtype", c_int32), ("has_mask", c_int32), ("reserved", c_int32),
        ("num_splits", c_int64), ("features", c_uint64),
    ]


class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("stride", c_int64 * 4)]


class Tensors(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32), ("reserved", c_uint32),
        ("q", Tensor), ("k", Tensor), ("v", Tensor), ("o", Tensor), ("lse", Tensor), ("bias", Tensor),
        ("mask", Tensor),
        ("key_lengths", c_void_p), ("workspace", c_void_p), ("workspace_bytes", c_uint64),
    ]


class Report(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32), ("kind", c_int32), ("block", c_uint32 * 3), ("thread", c_uint32 * 3),
        ("message", c_char_p), ("file", c_char_p), ("line", c_int32), ("reserved", c_int32),
    ]


ReportFunction = ctypes.CFUNCTYPE(None, c_void_p, ctypes.POINTER(Report))


class Environment(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32), ("backend", c_int32), ("sm_count", c_int32), ("compute_capability", c_int32),
        ("shared_memory_limit", c_int64), ("schedule_seed", c_uint64), ("variant", c_int32), ("reserved", c_int32),
        ("stream", c_void_p), ("report", ReportFunction), ("user", c_void_p), ("probe", c_void_p),
    ]


class Plan(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32), ("accumulator", c_int32), ("path", ctypes.c_char * 64),
        ("tile_q", c_int64), ("tile_k", c_int64), ("num_splits", c_int64), ("split_tiles", c_int64),
        ("rescales", c_int64), ("merges", c_int64),
        ("mma_block", c_int32), ("exp_class", c_int32), ("log_class", c_int32), ("rcp_class", c_int32),
        ("tanh_class", c_int32), ("scale_mode", c_int32), ("p_format", c_int32), ("partial_format", c_int32),
        ("flush_to_zero", c_int32), ("isolates_masked_nan", c_int32), ("deterministic", c_int32),
        ("reserved", c_int32),
        ("workspace_bytes", c_uint64), ("workspace_align", c_uint64),
        ("key_order", c_int32), ("max_rule", c_int32), ("sum_rule", c_int32), ("sum_lanes", c_int32),
        ("dot_order", c_int32), ("merge_rule", c_int32), ("conversion", c_int32), ("v_format", c_int32),
        ("exp_error", c_float), ("p_scale", c_float), ("v_scale", c_float), ("reserved_2", c_int32),
    ]


_ProblemP, _TensorsP, _EnvironmentP, _PlanP = map(ctypes.POINTER, (Problem, Tensors, Environment, Plan))
PlanFunction = ctypes.CFUNCTYPE(c_int32, _ProblemP, _TensorsP, _EnvironmentP, _PlanP, c_char_p, c_uint64)
RunFunction = ctypes.CFUNCTYPE(c_int32, _ProblemP, _TensorsP, _PlanP, _EnvironmentP)


class KernelStruct(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32), ("abi", c_uint32), ("name", c_char_p), ("description", c_char_p),
        ("backend", c_int32), ("variant_count", c_uint32), ("variants", ctypes.POINTER(c_char_p)),
        ("build", c_void_p), ("plan", PlanFunction), ("run", RunFunction),
        ("partials", c_void_p), ("partial", c_void_p), ("reduce", c_void_p),
    ]


class Refused(Exception):
    """The kernel said no, in a sentence."""


def environment(properties, variant=0):
    """What to plan for, from torch.cuda.get_device_properties(); variant 0 is the kernel's own choice."""
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
    return Tensor(t.data_ptr(), (c_int64 * 4)(*t.stride()))


class Call:
    """One problem on one set of tensors, planned; calling it launches it."""

    def __init__(self, kernel, q, k, v, o, lse, causal, env, workspace=None, num_splits=0):
        import torch

        self.kernel, self.env, self.keep = kernel, env, (q, k, v, o, lse)
        self.o, self.lse = o, lse
        batch, heads_q, seq_q, dim_qk = q.shape
        self.problem = Problem(
            size=ctypes.sizeof(Problem), dtype=F16 if q.dtype == torch.float16 else BF16, batch=batch,
            heads_q=heads_q, heads_kv=k.shape[1], seq_q=seq_q, seq_k=k.shape[2], dim_qk=dim_qk, dim_v=v.shape[3],
            scale=dim_qk**-0.5, causal=int(causal), window_left=-1, window_right=-1, bias_dtype=NONE,
            num_splits=num_splits)
        self.tensors = Tensors(size=ctypes.sizeof(Tensors), q=_tensor(q), k=_tensor(k), v=_tensor(v), o=_tensor(o),
                               lse=_tensor(lse.unsqueeze(-1)))
        self.plan = Plan(size=ctypes.sizeof(Plan))
        reason = ctypes.create_string_buffer(512)
        status = kernel.struct.plan(self.problem, self.tensors, env, self.plan, reason, len(reason))
        if status != OK:
            raise Refused(f"{kernel.name} refuses: {reason.value.decode()}")
        if self.plan.size != ctypes.sizeof(Plan):
            raise Refused(f"{kernel.name} fills in a plan of {self.plan.size} bytes, not {ctypes.sizeof(Plan)}")
        if workspace is None or workspace.numel() < self.plan.workspace_bytes:
            workspace = torch.empty(max(self.plan.workspace_bytes, 16), dtype=torch.uint8, device=q.device)
        self.workspace = workspace
        self.tensors.workspace = workspace.data_ptr()
        self.tensors.workspace_bytes = workspace.numel()

    def __call__(self):
        import torch

        self.env.stream = torch.cuda.current_stream().cuda_stream
        status = self.kernel.struct.run(self.problem, self.tensors, self.plan, self.env)
        if status != OK:
            raise Refused(f"{self.kernel.name} did not run: status {status} {' '.join(self.env.messages)}")


class Kernel:
    def __init__(self, library, struct):
        self.library, self.struct, self.name = library, struct, struct.name.decode()

    def prepare(self, q, k, v, o, lse, causal, environment, workspace=None, num_splits=0):
        return Call(self, q, k, v, o, lse, causal, environment, workspace, num_splits)


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
