"""The way of a call: straight to the kernels for plain tensors, through `torch.ops.attnjit` for all else."""

import torch
from torch import Tensor
from torch.nn import Parameter

from . import _call, _operators  # noqa: F401 (defines torch.ops.attnjit)
from ._layout import is_sequence_major
from ._native import are_plain as _are_plain

_PLAIN_TYPES = (Tensor, Parameter)

_modes = torch._C._len_torch_dispatch_stack
_transforms_active = torch._C._are_functorch_transforms_active
_is_compiling = torch.compiler.is_compiling


def refuse_transforms() -> None:
    """Raises NotImplementedError under vmap, grad and the like of torch.func. Not for compilers to trace."""
    if _transforms_active():
        raise NotImplementedError(
            "attnjit cannot be used under the transforms of torch.func; instead of vmap, batch axes may"
            " stand before the heads"
        )


def _is_plain(*tensors: Tensor | tuple[Tensor, ...] | None) -> bool:
    """Whether nothing but the kernel is to see these tensors: no subclass (which a type check alone tells,
    for subclasses inherit the exchange API), no mode, no compiler, no other device."""
    if _is_compiling() or _modes():
        return False
    return _are_plain(_PLAIN_TYPES, *tensors) and tensors[0].is_cuda


def forward(q, k, v, operands, scalars, wanted, sequence_major):
    """As `_call.forward`."""
    if _is_plain(q, k, v, *operands):
        return _call.forward(q, k, v, operands, scalars, wanted, sequence_major)
    if sequence_major is None:
        sequence_major = is_sequence_major(q)
    out, *others = torch.ops.attnjit.forward(q, k, v, *operands, *scalars, *wanted, sequence_major)
    return out, *(t if is_wanted else None for t, is_wanted in zip(others, wanted))


def backward(
    dout, dlse, q, k, v, out, lse, operands, scalars, need_dbias, need_dsink, deterministic, need_read=()
):
    """As `_call.backward`."""
    tensors, wanted = (dout, dlse, q, k, v, out, lse), (need_dbias, need_dsink, deterministic, need_read)
    if _is_plain(*tensors, *operands):
        return _call.backward(*tensors, operands, scalars, *wanted)
    *gradients, dbias, dsink, read = torch.ops.attnjit.backward(*tensors, *operands, *scalars, *wanted)
    wanted_read = iter(read)
    read = tuple(next(wanted_read) if need else None for need in need_read)
    return *gradients, dbias if need_dbias else None, dsink if need_dsink else None, read
