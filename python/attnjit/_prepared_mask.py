"""`attnjit.prepare_mask`, and its operator `torch.ops.attnjit.prepare_mask`."""

from typing import NamedTuple

import torch
from torch import Tensor

from . import _call
from . import _schemas as _defines_operators  # noqa: F401

_TILE, _WORD_BITS, _ROW_WORDS = 64, 32, 4


@torch.library.impl("attnjit::prepare_mask", "CPU")
def _refuse(*_):
    raise ValueError("mask: it is on the CPU; attnjit computes on CUDA devices")


@torch.library.impl("attnjit::prepare_mask", "CUDA")
def _prepare(mask, backward, memory):
    _call.enqueue_prepare_mask(mask, backward, memory)


@torch.library.register_fake("attnjit::prepare_mask")
def _fake_prepare(mask, backward, memory):
    return None


class PreparedMask(NamedTuple):
    """A mask that prepare_mask has made; `attention` takes it as `mask`, any number of times."""

    data: Tensor  # (bytes,) uint8: bits, and a class for each 64 queries by 64 keys
    shape: tuple[int, int, int, int]  # planes over the batch, heads, queries, keys; 1 where all share it
    for_backward: bool
    batch_axes: tuple[int, ...] | None = None  # their sizes, where the mask has several; 1 where all share it


def _bytes(shape, backward: bool):
    """As prepared_mask_size() of the library has it."""
    batches, heads, queries, keys = shape
    row_words = -(-keys // (_WORD_BITS * _ROW_WORDS)) * _ROW_WORDS
    tiles = -(-queries // _TILE)
    columns = tiles * row_words * _WORD_BITS if backward and queries > 1 else 0  # of 8 bytes
    classes = tiles * (row_words * _WORD_BITS // _TILE)
    return batches * heads * (4 * queries * row_words + 8 * columns + classes)


def prepare_mask(mask: Tensor, *, backward: bool = False) -> PreparedMask:
    """Packs a mask that many calls share, once: each of them then begins with its attention kernel.

    Args:
        mask: bool, True keeps; broadcast as `attention` has it, on a CUDA device, of any strides. It differs over
            keys: along an axis of stride 0 it counts as one of size 1. One batch axis counts all of q's as one;
            several broadcast to q's.
        backward: whether gradients of the calls are wanted. It takes twice the memory, unless the mask is the
            same for all queries.

    Returns:
        What `attention` takes as `mask`, in about an eighth of a byte per element (twice that for gradients), on the
        current stream. Later changes of `mask` do not reach it.

    Raises:
        ValueError: a mask that is the same for all keys, which has no prepared form.
        TypeError: a dtype other than bool and uint8.
    """
    if mask.dtype not in (torch.bool, torch.uint8):
        raise TypeError(f"mask: dtype is {mask.dtype}; expected bool")
    mask = mask[(None,) * (4 - mask.dim())].detach()
    for axis in range(mask.dim()):
        if mask.shape[axis] > 1 and mask.stride(axis) == 0:
            mask = mask.narrow(axis, 0, 1)
    if mask.shape[-1] == 1:
        raise ValueError(
            "mask: it is the same for all keys, which has no prepared form; pass it to attention"
        )
    batch_axes = tuple(mask.shape[:-3]) if mask.dim() > 4 else None
    mask = mask.flatten(0, -4)
    data = mask.new_empty(_bytes(mask.shape, backward), dtype=torch.uint8)
    torch.ops.attnjit.prepare_mask(mask, backward, data)
    return PreparedMask(data, tuple(mask.shape), backward, batch_axes)


def unpacked(mask):
    """(tensor, member of the scalars, sizes of several batch axes) for a mask of either kind. Raises ValueError."""
    if not isinstance(mask, PreparedMask):
        return mask, None, None
    data, shape, for_backward, batch_axes = mask
    if data.dtype != torch.uint8 or data.numel() != _bytes(shape, for_backward):
        raise ValueError(f"mask: its data is no prepared mask of shape {tuple(shape)}; use prepare_mask")
    return data, (*shape, int(for_backward)), batch_axes
