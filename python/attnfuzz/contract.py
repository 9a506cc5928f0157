"""The structs of kernels/attention.h, field by field, for ctypes.

As far as the first contract goes: a library of a later one is called as an older host
would. Exported programs carry this file whole: it needs Python's own library and nothing else.
"""

import ctypes
from ctypes import c_char, c_char_p, c_float, c_int32, c_int64, c_uint32, c_uint64, c_void_p

ABI = 1
OK, UNSUPPORTED, INVALID, LAUNCH_FAILED, FAULT = range(5)
NONE, F16, BF16, F32 = -1, 0, 1, 2
FEATURE_F32 = 1
FORMAT_TF32 = 5
TOP_LEFT, BOTTOM_RIGHT = 0, 1
CPU, CUDA = 0, 1


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


class TensorView(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("stride", c_int64 * 4)]


class Tensors(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32), ("reserved", c_uint32),
        ("q", TensorView), ("k", TensorView), ("v", TensorView), ("o", TensorView), ("lse", TensorView),
        ("bias", TensorView), ("mask", TensorView),
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
        ("shared_memory_limit", c_int64), ("schedule_seed", c_uint64), ("variant", c_int32), ("arithmetic", c_int32),
        ("stream", c_void_p), ("report", ReportFunction), ("user", c_void_p), ("probe", c_void_p),
    ]


class Plan(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32), ("accumulator", c_int32), ("path", c_char * 64),
        ("tile_q", c_int64), ("tile_k", c_int64), ("num_splits", c_int64), ("split_tiles", c_int64),
        ("rescales", c_int64), ("merges", c_int64),
        ("mma_block", c_int32), ("exp_class", c_int32), ("log_class", c_int32), ("rcp_class", c_int32),
        ("tanh_class", c_int32), ("scale_mode", c_int32), ("p_format", c_int32), ("partial_format", c_int32),
        ("flush_to_zero", c_int32), ("isolates_masked_nan", c_int32), ("deterministic", c_int32),
        ("reserved", c_int32),
        ("workspace_bytes", c_uint64), ("workspace_align", c_uint64),
        ("key_order", c_int32), ("max_rule", c_int32), ("sum_rule", c_int32), ("sum_lanes", c_int32),
        ("dot_order", c_int32), ("merge_rule", c_int32), ("conversion", c_int32), ("v_format", c_int32),
        ("exp_error", c_float), ("p_scale", c_float), ("v_scale", c_float), ("qk_format", c_int32),
        ("score_rule", c_int32), ("tanh_rule", c_int32), ("rescale_rule", c_int32), ("tile_order", c_int32),
        ("sum_run", c_int32), ("merge_order", c_int32), ("norm_rule", c_int32), ("lse_rule", c_int32),
        ("merge_format", c_int32), ("lse_base", c_int32), ("lse_dead", c_int32), ("reserved_end", c_int32),
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
