"""Which pairs lists of blocks keep."""

from typing import NamedTuple

import torch
from torch import Tensor

from .._call import Operands
from .._scalars import Scalars


class Blocks(NamedTuple):
    """Bools that broadcast to (batch, head, query, key)."""

    listed: Tensor  # in a listed block
    full: Tensor | None  # in a full one; None without full lists


def _named(indices: Tensor, counts: Tensor, num_blocks: int) -> Tensor:
    """(batch, head, row blocks, num_blocks), true where the list of a block of rows names the block of keys."""
    place = torch.arange(indices.shape[-1], device=indices.device)
    in_use = (place < counts.unsqueeze(-1)) & (indices >= 0) & (indices < num_blocks)
    named = torch.zeros((*indices.shape[:3], num_blocks + 1), dtype=torch.bool, device=indices.device)
    return named.scatter_(-1, torch.where(in_use, indices, num_blocks).long(), True)[..., :num_blocks]


def _of_pairs(named: Tensor, heads: int, i: Tensor, j: Tensor, rows: int, keys: int) -> Tensor:
    """The same of the rows `i` and keys `j`, of each a block; those past all blocks are in none."""
    named = torch.nn.functional.pad(named, (0, 1, 0, 1))
    last_row, last_key = named.shape[-2] - 1, named.shape[-1] - 1
    named = named[:, :, (i.reshape(-1) // rows).clamp(max=last_row)]
    named = named[:, :, :, (j.reshape(-1) // keys).clamp(max=last_key)]
    return named if named.shape[1] == 1 else named.repeat_interleave(heads // named.shape[1], 1)


def blocks_of(
    operands: Operands, scalars: Scalars, heads: int, i: Tensor, j: Tensor, num_keys: int
) -> Blocks | None:  # fmt: skip
    """Of a call's rows `i` and keys `j`, whatever their shapes, and query heads; None without lists."""
    if scalars.block_sizes is None:
        return None
    rows, keys, num_blocks = scalars.block_sizes
    num_blocks = num_blocks or -(-num_keys // keys)

    def of(indices, counts):
        return _of_pairs(_named(indices, counts, num_blocks), heads, i, j, rows, keys)

    full = operands.full_block_indices
    return Blocks(
        of(operands.block_indices, operands.block_counts),
        None if full is None else of(full, operands.full_block_counts),
    )
