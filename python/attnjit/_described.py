"""The module's functions for tensors whose type has no DLPack exchange API: read through Python."""

import torch
from torch import Tensor

from . import _native

_STREAM = 14  # index of the stream among the arguments of a call
_CODES = {  # DLPack's numbers
    torch.int32: (0, 32),
    torch.int64: (0, 64),
    torch.uint8: (1, 8),
    torch.float16: (2, 16),
    torch.float32: (2, 32),
    torch.float64: (2, 64),
    torch.bfloat16: (4, 16),
    torch.bool: (6, 8),
}
_CPU, _CUDA, _OPAQUE = 1, 2, 3


def _described(value):
    """The tuple that stands for a tensor; anything else as it is."""
    if not isinstance(value, Tensor):
        return value
    code, bits = _CODES.get(value.dtype, (_OPAQUE, 8 * value.element_size()))
    device = (_CUDA, value.device.index) if value.is_cuda else (_CPU, 0)
    return (value.data_ptr(), code, bits, *device, tuple(value.shape), value.stride())


def _enqueue(function, context, allocate, *arguments) -> None:
    kept = []  # workspace, which must outlive the call

    def allocate_described(size: int, device: int):
        kept.append(allocate(size, device))
        return _described(kept[-1])

    described = [_described(a) for a in arguments]
    if arguments[0].is_cuda:
        described[_STREAM] = torch.cuda.current_stream(arguments[0].device).cuda_stream
    function(context, allocate_described, *described)


def forward(context, allocate, *arguments) -> None:
    _enqueue(_native.forward, context, allocate, *arguments)


def backward(context, allocate, *arguments) -> None:
    _enqueue(_native.backward, context, allocate, *arguments)
