"""Packed sequences: the formulas for each of them, on its own rows and keys."""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from .._call import Operands
from .._scalars import Scalars
from . import _formulas
from ._formulas import Problem, plain, problem_of
from ._planes import of_rank_4


class Sequence(NamedTuple):
    index: int
    count: int  # of all
    rows: slice
    keys: slice
    plane: slice  # of k and v, which have several where keys were paged

    def own_keys(self, tensor: Tensor) -> Tensor:
        return tensor[self.plane, :, self.keys]

    def place(self, operand: Tensor, all_keys: int) -> tuple[slice, ...]:
        """Where in a mask or bias of four axes the sequence's own part lies."""
        if operand.shape[-1] == all_keys > 1 and operand.shape[0] == operand.shape[2] == 1:
            return (slice(None), slice(None), slice(None), self.keys)
        planes = operand.shape[0]
        first = self.index * planes // self.count
        batch = slice(None) if planes == 1 else slice(first, first + 1)
        lengths = (s if s.stop is None else slice(s.stop - s.start) for s in (self.rows, self.keys))
        # An axis of size 1 is broadcast, and serves a sequence of no rows as well.
        pairs = (slice(None) if size == 1 else s for size, s in zip(operand.shape[2:], lengths))
        return (batch, slice(None), *pairs)

    def _own_pairs(self, operand: Tensor | None, k: Tensor, sizes, device):
        """A mask or bias of the sequence, with as many rows and keys as this has or 1, and which pairs it says
        something of: bool, or None for all."""
        if operand is None:
            return None, None
        operand = of_rank_4(operand)
        operand = operand[self.place(operand, k.shape[2])]
        missing = [0 if has == 1 else size - has for has, size in zip(operand.shape[2:], sizes)]
        if not any(missing):
            return operand, None
        inside = torch.ones([size - n for size, n in zip(sizes, missing)], dtype=torch.bool, device=device)
        to_add = (0, missing[1], 0, missing[0])
        return pad(operand, to_add), pad(inside, to_add)

    def operands(self, q: Tensor, k: Tensor, operands: Operands) -> Operands:
        """Those of the sequence alone."""
        one = slice(self.index, self.index + 1)
        sizes = q[:, :, self.rows].shape[2], self.own_keys(k).shape[2]
        mask, of_mask = self._own_pairs(operands.mask, k, sizes, q.device)
        bias, of_bias = self._own_pairs(operands.bias, k, sizes, q.device)
        for inside in (of_mask, of_bias):
            if inside is not None:
                mask = inside if mask is None else mask.bool() & inside
        lengths = (None if t is None else t[one] for t in (operands.seqlens_q, operands.seqlens_kv))
        slopes = operands.alibi_slopes
        if slopes is not None and slopes.dim() == 2 and slopes.shape[0] > 1:
            slopes = slopes[one]
        names = ("block_indices", "block_counts", "full_block_indices", "full_block_counts")
        lists = {name: getattr(operands, name) for name in names}
        lists = {name: t if t is None or t.shape[0] == 1 else t[one] for name, t in lists.items()}
        return Operands(mask, bias, operands.sink, slopes, *lengths, read=operands.read, **lists)


def _bounds(begins: Tensor, total: int) -> list[slice]:
    numbers = [0, *(min(max(n, 0), total) for n in begins.tolist()[1:])]
    return [slice(begin, max(begin, end)) for begin, end in pairwise(numbers)]


def sequences(q: Tensor, k: Tensor, operands: Operands) -> list[Sequence]:
    """Those of a call whose keys are packed, or were paged."""
    rows = _bounds(operands.cu_seqlens_q, q.shape[2])
    if operands.cu_seqlens_kv is None:
        keys, planes = [slice(None)] * len(rows), [slice(b, b + 1) for b in range(len(rows))]
    else:
        keys, planes = _bounds(operands.cu_seqlens_kv, k.shape[2]), [slice(1)] * len(rows)
    return [Sequence(b, len(rows), *of) for b, of in enumerate(zip(rows, keys, planes))]


def problems_of(q, k, v, operands: Operands, scalars: Scalars, dtype) -> list[tuple[slice, Problem]]:
    """The rows and the problem of each sequence; all rows and one problem of a call that packs none."""
    if operands.cu_seqlens_q is None:
        return [(slice(None), problem_of(q, k, v, operands, scalars, dtype))]
    k, v, operands, scalars = plain(k, v, operands, scalars)
    problems = []
    for s in sequences(q, k, operands):
        own, own_k, own_v = s.operands(q, k, operands), s.own_keys(k), s.own_keys(v)
        problems.append((s.rows, problem_of(q[:, :, s.rows], own_k, own_v, own, scalars, dtype, s.index)))
    return problems


def of_rows(formula, fills, q, k, v, operands: Operands, scalars: Scalars, dtype) -> list[Tensor]:
    """What `formula` finds of each problem of a call of one batch axis, tensors whose third axis is that of the rows,
    for the rows of all; rows of no sequence are filled with the numbers of `fills`."""
    found = [(rows, formula(problem)) for rows, problem in problems_of(q, k, v, operands, scalars, dtype)]
    if operands.cu_seqlens_q is None:
        return list(found[0][1])
    results = []
    for number, fill in enumerate(fills):
        width = found[0][1][number].shape[3:]
        result = q.new_full((*q.shape[:3], *width), fill, dtype=dtype)
        for rows, parts in found:
            result[:, :, rows] = parts[number]
        results.append(result)
    return results


def attend(q, k, v, operands: Operands, scalars: Scalars, dtype) -> list[Tensor]:
    """[out, lse] in `dtype` of a call of one batch axis, whether it packs sequences or none."""
    return of_rows(_formulas.attend, (0.0, -torch.inf), q, k, v, operands, scalars, dtype)


def row_max(q, k, operands: Operands, scalars: Scalars, dtype) -> Tensor:
    """The largest score of each row that counts, in `dtype`; -inf without one."""
    (largest,) = of_rows(
        lambda problem: (_formulas.row_max(problem),), (-torch.inf,), q, k, k, operands, scalars, dtype
    )
    return largest
