"""The functions of `_native` for tensors whose type has no DLPack exchange API: read through Python."""

import torch
from torch import Tensor

from . import _layout, _native
from ._notes import note

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


class Description(tuple):
    """What the module reads in the place of a tensor, which is kept with it."""

    tensor: Tensor


def described(value):
    """The description of a tensor, or those of several; anything else as it is."""
    if isinstance(value, (list, tuple)):
        return tuple(map(described, value))
    if not isinstance(value, Tensor):
        return value
    code, bits = _CODES.get(value.dtype, (_OPAQUE, 8 * value.element_size()))
    device = (_CUDA, value.device.index) if value.is_cuda else (_CPU, 0)
    description = Description((value.data_ptr(), code, bits, *device, tuple(value.shape), value.stride()))
    description.tensor = value
    return description


def new_strided(*arguments) -> Description:
    """As `_layout.new_strided`, for the module."""
    return described(_layout.new_strided(*arguments))


def _unit_stride(name: str, tensor: Tensor) -> Tensor:
    """`tensor`, or a copy in which the elements of a row are neighbours, as kernels read them."""
    if tensor.stride(-1) == 1:
        return tensor
    note(
        f"attnjit copies {name} in each call: the elements of a row are no neighbours; make its last axis the one of"
        " stride 1"
    )
    return tensor.contiguous()


def _enqueue(function, context, q, k, v, *arguments) -> None:
    """Calls a function of the module whose last argument is the stream."""
    *arguments, stream = (_unit_stride("q", q), _unit_stride("k", k), _unit_stride("v", v), *arguments)
    if stream is None and q.is_cuda:
        stream = torch.cuda.current_stream(q.device).cuda_stream
    function(context, *map(described, arguments), stream)


def enqueue_forward(*arguments) -> None:
    _enqueue(_native.enqueue_forward, *arguments)


def enqueue_backward(context, *arguments) -> None:
    *inputs, out, lse, dout, dlse, deterministic, dq, dk, dv, dbias, dsink, of_read, stream = arguments
    _enqueue(
        _native.enqueue_backward, context, *inputs, _unit_stride("out", out), lse, _unit_stride("dout", dout),
        None if dlse is None else dlse.contiguous(), deterministic, dq, dk, dv, dbias, dsink, of_read, stream,
    )  # fmt: skip


def _enqueue_plain(function, context, first, *arguments) -> None:
    *arguments, stream = arguments
    if stream is None and first.is_cuda:
        stream = torch.cuda.current_stream(first.device).cuda_stream
    function(context, *map(described, (first, *arguments)), stream)


def enqueue_merge_lse(*arguments) -> None:
    _enqueue_plain(_native.enqueue_merge_lse, *arguments)


def enqueue_prepare_mask(*arguments) -> None:
    _enqueue_plain(_native.enqueue_prepare_mask, *arguments)


def forward(context, q, k, v, *arguments):
    *inputs, need_lse, need_row_max, need_max_logits, sequence_major = arguments
    if sequence_major is None:
        sequence_major = _layout.is_sequence_major(q)
    out = _layout.new_tensor(q, v.shape[3], sequence_major)
    lse, row_max = (_layout.new_row_numbers(q) if need else None for need in (need_lse, need_row_max))
    max_logits = _layout.new_max_logits(q) if need_max_logits else None
    enqueue_forward(context, q, k, v, *inputs, out, lse, row_max, max_logits, None)
    return out, lse, row_max, max_logits


def backward(context, q, k, v, mask, bias, sink, *arguments):
    *inputs, need_dbias, need_dsink, deterministic, of_read = arguments
    gradients = [_layout.new_gradient(t) for t in (q, k, v)]
    dbias = bias.new_empty(bias.shape) if need_dbias else None
    dsink = _layout.new_dsink(sink) if need_dsink else None
    enqueue_backward(
        context, q, k, v, mask, bias, sink, *inputs, deterministic, *gradients, dbias, dsink, of_read, None
    )
    return *gradients, dbias, dsink
