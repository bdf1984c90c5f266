"""The lists of blocks of a BlockMask as a number for each block."""

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from ._kept import kept

# Numbers of blocks: no pair is kept, the mask's function decides, all are kept.
DROPPED, PARTIAL, FULL = range(3)


def _listed(counts: Tensor, columns: Tensor, num_columns: int) -> Tensor:
    """(B, H, rows, columns), true where a row's list has the column. What lies behind a list is not looked at."""
    place = torch.arange(columns.shape[-1], device=columns.device)
    listed = torch.where(place < counts.unsqueeze(-1), columns, num_columns).long()
    dense = counts.new_zeros((*counts.shape, num_columns + 1), dtype=torch.bool).scatter_(-1, listed, True)
    return dense[(None,) * (4 - dense.dim())][..., :num_columns]


def blocks_of(mask: BlockMask) -> Tensor:
    """(B, H, rows, columns) int32 of the numbers above; kept for as long as the mask."""
    num_columns = max(-(-mask.seq_lengths[1] // mask.BLOCK_SIZE[1]), mask.kv_indices.shape[-1])
    lists = mask.kv_num_blocks, mask.kv_indices
    full = () if mask.full_kv_num_blocks is None else (mask.full_kv_num_blocks, mask.full_kv_indices)

    def make():
        numbers = _listed(*lists, num_columns).int() * PARTIAL
        return numbers.masked_fill(_listed(*full, num_columns), FULL) if full else numbers

    return kept(mask, (*lists, *full), make)
