"""The lists of blocks of a BlockMask as bools."""

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from ._kept import kept


def _dense(counts: Tensor, columns: Tensor, num_columns: int) -> Tensor:
    """(B, H, rows, columns), true where a row's list has the column. What lies behind a list is not looked at."""
    place = torch.arange(columns.shape[-1], device=columns.device)
    listed = torch.where(place < counts.unsqueeze(-1), columns, num_columns).long()
    dense = counts.new_zeros((*counts.shape, num_columns + 1), dtype=torch.bool).scatter_(-1, listed, True)
    return dense[(None,) * (4 - dense.dim())][..., :num_columns]


def blocks_of(mask: BlockMask) -> tuple[Tensor, Tensor | None]:
    """The blocks in which its function decides, and those that are kept whole, or None without a list of them; kept for
    as long as the mask."""
    num_columns = max(-(-mask.seq_lengths[1] // mask.BLOCK_SIZE[1]), mask.kv_indices.shape[-1])
    lists = mask.kv_num_blocks, mask.kv_indices
    full = None if mask.full_kv_num_blocks is None else (mask.full_kv_num_blocks, mask.full_kv_indices)

    def make():
        return _dense(*lists, num_columns), full and _dense(*full, num_columns)

    return kept(mask, (*lists, *(full or ())), make)
