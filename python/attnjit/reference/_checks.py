"""Faults of a call, in the words of the library: a call of its own without rows, of which it launches nothing."""

from functools import cache

import torch
from torch import Tensor

from .. import _native
from .._call import _DTYPES, Operands
from .._described import _CODES, _CUDA, _OPAQUE
from .._scalars import NO_DIAGONAL, TOP_LEFT, Scalars

_WIDE = (torch.float32, torch.float64)
_ADDRESS = 256  # of memory that nothing reads


@cache
def _context():
    """A context that could not compile."""
    return _native.create_context(None, None, None, _DTYPES)


def _described(tensor: Tensor | None, q: Tensor, narrow: torch.dtype = torch.float32) -> tuple | None:
    """What the module reads in the place of a tensor; `narrow` stands for a wide dtype of q's that kernels lack."""
    if tensor is None:
        return None
    is_of_q = tensor.dtype == q.dtype and tensor.dtype in _WIDE
    code = _CODES.get(narrow if is_of_q else tensor.dtype, (_OPAQUE, 8 * tensor.element_size()))
    address = _ADDRESS if tensor.numel() else 0
    return (address, *code, _CUDA, 0, tuple(tensor.shape), tensor.stride())


def _dense(tensor: Tensor, shape) -> Tensor:
    """Of another shape, without memory."""
    return torch.empty(shape, dtype=tensor.dtype, device="meta")


def _without_rows(name: str, operand: Tensor | None, num_rows: int) -> Tensor | None:
    """A mask or bias of a call without rows."""
    if operand is None or operand.dim() < 2 or operand.shape[-2] == 1:
        return operand
    if operand.shape[-2] != num_rows:
        raise ValueError(
            f"{name}: query axis is {operand.shape[-2]}; expected 1 or {num_rows} (sequence of q)"
        )
    return operand.narrow(-2, 0, 0)


def _tail_without_rows(tail_mask: Tensor, num_rows: int) -> Tensor:
    if tail_mask.shape[-2:] != (num_rows, num_rows):
        raise ValueError(
            f"tail_mask: shape is {tuple(tail_mask.shape)}; expected (B or 1, 1, {num_rows}, {num_rows})"
        )
    return tail_mask[..., :0, :0]


def _lists_without_rows(operands: Operands, scalars: Scalars, num_rows: int) -> Operands:
    if scalars.block_sizes is None:
        return operands
    expected = -(-num_rows // scalars.block_sizes[0]) if scalars.block_sizes[0] > 0 else 0
    lists = {name: getattr(operands, name) for name in operands._fields if "block_" in name and name != "block_table"}
    for name, tensor in lists.items():
        if tensor is not None and expected and tensor.shape[2] != expected:
            raise ValueError(
                f"blocks.{name.replace('block_', '')}: axis of row blocks is {tensor.shape[2]}; expected {expected}"
                " (Lq / block_q, rounded up)"
            )
    return operands._replace(**{name: t if t is None else t[:, :, :0] for name, t in lists.items()})


def _check_devices(q: Tensor, others: dict[str, Tensor | None]) -> None:
    for name, tensor in others.items():
        if tensor is not None and tensor.device != q.device:
            raise ValueError(f"{name}: it is on {tensor.device}; q is on {q.device}")


def _check_tensors(q: Tensor, k: Tensor, v: Tensor, operands: Operands) -> None:
    """What the library cannot tell, which gets 16-bit tensors of the same shapes."""
    for name, tensor in (("k", k), ("v", v)):
        if tensor.dim() != 4:
            raise ValueError(
                f"{name}: it has {tensor.dim()} axes; expected (batch, head, sequence, feature), as q has"
            )
        if tensor.dtype != q.dtype:
            raise ValueError(f"{name}: dtype is {tensor.dtype}; expected {q.dtype}, that of q")
    for name, tensor in (("bias", operands.bias), ("sink", operands.sink)):
        if q.dtype in _WIDE and tensor is not None and tensor.dtype in (torch.float16, torch.bfloat16):
            allowed = " or ".join(sorted({"torch.float32", str(q.dtype)}))
            raise ValueError(f"{name}: dtype is {tensor.dtype}; expected {allowed}")


def _check_elements(names: tuple[str, ...], read: tuple[Tensor, ...]) -> None:
    for name, tensor in zip(names, read):
        if not tensor.numel():
            axis = tensor.shape.index(0)
            raise ValueError(f"operand {name}: axis {axis} is 0; expected 1 or more")


def _without_rows_of_all(operands: Operands, scalars: Scalars, num_rows: int) -> tuple[Operands, Scalars]:
    """Operands and scalars of a call, whose sequences are not packed, without its rows."""
    bias, mask = _without_rows("bias", operands.bias, num_rows), operands.mask
    if scalars.prepared_mask is None:
        mask = _without_rows("mask", mask, num_rows)
    elif scalars.prepared_mask[2] == num_rows > 1:
        batches, heads, _, *others = scalars.prepared_mask
        scalars = scalars._replace(prepared_mask=(batches, heads, 0, *others))
    operands = _lists_without_rows(operands, scalars, num_rows)
    tail = operands.tail_mask
    tail = None if tail is None else _tail_without_rows(tail, num_rows)
    return operands._replace(mask=mask, bias=bias, tail_mask=tail), scalars


def check(q: Tensor, k: Tensor, v: Tensor, operands: Operands, scalars: Scalars) -> None:
    """Raises what is wrong with shapes, dtypes, options and texts of a call of one batch axis.

    Raises:
        ValueError, TypeError, NotImplementedError: as `attnjit.attention`.
    """
    *named, read = operands
    read = read or ()
    read_names = scalars.operand_names
    _check_devices(q, {"k": k, "v": v, **dict(zip(operands._fields, named)), **dict(zip(read_names, read))})
    _check_tensors(q, k, v, operands)
    num_rows, num_keys = q.shape[2], k.shape[2]
    if q.numel() and k.numel():
        _check_elements(read_names, read)
    if operands.cu_seqlens_q is None:
        if scalars.diagonal == NO_DIAGONAL and num_rows == num_keys and operands[4:6] == (None, None):
            scalars = scalars._replace(diagonal=TOP_LEFT)  # slopes need no name for it
        operands, scalars = _without_rows_of_all(operands, scalars, num_rows)
    mask, bias, sink, *others = operands[:-1]
    without_rows = (*q.shape[:2], 0, q.shape[3])
    _native.enqueue_forward(
        _context(),
        *(_described(t, q, torch.float16) for t in (_dense(q, without_rows), _dense(k, k.shape), _dense(v, v.shape))),
        _described(mask, q),
        *(_described(t, q, torch.float16) for t in (bias, sink)),
        *(_described(t, q) for t in others),
        tuple(_described(t, q) for t in read) or None,
        scalars,
        _described(_dense(q, (*q.shape[:2], 0, v.shape[3])), q, torch.float16),
        None, None, None, 0,
    )  # fmt: skip
