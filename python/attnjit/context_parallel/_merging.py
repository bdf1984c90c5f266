"""The sum of partial results over the calls of a rank, and the largest of their scores."""

import math

import torch
from torch import Tensor

from .._call import Operands
from .._layout import is_sequence_major, new_max_logits, new_tensor
from .._merge_lse import merge_lse
from ._kernels import forward_into
from ._schedule import Call, overlaps

# Partial results that are kept before they are merged into one of fp32.
_MOST_PARTS = 4


class Merging:
    """out and lse of this rank's rows, from calls one after another. A call for rows that the last partial result
    lacks adds to that; any other begins a new one."""

    def __init__(self, q: Tensor, width: int, parts: int, need_row_max: bool, need_max_logits: bool):
        """`parts`: how many partial results there will be (count_parts)."""
        self._q = q
        kept = min(max(parts, 1), _MOST_PARTS)
        sequence_major = is_sequence_major(q)
        # One behind the other; a part has the memory order of q.
        stacked = new_tensor(q.new_empty((kept * q.shape[0], *q.shape[1:3], 0)), width, sequence_major)
        self._outs = stacked.unflatten(0, (kept, q.shape[0]))
        self._lses = self._dead(kept)
        self._carry: tuple[Tensor, Tensor] | None = None
        self._rows: list[list[tuple[int, int]]] = []  # that each part has
        # The largest score of each row and of each head so far, on request.
        self.row_max = self._dead(1)[0] if need_row_max else None
        self.max_logits = new_max_logits(q).fill_(-math.inf) if need_max_logits else None

    def _dead(self, parts: int) -> Tensor:
        return self._q.new_full((parts, *self._q.shape[:3]), -math.inf, dtype=torch.float32)

    def add(self, call: Call, k: Tensor, v: Tensor, operands: Operands, scalars) -> None:
        """Runs the kernels for `call`, with the operands that it reads."""
        if not self._rows or overlaps(call.rows, self._rows[-1]):
            if len(self._rows) == self._outs.shape[0]:
                self._carry = self._merge(torch.float32)
                self._lses.fill_(-math.inf)
                self._rows.clear()
            self._rows.append([])
        part = len(self._rows) - 1
        self._rows[-1].append(call.rows)
        rows = slice(*call.rows)
        q, out, lse = self._q[:, :, rows], self._outs[part, :, :, rows], self._lses[part, :, :, rows]
        dense = lse if lse.is_contiguous() else torch.empty_like(lse, memory_format=torch.contiguous_format)
        largest = None if self.max_logits is None else torch.empty_like(self.max_logits)
        of_rows = None if self.row_max is None else torch.empty_like(dense)
        forward_into(q, k, v, out, dense, of_rows, largest, operands, scalars)
        if dense is not lse:
            lse.copy_(dense)
        if of_rows is not None:
            own = self.row_max[:, :, rows]
            torch.maximum(own, of_rows, out=own)
        if largest is not None:
            torch.maximum(self.max_logits, largest, out=self.max_logits)

    def result(self) -> tuple[Tensor, Tensor]:
        """(out in q's dtype, lse)."""
        if len(self._rows) == 1 and self._carry is None and self._is_whole(self._rows[0]):
            return self._outs[0], self._lses[0]
        return self._merge(self._q.dtype)

    def _is_whole(self, rows: list[tuple[int, int]]) -> bool:
        return sum(end - first for first, end in rows) == self._q.shape[2]

    def _merge(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        used = max(len(self._rows), 1)
        if dtype == torch.float32 and self._carry is not None:
            out, lse = self._carry  # which each thread reads before it writes
        else:
            like = self._outs[0]
            out = torch.empty_like(like, dtype=dtype)
            lse = torch.empty_like(self._lses[0])
        return merge_lse(self._outs[:used], self._lses[:used], carry=self._carry, out=out, lse=lse)
