"""Attention of packed sequences from the formulas: a call of `formulas` for each sequence."""

import sys
from itertools import pairwise
from typing import NamedTuple

import torch

import formulas
from expression_values import with_index


class _Sequence(NamedTuple):
    index: int
    count: int  # of all
    rows: slice
    keys: slice
    plane: slice  # of k and v, which have several where keys were paged

    def own_keys(self, tensor):
        return tensor[self.plane, :, self.keys]

    def place(self, operand, all_keys):
        """Where in a mask or bias the sequence's own part lies."""
        if operand.shape[-1] == all_keys > 1 and operand.shape[0] == operand.shape[2] == 1:
            return (slice(None), slice(None), slice(None), self.keys)
        planes = operand.shape[0]
        first = self.index * planes // self.count
        batch = slice(None) if planes == 1 else slice(first, first + 1)
        lengths = (s if s.stop is None else slice(s.stop - s.start) for s in (self.rows, self.keys))
        return (batch, slice(None), *lengths)

    def own(self, k, operands):
        """The operands of the sequence alone."""
        one = slice(self.index, self.index + 1)
        of_scores = (
            None if t is None else t[self.place(t, k.shape[2])] for t in (operands.mask, operands.bias)
        )
        lengths = (None if t is None else t[one] for t in (operands.seqlens_q, operands.seqlens_kv))
        slopes = operands.alibi_slopes
        if slopes is not None and slopes.dim() == 2 and slopes.shape[0] > 1:
            slopes = slopes[one]
        return type(operands)(*of_scores, operands.sink, slopes, *lengths, read=operands.read)

    def own_scalars(self, scalars):
        return with_index(scalars, "b", str(self.index))


def _sequences(operands):
    rows = [slice(*p) for p in pairwise(operands.cu_seqlens_q.tolist())]
    if operands.cu_seqlens_kv is None:
        keys, planes = [slice(None)] * len(rows), [slice(b, b + 1) for b in range(len(rows))]
    else:
        keys, planes = [slice(*p) for p in pairwise(operands.cu_seqlens_kv.tolist())], [slice(1)] * len(rows)
    return [_Sequence(b, len(rows), *of) for b, of in enumerate(zip(rows, keys, planes))]


def _unpaged(operands, *pools):
    """Keys and values, paged or not: (sequence, head, key, feature) if they are."""
    paged = operands.block_table is not None
    return [formulas.unpaged(t, operands) if paged else t for t in pools]


def formulas_for(operands):
    """The formulas of a call with these operands: this module or `formulas`."""
    return formulas if operands.cu_seqlens_q is None else sys.modules[__name__]


def attend(q, k, v, operands, scalars, dtype=torch.float64, rounded=None):
    """(out, lse) as `formulas.attend`. Masks and biases have as many rows and keys as the longest sequence."""
    out = q.new_zeros((*q.shape[:3], v.shape[3]), dtype=dtype)
    lse = q.new_full(q.shape[:3], -torch.inf, dtype=dtype)
    k, v = _unpaged(operands, k, v)
    for s in _sequences(operands):
        tensors = q[:, :, s.rows], s.own_keys(k), s.own_keys(v)
        own = s.own(k, operands), s.own_scalars(scalars)
        out[:, :, s.rows], lse[:, :, s.rows] = formulas.attend(*tensors, *own, dtype, rounded)
    return out, lse


def row_max(q, k, operands, scalars):
    """As `formulas.row_max`."""
    (k,) = _unpaged(operands, k)
    of_rows = q.new_full(q.shape[:3], -torch.inf, dtype=torch.float64)
    for s in _sequences(operands):
        own = s.own(k, operands), s.own_scalars(scalars)
        of_rows[:, :, s.rows] = formulas.row_max(q[:, :, s.rows], s.own_keys(k), *own)
    return of_rows


def max_logits(q, k, operands, scalars):
    """As `formulas.max_logits`."""
    return formulas.largest_of_heads(row_max(q, k, operands, scalars))


def gradients(out, dout, dlse, q, k, v, operands, scalars, dtype=torch.float64, rounded=None, given_lse=None):
    """(dq, dk, dv, dbias, dsink) as `formulas.gradients`."""
    dq, dk, dv = (torch.zeros_like(t, dtype=dtype) for t in (q, k, v))
    dbias, dsink = (
        None if t is None else torch.zeros_like(t, dtype=dtype) for t in (operands.bias, operands.sink)
    )
    # A sequence with one key has a part of one column of a bias that varies over keys.
    over_keys = None if operands.bias is None else operands.bias.shape[-1] != 1
    for s in _sequences(operands):
        tensors = q[:, :, s.rows], k[:, :, s.keys], v[:, :, s.keys]
        *of_out, lse = (None if t is None else t[:, :, s.rows] for t in (out, dout, dlse, given_lse))
        own = s.own(k, operands), s.own_scalars(scalars)
        found = formulas.gradients(
            *of_out, *tensors, *own, dtype, rounded, given_lse=lse, over_keys=over_keys
        )
        dq[:, :, s.rows], dk[:, :, s.keys], dv[:, :, s.keys] = found[:3]
        if dbias is not None:
            dbias[s.place(dbias, k.shape[2])] += found[3]
        if dsink is not None:
            dsink += found[4]
    return dq, dk, dv, dbias, dsink
