"""Imports modules without waking the CUDA driver. Some modules ask on import which GPU there is. That wakes the driver,
and an awake driver does not survive the fork of a worker (worker.py). Without this, each worker would import the module
itself, which takes seconds after each crash."""

import contextlib
import ctypes
import os


@contextlib.contextmanager
def asleep():
    """A context in which torch.cuda.get_device_capability() asks NVML instead of the driver, for
    the first GPU.

        with asleep():
            import xformers.ops
    """
    import torch

    capability = None if torch.cuda.is_initialized() else first_capability()
    asked = torch.cuda.get_device_capability
    if capability:
        torch.cuda.get_device_capability = lambda *_: capability
    try:
        yield
    finally:
        torch.cuda.get_device_capability = asked


def first_capability():
    """For example (9, 0); None without a GPU."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    device, major, minor = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
    if nvml.nvmlInit_v2():
        return None
    found = (nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
             and nvml.nvmlDeviceGetCudaComputeCapability(device, ctypes.byref(major), ctypes.byref(minor)) == 0)
    nvml.nvmlShutdown()
    return (major.value, minor.value) if found else None


def awake():
    """True if this process has initialised the CUDA driver. Then a process that is forked from it cannot use the GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        return False  # nobody has loaded it
    return driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) == 0
