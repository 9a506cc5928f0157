"""A right target whose import wakes the CUDA driver. ATTNFUZZ_FAKE_DRIVER names a library that stands for libcuda.so.1."""

import ctypes
import os

import attnfuzz
from attnfuzz.targets import numpy_reference

driver = ctypes.CDLL(os.environ["ATTNFUZZ_FAKE_DRIVER"])
driver.cuInit(0)
os.chdir("/")  # what an import changes is undone before the file is imported anew


@attnfuzz.target(bf16="bits", errors=numpy_reference.ERRORS, domain=attnfuzz.Domain(bias=False, mask=False, key_lengths=False))
def target(p, q, k, v):
    assert driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) == 0, "the driver does not survive a fork"
    return numpy_reference.attention.function(p, q, k, v)
