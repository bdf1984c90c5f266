"""Implementations of the operators `torch.ops.attnjit.forward` and `backward`: what torch.compile, fake tensors, tensor
subclasses and modes see of a call. They have no autograd formula; `_autograd` wraps them."""

import torch
from torch import Tensor

from . import _call
from . import _schemas as _defines_operators  # noqa: F401
from ._layout import new_dsink, new_gradient, new_max_logits, new_row_numbers, new_tensor
from ._scalars import Scalars


def _absent(q: Tensor) -> Tensor:
    """Stands for a result that was not asked for: operators return tensors only."""
    return q.new_empty(0, dtype=torch.float32)


def _refuse(*_):
    raise ValueError("q: it is on the CPU; attnjit computes on CUDA devices")


for _name in ("attnjit::forward", "attnjit::backward"):
    torch.library.impl(_name, "CPU", _refuse)


def grouped(flat) -> tuple[_call.Operands, Scalars]:
    """Operands and scalars, which are one argument each for `_call`, of an operator's arguments."""
    count = len(_call.Operands._fields)
    return _call.Operands(*flat[:count]), Scalars(*flat[count:])


@torch.library.impl("attnjit::forward", "CUDA")
def _forward(q, k, v, *arguments):
    *flat, need_lse, need_row_max, need_max_logits, sequence_major = arguments
    wanted = need_lse, need_row_max, need_max_logits
    out, *others = _call.forward(q, k, v, *grouped(flat), wanted, sequence_major)
    return out, *(_absent(q) if t is None else t for t in others)


@torch.library.register_fake("attnjit::forward")
def _fake_forward(q, k, v, *arguments):
    *_, need_lse, need_row_max, need_max_logits, sequence_major = arguments
    out = new_tensor(q, v.shape[3], sequence_major)
    lse, row_max = (new_row_numbers(q) if need else _absent(q) for need in (need_lse, need_row_max))
    return out, lse, row_max, new_max_logits(q) if need_max_logits else _absent(q)


@torch.library.impl("attnjit::backward", "CUDA")
def _backward(dout, dlse, q, k, v, out, lse, *arguments):
    *flat, need_dbias, need_dsink, deterministic, need_read = arguments
    *gradients, dbias, dsink, read = _call.backward(
        dout, dlse, q, k, v, out, lse, *grouped(flat), need_dbias, need_dsink, deterministic, need_read
    )
    others = (_absent(q) if t is None else t for t in (dbias, dsink))
    return *gradients, *others, [t for t in read if t is not None]


@torch.library.register_fake("attnjit::backward")
def _fake_backward(dout, dlse, q, k, v, out, lse, *arguments):
    *flat, need_dbias, need_dsink, _, need_read = arguments
    operands, _ = grouped(flat)
    dbias = operands.bias.new_empty(operands.bias.shape) if need_dbias else _absent(q)
    dsink = new_dsink(operands.sink) if need_dsink else _absent(q)
    read = [t for t in _call.new_read_gradients(operands, need_read) if t is not None]
    return new_gradient(q), new_gradient(k), new_gradient(v), dbias, dsink, read
