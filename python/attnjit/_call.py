"""Calls of the kernels on plain tensors of a GPU. Tensors are (batch, head, sequence, feature), mask and
bias broadcast to (batch, head, query, key), and absent operands are None.

`Scalars` stand for (scale or None, whether causal, diagonal, left and right side of the window), with the
diagonal 0 for none, 1 for top left and 2 for bottom right, and -1 for a side that is open."""

from functools import cache

import torch
from torch import Tensor

from . import _native, _nvrtc
from ._layout import new_gradient, new_lse, new_tensor, unit_stride

if hasattr(Tensor, "__dlpack_c_exchange_api__"):
    from ._native import backward as _enqueue_backward
    from ._native import forward as _enqueue_forward
else:
    from ._described import backward as _enqueue_backward
    from ._described import forward as _enqueue_forward

_CURRENT_STREAM = None  # of PyTorch, on the device of q

Scalars = tuple[float | None, bool, int, int, int]


@cache
def context():
    """The one context of this process."""
    return _native.create_context(_nvrtc.find())


def _allocate(size: int, device: int) -> Tensor:
    """Workspace of one call. PyTorch's allocator gives it to others only behind the call on its stream."""
    return torch.empty(size, dtype=torch.uint8, device=f"cuda:{device}")


def enqueue_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor | None,
    mask: Tensor | None,
    bias: Tensor | None,
    seqlens_q: Tensor | None,
    seqlens_kv: Tensor | None,
    scalars: Scalars,
) -> None:
    """Writes `out` and, unless it is None, `lse`, (batch, head, query) fp32, on PyTorch's current stream."""
    q, k, v = unit_stride(q), unit_stride(k), unit_stride(v)
    _enqueue_forward(
        context(), _allocate, q, k, v, out, lse, mask, bias, seqlens_q, seqlens_kv, *scalars, _CURRENT_STREAM
    )


def enqueue_backward(
    dout: Tensor,
    dlse: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    seqlens_q: Tensor | None,
    seqlens_kv: Tensor | None,
    scalars: Scalars,
    dq: Tensor,
    dk: Tensor,
    dv: Tensor,
    dbias: Tensor | None,
    deterministic: bool,
) -> None:
    """Writes dq, dk, dv and, unless it is None, dbias, on PyTorch's current stream."""
    q, k, v, dout, out = unit_stride(q), unit_stride(k), unit_stride(v), unit_stride(dout), unit_stride(out)
    if dlse is not None:
        dlse = dlse.contiguous()
    _enqueue_backward(
        context(), _allocate, q, k, v, out, lse, mask, bias, seqlens_q, seqlens_kv, *scalars, _CURRENT_STREAM,
        dout, dlse, dq, dk, dv, dbias, deterministic,
    )  # fmt: skip


def forward(
    q, k, v, mask, bias, seqlens_q, seqlens_kv, scalars: Scalars, need_lse: bool, sequence_major: bool
) -> tuple[Tensor, Tensor | None]:
    """A new output, in (batch, sequence, head, feature) memory if `sequence_major`, and on request lse."""
    out = new_tensor(q, v.shape[3], sequence_major)
    lse = new_lse(q) if need_lse else None
    enqueue_forward(q, k, v, out, lse, mask, bias, seqlens_q, seqlens_kv, scalars)
    return out, lse


def backward(
    dout, dlse, q, k, v, out, lse, mask, bias, seqlens_q, seqlens_kv, scalars: Scalars, need_dbias: bool,
    deterministic: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:  # fmt: skip
    """New dq, dk, dv in the memory orders of q, k, v, and on request dbias in the bias's shape and dtype."""
    dq, dk, dv = new_gradient(q), new_gradient(k), new_gradient(v)
    dbias = bias.new_empty(bias.shape) if need_dbias else None
    enqueue_backward(
        dout, dlse, q, k, v, out, lse, mask, bias, seqlens_q, seqlens_kv, scalars, dq, dk, dv, dbias,
        deterministic,
    )  # fmt: skip
    return dq, dk, dv, dbias
