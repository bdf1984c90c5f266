"""Calls with more than one batch axis before the heads, as (batch, row, head, sequence, feature) of
triangle attention, where mask and bias broadcast over some of the batch axes."""

import torch
from torch import Tensor

from ._autograd import attend
from ._call import OUTPUT_ALONE, Operands
from ._notes import note
from ._scalars import Scalars

_BATCH = -3  # end of the batch axes
_NEIGHBOURS = (0, 0)  # the order of planes that batch elements share in groups of neighbours


def _order(sizes, batch: torch.Size):
    """The numbers of a PlaneOrder of the library, (inner, cycle), for the planes of an operand over `batch` as one
    axis; `sizes` are those of its batch axes, 1 where it broadcasts. None where no order tells of them."""
    runs, has = [1], False  # elements of axes that it broadcasts and that it has, by turns, from the last on
    for size, full in zip(sizes[::-1], batch[::-1]):
        if full == 1:
            continue
        # Under torch.compile sizes are symbols, whose comparisons serve as conditions alone.
        if not has if size != 1 else has:
            runs.append(1)
            has = not has
        runs[-1] *= full
    if len(runs) > 4:
        return None
    if len(runs) < 3:
        return _NEIGHBOURS
    return runs[0], runs[1] if len(runs) == 4 else 0


def _flattened(name: str, operand: Tensor, batch: torch.Size):
    """An operand with its batch axes as one, without a copy of what it broadcasts, and the order of its planes. Where
    no order tells of them, and where there is no batch element, it is expanded over the first axes."""
    for axis, (size, full) in enumerate(zip(operand.shape, batch)):
        if size != 1 and size != full:
            raise ValueError(f"{name}: batch axis {axis} is {size}; expected 1 or {full}")
    last = len(batch) - 1
    if 0 in batch:
        return operand.expand(*batch, *operand.shape[_BATCH:]).flatten(0, last), _NEIGHBOURS
    wide, axes = operand, 0
    while (order := _order(wide.shape[:_BATCH], batch)) is None:
        axes += 1
        wide = operand.expand(*batch[:axes], *operand.shape[axes:])
    if axes:
        note(
            f"{name}: it has {tuple(operand.shape[:_BATCH])} of the batch axes {tuple(batch)}, and is copied over the"
            f" first {axes} of them; put axes that it broadcasts next to each other"
        )
    return wide.flatten(0, last), order


def _of_rank(name: str, operand: Tensor, rank: int) -> Tensor:
    if operand.dim() > rank:
        raise ValueError(f"{name}: it has {operand.dim()} axes; expected {rank}, those of q, or fewer")
    return operand[(None,) * (rank - operand.dim())]


def _prepared_order(axes, batch: torch.Size):
    """As _order, of a mask that was prepared with several batch axes; None, with one, shares planes as one axis."""
    if axes is None:
        return _NEIGHBOURS
    sizes = (1,) * (len(batch) - len(axes)) + tuple(axes)
    if len(sizes) > len(batch) or any(size not in (1, full) for size, full in zip(sizes, batch)):
        raise ValueError(
            f"mask: it was prepared with batch axes {tuple(axes)}; expected ones that broadcast to {tuple(batch)}"
        )
    order = _order(sizes, batch)
    if order is None and 0 not in batch:
        raise ValueError(
            f"mask: it was prepared with {tuple(axes)} of the batch axes {tuple(batch)}; prepare a copy that has"
            " the first of them too"
        )
    return order


def flattened(
    q, k, v, operands: Operands, scalars: Scalars, mask_axes=None
) -> tuple[Tensor, Tensor, Tensor, Operands, Scalars]:  # fmt: skip
    """A call of four axes or more as one with a single batch axis. `mask_axes` are the sizes of several batch axes of a
    prepared mask; else its planes are those of one axis."""
    batch = q.shape[:_BATCH]
    if q.dim() < 4 or k.shape[:_BATCH] != batch or v.shape[:_BATCH] != batch:
        raise ValueError(
            f"q, k, v: shapes are {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}; expected"
            " (batch, head, sequence, feature) with one or more batch axes, the same of all"
        )
    last = len(batch) - 1
    mask, bias, slopes = operands.mask, operands.bias, operands.alibi_slopes
    orders = {"mask": _NEIGHBOURS, "bias": _NEIGHBOURS}
    if scalars.prepared_mask is not None:
        orders["mask"] = _prepared_order(mask_axes, batch)
    elif mask is not None:
        mask, orders["mask"] = _flattened("mask", _of_rank("mask", mask, q.dim()), batch)
    if bias is not None:
        bias, orders["bias"] = _flattened("bias", _of_rank("bias", bias, q.dim()), batch)
    if slopes is not None and slopes.dim() > 1:
        slopes = slopes.flatten(0, last)
    lengths = (None if t is None else t.reshape(-1) for t in (operands.seqlens_q, operands.seqlens_kv))
    numbers = (*orders["mask"], *orders["bias"])
    return (
        *(t.flatten(0, last) for t in (q, k, v)),
        Operands(mask, bias, operands.sink, slopes, *lengths, read=operands.read),
        scalars._replace(plane_orders=numbers if any(numbers) else None),
    )


def attend_any_rank(
    q, k, v, operands, scalars, sequence_major, deterministic, wanted=OUTPUT_ALONE, mask_axes=None
):  # fmt: skip
    """As `_autograd.attend`, for q, k, v of four axes or more, in one call; `mask_axes` as flattened() has them."""
    flat = flattened(q, k, v, operands, scalars, mask_axes)
    *of_rows, max_logits = attend(*flat, sequence_major, deterministic, wanted)
    return *(None if t is None else t.unflatten(0, q.shape[:_BATCH]) for t in of_rows), max_logits
