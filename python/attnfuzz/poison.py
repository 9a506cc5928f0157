"""Poisons the memory that a library allocates by itself (fuzz/worker/memory/poison.h). Memory that
the library has not written reads as NaN, -1 or True."""

import ctypes
import os
import sys

# From PyArray_API, NumPy's table of C functions.
_SET_HANDLER = 304
_M_PERTURB = -6
# malloc fills with the complement of the low byte, and 0 means "off". This value fills with 0xff.
_PERTURB = 0x100


def poison_host(host):
    """Poisons this process from now on. `host`: the library that hosts the worker."""
    try:
        ctypes.CDLL(None).mallopt(_M_PERTURB, _PERTURB)
    except AttributeError:
        pass  # not glibc
    core = sys.modules.get("numpy._core._multiarray_umath") or sys.modules.get("numpy.core._multiarray_umath")
    if core is None:
        return
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(pointer(core._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    host.attnfuzz_numpy_memory.restype = ctypes.c_void_p
    capsule = new(host.attnfuzz_numpy_memory(), b"mem_handler", None)
    ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER])(capsule)


def poison_device(library):
    """Poisons PyTorch's memory on a GPU, if none has been allocated yet."""
    import torch

    memory = torch.cuda.memory
    try:
        allocator = memory.CUDAPluggableAllocator(library, "attnfuzz_device_memory", "attnfuzz_free_device_memory")
        memory.change_current_allocator(allocator)
    except RuntimeError as e:
        print(f"attnfuzz: what PyTorch allocates on the GPU is not poisoned: {e}", file=sys.stderr)


def wanted():
    return os.environ.get("ATTNFUZZ_POISON", "1") != "0"
