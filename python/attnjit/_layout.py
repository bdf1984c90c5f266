"""Memory of the results. Each is dense, as (batch, head, sequence, feature) or as (batch, sequence, head,
feature), and has its axes named in the first order."""

import torch
from torch import Tensor


def is_sequence_major(tensor: Tensor) -> bool:
    """Whether a step along the sequence is longer than one along the heads."""
    strides = tensor.stride()
    return strides[-3] < strides[-2]


def new_strided(sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, device: int) -> Tensor:
    """Uninitialised, on the GPU of this ordinal."""
    return torch.empty_strided(sizes, strides, dtype=dtype, device=f"cuda:{device}")


def new_tensor(like: Tensor, width: int, sequence_major: bool) -> Tensor:
    """Uninitialised (batch, head, sequence, `width`) with the first three sizes, dtype and device of `like`."""
    batch, heads, length, _ = like.shape
    if sequence_major:
        strides = (length * heads * width, width, heads * width, 1)
    else:
        strides = (heads * length * width, length * width, width, 1)
    return like.new_empty_strided((batch, heads, length, width), strides)


def new_row_numbers(q: Tensor) -> Tensor:
    """Uninitialised, a number per row: lse or the largest score."""
    return q.new_empty(q.shape[:3], dtype=torch.float32)


def new_max_logits(q: Tensor) -> Tensor:
    return q.new_empty(q.shape[1:2], dtype=torch.float32)


def new_gradient(tensor: Tensor) -> Tensor:
    """Uninitialised, of the shape of q, k or v and in the order of its memory."""
    return new_tensor(tensor, tensor.shape[3], is_sequence_major(tensor))


def new_dsink(sink: Tensor) -> Tensor:
    return sink.new_empty(sink.shape, dtype=torch.float32)


def new_like(tensor: Tensor, width: int) -> Tensor:
    """Uninitialised (batch, head, sequence, `width`), dense, its axes in memory in the order of those of `tensor`."""
    if width == tensor.shape[3]:
        return torch.empty_like(tensor)
    order = sorted(range(4), key=tensor.stride, reverse=True)
    sizes = (*tensor.shape[:3], width)
    return tensor.new_empty([sizes[axis] for axis in order]).permute([order.index(axis) for axis in range(4)])
