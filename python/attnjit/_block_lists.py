"""Lists of the blocks of keys that blocks of rows attend to."""

from typing import NamedTuple

import torch
from torch import Tensor


class BlockLists(NamedTuple):
    """The blocks of keys that each block of rows attends to, as `attention` takes them: int32 tensors on q's device,
    which the kernels of a call read, so that a captured graph replays with what they hold then.

    A list is a set: order and repetition make no difference. An index outside 0 ... blocks - 1 names no block, and a
    count is clamped to 0 ... n. Pairs of a row and a key in no listed block are dropped.
    """

    indices: Tensor  # (B or 1, Hq or Hkv or 1, row blocks, n): the blocks of keys of each block of rows
    counts: Tensor  # (B or 1, Hq or Hkv or 1, row blocks): entries of each list in use
    block_size: tuple[int, int]  # rows and keys of a block; multiples of 64 are fast
    full_indices: Tensor | None = None  # further lists, of blocks inside which `keep` is not looked at
    full_counts: Tensor | None = None
    num_kv_blocks: int = 0  # of packed sequences: blocks of keys, past which keys are dropped; 0: as many as there are


def checked(blocks: BlockLists | None) -> tuple[tuple[Tensor | None, ...], tuple[int, int, int] | None]:
    """The tensors of lists, and rows of a block, keys of a block and blocks of keys, or four times None, and None.

    Raises:
        TypeError: something else, or a tensor of another dtype.
        ValueError: a tensor of other axes.
    """
    if blocks is None:
        return (None,) * 4, None
    if not isinstance(blocks, BlockLists):
        raise TypeError(f"blocks: expected attnjit.BlockLists, not {type(blocks).__name__}")
    tensors = {
        "indices": (blocks.indices, 4),
        "counts": (blocks.counts, 3),
        "full_indices": (blocks.full_indices, 4),
        "full_counts": (blocks.full_counts, 3),
    }
    for name, (tensor, axes) in tensors.items():
        if tensor is None and name.startswith("full"):
            continue
        if not isinstance(tensor, Tensor):
            raise TypeError(f"blocks.{name}: expected a tensor, not {type(tensor).__name__}")
        if tensor.dtype != torch.int32:
            raise TypeError(f"blocks.{name}: dtype is {tensor.dtype}; expected torch.int32")
        if tensor.dim() != axes:
            shape = "(batch, head, row blocks" + (", entries)" if axes == 4 else ")")
            raise ValueError(f"blocks.{name}: it has {tensor.dim()} axes; expected {shape}")
    if (blocks.full_indices is None) != (blocks.full_counts is None):
        raise ValueError("blocks: full_indices and full_counts go together; give both or none")
    try:
        rows, keys = blocks.block_size
    except (TypeError, ValueError):
        raise TypeError(f"blocks.block_size: {blocks.block_size!r}; expected (rows, keys)") from None
    return (blocks.indices, blocks.counts, blocks.full_indices, blocks.full_counts), (
        rows,
        keys,
        blocks.num_kv_blocks,
    )
