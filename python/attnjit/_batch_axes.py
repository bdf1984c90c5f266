"""Calls with more than one batch axis before the heads, as (batch, row, head, sequence, feature) of
triangle attention, where mask and bias broadcast over some of the batch axes."""

import torch
from torch import Tensor

from ._autograd import attend
from ._call import OUTPUT_ALONE, Operands

_BATCH = -3  # end of the batch axes


def _flattened(operand: Tensor, batch: torch.Size) -> Tensor | None:
    """An operand with its batch axes as one, without a copy of what it broadcasts: neighbouring batch elements
    share its planes. None if it broadcasts over an axis that stands before one that it has, unless there is no
    batch element at all."""
    if 0 in batch:
        return operand.expand(*batch, *operand.shape[_BATCH:]).flatten(0, len(batch) - 1)
    axes = [(size, full) for size, full in zip(operand.shape[:_BATCH], batch) if full != 1]
    kept = sum(size != 1 for size, _ in axes)
    if all(size == (full if i < kept else 1) for i, (size, full) in enumerate(axes)):
        return operand.flatten(0, len(batch) - 1)
    return None


def _of_rank(operand: Tensor | None, rank: int) -> Tensor | None:
    if operand is None:
        return None
    return operand[(None,) * (rank - operand.dim())]


def _prepared(scalars):
    """The shape of a prepared mask, or None."""
    return scalars[7]


def _samples(name: str, tensor: Tensor | None, count: int, broadcasts: bool = False):
    """One entry per index of the first batch axis. Raises ValueError where `tensor` has another number of them."""
    if tensor is None:
        return (None,) * count
    if broadcasts and tensor.shape[0] == 1:
        return (tensor[0],) * count
    if tensor.shape[0] != count:
        raise ValueError(f"{name}: the first batch axis is {tensor.shape[0]}; expected {'1 or ' * broadcasts}{count}")
    return tensor.unbind()


def attend_any_rank(
    q, k, v, operands, scalars, sequence_major, deterministic, wanted=OUTPUT_ALONE
):  # fmt: skip
    """As `_autograd.attend`, for q, k, v of four axes or more. That is one call, unless mask or bias broadcasts
    over a batch axis before one that it has: then it is a call per index of the first axis. The planes of a prepared
    mask are those of one call."""
    batch = q.shape[:_BATCH]
    if q.dim() < 4 or k.shape[:_BATCH] != batch or v.shape[:_BATCH] != batch:
        raise ValueError(
            f"q, k, v: shapes are {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}; expected"
            " (batch, head, sequence, feature) with one or more batch axes, the same of all"
        )
    options = (scalars, sequence_major, deterministic, wanted)
    if q.dim() == 4:
        return attend(q, k, v, operands, *options)
    prepared = _prepared(scalars)
    mask = operands.mask if prepared else _of_rank(operands.mask, q.dim())
    operands = operands._replace(mask=mask, bias=_of_rank(operands.bias, q.dim()))
    given = [operand for operand in operands[1 if prepared else 0 : 2] if operand is not None]
    if any(_flattened(operand, batch) is None for operand in given):
        if prepared and prepared[0] > 1:
            raise ValueError(
                f"mask: a prepared one of {prepared[0]} batch planes, beside a bias that broadcasts over a batch"
                " axis before one that it has; expand the bias, or pass the mask itself"
            )
        return _attend_each(q, k, v, operands, *options)
    last = len(batch) - 1
    bias = None if operands.bias is None else _flattened(operands.bias, batch)
    if mask is not None and not prepared:
        mask = _flattened(mask, batch)
    lengths = (None if t is None else t.reshape(-1) for t in (operands.seqlens_q, operands.seqlens_kv))
    flat = (t.flatten(0, last) for t in (q, k, v))
    slopes = operands.alibi_slopes
    if slopes is not None and slopes.dim() > 1:
        slopes = slopes.flatten(0, last)
    flat_operands = Operands(mask, bias, operands.sink, slopes, *lengths)
    *of_rows, max_logits = attend(*flat, flat_operands, *options)
    return *(None if t is None else t.unflatten(0, batch) for t in of_rows), max_logits


def _attend_each(q, k, v, operands, scalars, *options):
    count, slopes = q.shape[0], operands.alibi_slopes
    mask = operands.mask
    each = zip(
        (mask,) * count if _prepared(scalars) else _samples("mask", mask, count, broadcasts=True),
        _samples("bias", operands.bias, count, broadcasts=True),
        (operands.sink,) * count,
        _samples("alibi_slopes", slopes, count) if slopes is not None and slopes.dim() > 1 else (slopes,) * count,
        _samples("seqlens_q", operands.seqlens_q, count),
        _samples("seqlens_kv", operands.seqlens_kv, count),
    )
    results = [attend_any_rank(*qkv, Operands(*of), scalars, *options) for *qkv, of in zip(q, k, v, each)]
    *of_rows, max_logits = (None if each[0] is None else torch.stack(each) for each in zip(*results))
    return *of_rows, None if max_logits is None else max_logits.amax(0)
