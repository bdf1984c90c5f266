"""Calls of the kernels into memory at hand: straight, or through torch.ops.attnjit for what no plain tensor of a
GPU is."""

import torch
from torch import Tensor

from .. import _call, _dispatch
from .._call import Operands


def _is_direct(q: Tensor) -> bool:
    return q.is_cuda and type(q) in (Tensor, torch.nn.Parameter)


def forward_into(
    q, k, v, out: Tensor, lse: Tensor, row_max: Tensor | None, max_logits: Tensor | None, operands: Operands,
    scalars,
) -> None:  # fmt: skip
    """One call; `lse` and `row_max` are contiguous."""
    if _is_direct(q):
        _call.enqueue_forward(q, k, v, out, lse, operands, scalars, row_max, max_logits)
        return
    targets = (out, lse, row_max, max_logits)
    wanted = tuple(target is not None for target in targets[1:])
    for target, found in zip(targets, _dispatch.forward(q, k, v, operands, scalars, wanted, False)):
        if target is not None:
            target.copy_(found)


def backward_into(
    dout, dlse, q, k, v, out, lse, operands: Operands, scalars, gradients: tuple[Tensor, Tensor, Tensor], dbias,
    deterministic: bool, need_read: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Into (dq, dk, dv) and, unless it is None, dbias. `out` and `lse` are those over all keys. Returns the gradients
    of the operands of expressions that are wanted."""
    if _is_direct(q):
        read = _call.new_read_gradients(operands, need_read)
        _call.enqueue_backward(
            dout, dlse, q, k, v, out, lse, operands, scalars, *gradients, dbias, deterministic, read
        )
        return read
    *found, found_dbias, _, read = _dispatch.backward(
        dout, dlse, q, k, v, out, lse, operands, scalars, dbias is not None, False, deterministic, need_read
    )
    for target, gradient in zip(gradients, found):
        target.copy_(gradient)
    if dbias is not None:
        dbias.copy_(found_dbias)
    return read
