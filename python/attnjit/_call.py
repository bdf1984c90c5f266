"""Calls of the kernels on plain tensors of a GPU. Tensors are (batch, head, sequence, feature), mask and
bias broadcast to (batch, head, query, key), a sink is (head,), slopes
of ALiBi are (head,) or (batch, head), and absent operands are None. Beside a block table, (batch, most pages of one)
int32, k and v are (page, head, key of the page, feature).

Calls go to PyTorch's current stream."""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from . import _native, _nvrtc
from ._layout import new_strided
from ._scalars import Scalars

if hasattr(Tensor, "__dlpack_c_exchange_api__"):
    from . import _native as _calls

    # The module allocates by PyTorch's functions. Code that torch.compile makes uses the second one, which takes
    # half the time.
    _makers = (new_strided, getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None))
else:
    from . import _described as _calls

    _makers = (_calls.new_strided, None)

# Whether a forward returns lse, the largest score of each row and that of each head beside its output.
Wanted = tuple[bool, bool, bool]
OUTPUT_ALONE: Wanted = (False, False, False)


class Operands(NamedTuple):
    """What a call may have beside q, k and v."""

    mask: Tensor | None = None
    bias: Tensor | None = None
    sink: Tensor | None = None
    alibi_slopes: Tensor | None = None
    seqlens_q: Tensor | None = None
    seqlens_kv: Tensor | None = None
    cu_seqlens_q: Tensor | None = None
    cu_seqlens_kv: Tensor | None = None
    block_table: Tensor | None = None
    tail_mask: Tensor | None = None
    block_indices: Tensor | None = None  # those of BlockLists
    block_counts: Tensor | None = None
    full_block_indices: Tensor | None = None
    full_block_counts: Tensor | None = None
    key_indices: Tensor | None = None
    read: tuple[Tensor, ...] | None = None  # by expressions, in the order of Scalars.operand_names

    def flat(self) -> tuple[Tensor | None, ...]:
        """The tensors one after another, those that are read last."""
        return self[:-1] if self.read is None else (*self[:-1], *self.read)

    @classmethod
    def of_flat(cls, tensors) -> "Operands":
        named = len(cls._fields) - 1
        return cls(*tensors) if len(tensors) == named else cls(*tensors[:named], tuple(tensors[named:]))


_CURRENT_STREAM = None
_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.uint8)  # by the numbers of the C API


@cache
def context():
    """The one context of this process."""
    return _native.create_context(_nvrtc.find(), *_makers, _DTYPES)


def forward(
    q, k, v, operands: Operands, scalars: Scalars, wanted: Wanted, sequence_major: bool | None
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:  # fmt: skip
    """A new output, in (batch, sequence, head, feature) memory if `sequence_major`, in that of q if it is None,
    and those that are wanted of lse and the largest scores of rows, (batch, head, query) fp32 both, and the largest
    scores of heads, (head,) fp32."""
    return _calls.forward(context(), q, k, v, *operands, scalars, *wanted, sequence_major)


def backward(
    dout, dlse, q, k, v, out, lse, operands: Operands, scalars: Scalars, need_dbias: bool, need_dsink: bool,
    deterministic: bool, need_read: tuple[bool, ...] = (),
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, tuple[Tensor | None, ...]]:  # fmt: skip
    """New dq, dk, dv in the memory orders of q, k, v, and on request dbias in the bias's shape and dtype, and
    dsink, (head,) fp32; and of each tensor that expressions read its gradient, or None."""
    read = new_read_gradients(operands, need_read)
    gradients = _calls.backward(
        context(), q, k, v, *operands, scalars, out, lse, dout, dlse, need_dbias, need_dsink, deterministic,
        read or None,
    )  # fmt: skip
    return *gradients, read


def new_read_gradients(operands: Operands, need_read) -> tuple[Tensor | None, ...]:
    """A contiguous tensor for each of the operands that expressions read whose gradient is wanted."""
    if not any(need_read):
        return ()
    return tuple(t.new_empty(t.shape) if need else None for t, need in zip(operands.read, need_read))


def enqueue_forward(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor | None, operands: Operands, scalars: Scalars,
    row_max: Tensor | None = None, max_logits: Tensor | None = None,
) -> None:  # fmt: skip
    """As forward(), into `out` and, unless they are None, `lse`, `row_max` and `max_logits`."""
    _calls.enqueue_forward(
        context(), q, k, v, *operands, scalars, out, lse, row_max, max_logits, _CURRENT_STREAM
    )


def enqueue_backward(
    dout: Tensor,
    dlse: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    operands: Operands,
    scalars: Scalars,
    dq: Tensor,
    dk: Tensor,
    dv: Tensor,
    dbias: Tensor | None,
    deterministic: bool,
    read: tuple[Tensor | None, ...] = (),
) -> None:
    """As backward(), into dq, dk, dv and, unless it is None, dbias, and into `read`, which new_read_gradients() makes;
    without dsink."""
    _calls.enqueue_backward(
        context(), q, k, v, *operands, scalars, out, lse, dout, dlse, deterministic, dq, dk, dv, dbias, None,
        read or None, _CURRENT_STREAM,
    )  # fmt: skip


def enqueue_merge_lse(
    first: Tensor,
    part_stride: int,
    num_parts: int,
    part_lses: Tensor,
    carry: Tensor | None,
    carry_lse: Tensor | None,
    out: Tensor,
    lse: Tensor | None,
) -> None:
    """Merges parts, of which `first` is one and the others lie `part_stride` elements apart, into `out` and `lse`."""
    _calls.enqueue_merge_lse(
        context(), first, part_stride, num_parts, part_lses, carry, carry_lse, out, lse, _CURRENT_STREAM
    )


def enqueue_prepare_mask(mask: Tensor, backward: bool, memory: Tensor) -> None:
    """Packs a mask of four axes into `memory`, (bytes,) uint8."""
    _calls.enqueue_prepare_mask(context(), mask, backward, memory, _CURRENT_STREAM)
