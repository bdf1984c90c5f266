"""Which keys each row keeps, and what expressions say of a pair of a row and a key."""

from typing import NamedTuple

import torch
from torch import Tensor

from .._call import Operands
from .._scalars import BOTTOM_RIGHT, Scalars
from ._blocks import blocks_of
from ._expressions import evaluate
from ._planes import of_rank_4, orders_of, per_plane


class Pairs(NamedTuple):
    """The rows and keys of a call."""

    q: Tensor  # (batch, query head, query, feature)
    num_keys: int
    group: int  # query heads per kv head
    operands: Operands  # whose mask is a tensor of bools
    scalars: Scalars
    sequence: int | None = None  # the number of a packed sequence, which stands for the batch element


def _indices(pairs: Pairs) -> dict[str, Tensor]:
    """The indices of expressions, each broadcast to (batch, head, query, key); i, j and off without offsets."""
    q, operands, scalars = pairs.q, pairs.operands, pairs.scalars
    sizes = (*q.shape[:3], pairs.num_keys)
    along = lambda axis: torch.arange(sizes[axis], device=q.device).reshape(
        [-1 if a == axis else 1 for a in range(4)]
    )
    used = []
    for length, given in ((sizes[2], operands.seqlens_q), (sizes[3], operands.seqlens_kv)):
        full = torch.tensor([length], device=q.device)
        used.append((full if given is None else given.clamp(0, length).long()).reshape(-1, 1, 1, 1))
    used_q, used_kv = used
    offset = scalars.diagonal_offset + (used_kv - used_q if scalars.diagonal == BOTTOM_RIGHT else 0)
    b, h, i, j = (along(axis) for axis in range(4))
    if pairs.sequence is not None:
        b = torch.full_like(b, pairs.sequence)
    return {"b": b, "h": h, "g": h // pairs.group, "i": i, "j": j, "off": offset, "Lq": used_q, "Lk": used_kv}


def said(text: str, pairs: Pairs, dtype: torch.dtype, s: Tensor | None = None) -> Tensor:
    """The value of an expression of the call; floats are of `dtype`, and `s` is the score."""
    scalars = pairs.scalars
    read = dict(zip(scalars.operand_names, pairs.operands.read or ()))
    indices = _indices(pairs)
    rows, keys = scalars.row_offset, scalars.key_offset
    if "_offset" not in text:
        indices |= {"i": indices["i"] + rows, "j": indices["j"] + keys, "off": indices["off"] + keys - rows}
    return evaluate(text, indices | {"row_offset": rows, "key_offset": keys}, read, dtype, s)


def _tail(tail_mask: Tensor, rows: int, j: Tensor, used_kv: Tensor) -> Tensor:
    """What a mask over the last keys keeps; the other keys are kept."""
    column = j - used_kv + rows
    inside = (column >= 0) & (column < rows)
    tail = of_rank_4(tail_mask).bool().expand(-1, -1, rows, rows)
    batch = max(column.shape[0], tail.shape[0])
    places = column.clamp(0, max(rows - 1, 0)).expand(batch, 1, rows, -1)
    return ~inside | tail.expand(batch, -1, -1, -1).gather(3, places)


def times_selected(pairs: Pairs) -> Tensor | None:
    """How often key_indices name each key, (batch or 1, head or 1, 1, key) int64; None without any."""
    indices = pairs.operands.key_indices
    if indices is None:
        return None
    names_key = (indices >= 0) & (indices < pairs.num_keys)
    times = torch.zeros((*indices.shape[:2], pairs.num_keys + 1), dtype=torch.int64, device=indices.device)
    times.scatter_add_(-1, torch.where(names_key, indices, pairs.num_keys).long(), torch.ones_like(indices).long())
    times = times[..., :-1].unsqueeze(2)
    return times if times.shape[1] == 1 else times.repeat_interleave(pairs.group, 1)


def kept(pairs: Pairs) -> tuple[Tensor, Tensor]:
    """Which keys each row keeps, whatever their scores: bool, broadcast over batch elements and heads; and how far
    they lie behind its diagonal."""
    q, operands, scalars = pairs.q, pairs.operands, pairs.scalars
    indices = _indices(pairs)
    i, j, offset, used_q, used_kv = (indices[name] for name in ("i", "j", "off", "Lq", "Lk"))
    keep = (i < used_q) & (j < used_kv)
    if operands.tail_mask is not None:
        keep = keep & _tail(operands.tail_mask, q.shape[2], j, used_kv)
    if operands.mask is not None:
        keep = keep & per_plane(of_rank_4(operands.mask), q, orders_of(scalars)[0]).bool()
    rule = None if scalars.keep is None else said(scalars.keep, pairs, torch.float64)
    blocks = blocks_of(operands, scalars, q.shape[1], i, j, pairs.num_keys)
    if blocks is not None:
        rule = blocks.listed if rule is None else blocks.listed & rule
        rule = rule if blocks.full is None else blocks.full | rule
    if rule is not None:
        keep = keep & rule
    times = times_selected(pairs)
    if times is not None:
        keep = keep & (times > 0)
    left, right = scalars.window_left, scalars.window_right
    if scalars.causal:
        keep = keep & (j <= i + offset)
    if left >= 0:
        keep = keep & (j >= i + offset - left)
    if right >= 0:
        keep = keep & (j <= i + offset + right)
    return keep, j - i - offset


def used_rows(pairs: Pairs) -> Tensor:
    """Which rows are in use: bool, (batch or 1, 1, query)."""
    i = torch.arange(pairs.q.shape[2], device=pairs.q.device).reshape(1, 1, -1)
    lengths = pairs.operands.seqlens_q
    return i < (pairs.q.shape[2] if lengths is None else lengths.reshape(-1, 1, 1))
