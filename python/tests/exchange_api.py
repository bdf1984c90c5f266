"""A tensor type with DLPack's C exchange API, made without any framework."""

import ctypes
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    py_object,
)  # fmt: skip

CUDA = 2
BOOL, UINT8, INT32, INT64 = (6, 8), (1, 8), (0, 32), (0, 64)
FLOAT16, BFLOAT16, FLOAT32, FLOAT64 = (2, 16), (4, 16), (2, 32), (2, 64)
STREAM = 0x5000  # plus the device


class _Tensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


_FROM_OBJECT = CFUNCTYPE(c_int, py_object, POINTER(_Tensor))
_CURRENT_STREAM = CFUNCTYPE(c_int, c_int32, c_int32, POINTER(c_void_p))


class _Api(Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("previous", c_void_p),
        ("allocate", c_void_p),
        ("from_object", c_void_p),
        ("to_object", c_void_p),
        ("tensor_from_object", _FROM_OBJECT),
        ("current_work_stream", _CURRENT_STREAM),
    ]


@_FROM_OBJECT
def _tensor_from_object(tensor, result):
    result[0] = _Tensor(
        tensor.address, tensor.device_type, tensor.device, len(tensor.shape), *tensor.dtype, 1,
        tensor.c_shape, tensor.c_strides, tensor.byte_offset,
    )  # fmt: skip
    return 0


@_CURRENT_STREAM
def _current_stream(device_type, device, stream):
    stream[0] = STREAM + device
    return 0


def capsule(major=1, previous=None):
    """The capsule of an API of this major version, which holds on to its memory for good."""
    api = _Api(major, 3, previous, None, None, None, _tensor_from_object, _current_stream)
    _kept.append(api)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = py_object, [c_void_p, ctypes.c_char_p, c_void_p]
    return new(ctypes.addressof(api), b"dlpack_exchange_api", None)


def address_of_api():
    """Of the table that was made last."""
    return ctypes.addressof(_kept[-1])


_kept = []


def dense(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


class FakeTensor:
    """Metadata of a tensor on a GPU; its memory does not exist."""

    __dlpack_c_exchange_api__ = capsule()

    def __init__(
        self, address, shape, dtype=BFLOAT16, strides=None, device=0, device_type=CUDA, byte_offset=0
    ):
        self.address, self.shape, self.dtype = address, tuple(shape), dtype
        self.device, self.device_type, self.byte_offset = device, device_type, byte_offset
        self.strides = dense(self.shape) if strides is None else tuple(strides)
        self.c_shape = (c_int64 * len(self.shape))(*self.shape)
        self.c_strides = (c_int64 * len(self.shape))(*self.strides)

    def contiguous(self):
        """A dense copy, which lies 16 bytes behind; an empty tensor itself, as PyTorch has it."""
        if 0 in self.shape:
            return self
        return FakeTensor(self.address + 16, self.shape, self.dtype, device=self.device)

    def described(self):
        """As the module reads a tensor of a type without the API."""
        return (
            self.address + self.byte_offset,
            *self.dtype,
            self.device_type,
            self.device,
            self.shape,
            self.strides,
        )


def apart(address, shape, dtype=BFLOAT16):
    """A tensor whose elements have another one between them."""
    return FakeTensor(address, shape, dtype, [2 * stride for stride in dense(shape)])
