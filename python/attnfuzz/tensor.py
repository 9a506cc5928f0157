"""A strided view of guarded memory that NumPy, torch and others use without a copy.

Strides count elements and are the case's: 0 for a broadcast dimension, gaps, any order.
"""

import ctypes
import struct
from ctypes import CFUNCTYPE, POINTER, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p

# name: bytes, NumPy's letter, DLPack's type code
_TYPES = {"f16": (2, "<f2", 2), "bf16": (2, "<u2", 4), "f32": (4, "<f4", 2), "bool": (1, "|b1", 6), "i64": (8, "<i8", 0),
          "i32": (4, "<i4", 0)}
DLPACK_CPU, DLPACK_CUDA = 1, 2


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class _Managed(ctypes.Structure):
    pass


_Deleter = CFUNCTYPE(None, POINTER(_Managed))
_Managed._fields_ = [("tensor", _DLTensor), ("context", c_void_p), ("deleter", _Deleter)]

_alive = {}  # structures that consumers still hold, by address


@_Deleter
def _release(managed):
    _alive.pop(ctypes.addressof(managed.contents), None)


_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [c_void_p, ctypes.c_char_p, c_void_p]


class Tensor:
    __slots__ = ("data", "shape", "strides", "dtype", "cuda", "itemsize")

    def __init__(self, data, shape, strides, dtype, cuda=False):
        self.data, self.shape, self.dtype, self.cuda = data or 0, tuple(shape), dtype, cuda
        self.itemsize = _TYPES[dtype][0]
        # The stride of a dimension with one element means nothing, but libraries check it. The last
        # dimension's, and any that no allocation could have, become 1.
        strides, last = list(strides), len(self.shape) - 1
        for i, n in enumerate(self.shape):
            if n < 2 and not (n == 1 and i < last and 0 <= strides[i] < 1 << 40):
                strides[i] = 1
        self.strides = tuple(strides)

    def backwards(self):
        """The dimensions with a negative stride."""
        return [i for i, stride in enumerate(self.strides) if stride < 0] if min(self.strides) < 0 else []

    def forwards(self):
        """The same elements, with the dimensions of backwards() reversed."""
        first = sum((self.shape[i] - 1) * self.strides[i] for i in self.backwards()) * self.itemsize
        return Tensor(self.data + first, self.shape, [abs(s) for s in self.strides], self.dtype, self.cuda)

    def first(self, dimension, count):
        """The first `count` elements of a dimension, and all elements of the others."""
        shape = [min(n, count) if i == dimension else n for i, n in enumerate(self.shape)]
        return Tensor(self.data, shape, self.strides, self.dtype, self.cuda)

    @property
    def __array_interface__(self):
        if self.cuda:
            raise AttributeError("this tensor lies in device memory")
        return {"shape": self.shape, "typestr": _TYPES[self.dtype][1], "version": 3,
                "data": (self.data, False), "strides": tuple(s * self.itemsize for s in self.strides)}

    def __dlpack_device__(self):
        return (DLPACK_CUDA if self.cuda else DLPACK_CPU, 0)

    def __dlpack__(self, stream=None, max_version=None, dl_device=None, copy=None):
        n = len(self.shape)
        shape, strides = (c_int64 * n)(*self.shape), (c_int64 * n)(*self.strides)
        managed = _Managed()
        t = managed.tensor
        t.data = self.data
        t.device_type, t.device_id = self.__dlpack_device__()
        t.ndim, t.code, t.bits, t.lanes = n, _TYPES[self.dtype][2], 8 * self.itemsize, 1
        t.shape, t.strides = ctypes.cast(shape, POINTER(c_int64)), ctypes.cast(strides, POINTER(c_int64))
        managed.deleter = _release
        address = ctypes.addressof(managed)
        _alive[address] = (managed, shape, strides)
        return _capsule(address, b"dltensor", None)

    def lend(self):
        """Like __dlpack__, for a consumer that copies everything but the address before the next tensor is lent, like
        PyTorch. All use one structure, and none must be given back."""
        unused = (1,) * (_MOST_DIMENSIONS - len(self.shape))
        _MANAGED.pack_into(_lent, 0, self.data, DLPACK_CUDA if self.cuda else DLPACK_CPU, 0, len(self.shape),
                           _TYPES[self.dtype][2], 8 * self.itemsize, 1, _sizes_lent, _strides_lent, 0, 0, 0,
                           *self.shape, *unused, *self.strides, *unused)
        return _capsule(_address_lent, b"dltensor", None)


_MOST_DIMENSIONS = 4
_MANAGED = struct.Struct("@QiiiBBHQQQQQ4q4q")  # _Managed with a NULL deleter, sizes and strides
_lent = ctypes.create_string_buffer(_MANAGED.size)
_address_lent = ctypes.addressof(_lent)
_sizes_lent = _address_lent + ctypes.sizeof(_Managed)
_strides_lent = _sizes_lent + 8 * _MOST_DIMENSIONS


def numpy_view(tensor):
    """bf16 as ml_dtypes.bfloat16 if that is installed, else as its bits in uint16."""
    import numpy

    if 0 in tensor.shape or not tensor.data:
        view = numpy.empty(tensor.shape, _TYPES[tensor.dtype][1])
    else:
        view = numpy.asarray(tensor)
    if tensor.dtype != "bf16":
        return view
    bfloat16 = numpy_bfloat16()
    return view if bfloat16 is None else view.view(bfloat16)


def numpy_bfloat16():
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        return None
    import numpy

    return numpy.dtype(bfloat16)


def as_float32(array):
    """A NumPy array of f16, bf16 (also as bits in uint16) or f32, converted to fp32 exactly."""
    import numpy

    if array.dtype == numpy.uint16:
        return (array.astype(numpy.uint32) << 16).view(numpy.float32)
    return array.astype(numpy.float32)


def to_bits_of_bf16(array):
    """fp32 rounded to bf16, to nearest even, as uint16."""
    import numpy

    bits = numpy.ascontiguousarray(array, dtype=numpy.float32).view(numpy.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return numpy.where(nan, ((bits >> 16) | 0x40).astype(numpy.uint16), rounded)
