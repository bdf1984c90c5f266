"""`attnjit.attention_backward`."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from . import _dispatch
from ._attention import Diagonal, arguments_of, refuse_what_is_no_tensor
from ._batch_axes import flattened
from ._block_lists import BlockLists
from ._call import Operands
from ._prepared_mask import PreparedMask, unpacked
from ._scalars import Scalars


class Gradients(NamedTuple):
    """What `attention_backward` computes; None for what was not asked for."""

    dq: Tensor
    dk: Tensor
    dv: Tensor
    dbias: Tensor | None = None
    dsink: Tensor | None = None
    doperands: dict[str, Tensor] | None = None


class _Wanted(NamedTuple):
    dbias: bool
    dsink: bool
    doperands: Collection[str]


def _check_wanted(wanted: _Wanted, operands: Operands, scalars: Scalars) -> None:
    for name, is_wanted, operand in (
        ("dbias", wanted.dbias, operands.bias),
        ("dsink", wanted.dsink, operands.sink),
    ):
        if is_wanted and operand is None:
            raise ValueError(f"return_{name}: the call has no {name[1:]}")
    for name in wanted.doperands:
        if name not in scalars.operand_names:
            raise ValueError(f"return_doperands: {name!r} is none of the operands {scalars.operand_names}")


def _check_shapes(q: Tensor, v: Tensor, out: Tensor, lse: Tensor, dout: Tensor, dlse: Tensor | None) -> None:
    of_rows, width = tuple(q.shape[:-1]), v.shape[-1]
    for name, tensor, shape in (
        ("out", out, (*of_rows, width)),
        ("lse", lse, of_rows),
        ("dout", dout, (*of_rows, width)),
        ("dlse", dlse, of_rows),
    ):
        if tensor is not None and tuple(tensor.shape) != shape:
            raise ValueError(f"{name}: shape is {tuple(tensor.shape)}; expected {shape}")


def _gradients(of_rows, q, k, v, operands: Operands, scalars: Scalars, deterministic: bool, wanted: _Wanted):
    """Of a call of one batch axis; `of_rows` are out, lse, dout, dlse."""
    out, lse, dout, dlse = of_rows
    need_read = tuple(name in wanted.doperands for name in scalars.operand_names)
    *gradients, dbias, dsink, read = _dispatch.backward(
        dout, None if dlse is None else dlse.contiguous(), q, k, v, out, lse.contiguous(), operands, scalars,
        wanted.dbias, wanted.dsink, deterministic, need_read,
    )  # fmt: skip
    named = {name: t for name, t in zip(scalars.operand_names, read) if t is not None}
    return Gradients(*gradients, dbias, dsink, named if wanted.doperands else None)


def _gradients_any_rank(of_rows, call, mask_axes, deterministic: bool, wanted: _Wanted) -> Gradients:
    """As _gradients(), of several batch axes."""
    q, k, v, operands, scalars = call
    batch = q.shape[:-3]
    leaf = operands.bias
    if wanted.dbias:
        leaf = leaf.detach().requires_grad_()
    with torch.enable_grad():  # a record of how the bias becomes one of a single batch axis
        *flat, flat_operands, scalars = flattened(q, k, v, operands._replace(bias=leaf), scalars, mask_axes)
    flat_of_rows = [None if t is None else t.flatten(0, len(batch) - 1) for t in of_rows]
    found = _gradients(flat_of_rows, *flat, flat_operands, scalars, deterministic, wanted)
    dq, dk, dv = (t.unflatten(0, batch) for t in found[:3])
    dbias = torch.autograd.grad(flat_operands.bias, leaf, found.dbias)[0] if wanted.dbias else None
    return found._replace(dq=dq, dk=dk, dv=dv, dbias=dbias)


@torch.no_grad()
def attention_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    dout: Tensor,
    *,
    dlse: Tensor | None = None,
    mask: Tensor | PreparedMask | None = None,
    bias: Tensor | None = None,
    sink: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    causal: Diagonal | None = None,
    window: tuple[int, int] | None = None,
    diagonal: Diagonal | None = None,
    diagonal_offset: int = 0,
    scale: float | None = None,
    softcap: float | None = None,
    seqlens_q: Tensor | None = None,
    seqlens_kv: Tensor | None = None,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_kv: Tensor | None = None,
    score: str | None = None,
    keep: str | None = None,
    operands: Mapping[str, Tensor | float] | None = None,
    row_offset: int = 0,
    key_offset: int = 0,
    blocks: BlockLists | None = None,
    key_indices: Tensor | None = None,
    return_dbias: bool = False,
    return_dsink: bool = False,
    return_doperands: Collection[str] = (),
    deterministic: bool | None = None,
) -> Gradients:
    """The gradients of `attnjit.attention` from an out and lse that are given, for a ring of your own: with those of
    all keys, as `merge_lse` makes them, the call of each share of the keys gives its part of every gradient.

    Args:
        q, k, v: as those of `attnjit.attention`: (B, Hq, Lq, D), (B, Hkv, Lk, D) and (B, Hkv, Lk, Dv), fp16 or bf16,
            on a CUDA device; more batch axes may stand before the heads.
        out: (B, Hq, Lq, Dv), q's dtype: the output, over these keys or over more.
        lse: (B, Hq, Lq) fp32, of the same keys as out.
        dout: (B, Hq, Lq, Dv), q's dtype: the gradient of the loss by out. Of a row that keeps no key it is not read.
        dlse: (B, Hq, Lq) fp32: that by lse; None where nothing depends on lse.
        mask, bias, sink, alibi_slopes, causal, window, diagonal, diagonal_offset, scale, softcap, seqlens_q,
        seqlens_kv, cu_seqlens_q, cu_seqlens_kv, score, keep, operands, row_offset, key_offset, blocks, key_indices:
            those of the forward, as `attnjit.attention` takes them; a prepared mask is one for a backward. There is no backward with a
            block_table or a tail_mask.
        return_dbias: also compute the gradient of the bias.
        return_dsink: also that of the sink.
        return_doperands: the names of operands whose gradients are computed too, up to four floats that a score reads.
        deterministic: the same gradients, bit for bit, on every run; by default as
            torch.use_deterministic_algorithms() says.

    Returns:
        Gradients(dq, dk, dv, dbias, dsink, doperands), new tensors without a graph: dq, dk, dv in the shapes, dtypes and
        memory orders of q, k, v; dbias in the shape and dtype of the bias; dsink (Hq,) fp32; doperands a dict of
        tensors of the shapes and dtypes of the operands. What was not asked for is None. Of a share of the keys three
        are not its part: dbias of a bias that is the same for all keys, dbias of a share with a single key, and dsink
        (docs/reference/semantics.md#merging).

    Raises:
        ValueError: a shape, stride or option breaks a rule, or a gradient is asked for of what the call has not; the
            message names it.
        TypeError: a dtype that is never taken, or an argument that is no tensor.
        NotImplementedError: this build has no kernel for the problem or device; torch.func transforms.
        RuntimeError: no NVRTC, a failure of CUDA or of the compiler.
    """
    if not torch.compiler.is_compiling():
        _dispatch.refuse_transforms()
    optional = Operands(
        unpacked(mask)[0], bias, sink, alibi_slopes, seqlens_q, seqlens_kv, cu_seqlens_q, cu_seqlens_kv,
    )._asdict()  # fmt: skip
    required = {"q": q, "k": k, "v": v, "out": out, "lse": lse, "dout": dout}
    refuse_what_is_no_tensor(required, optional | {"dlse": dlse})
    *call, mask_axes = arguments_of(
        q, k, v, mask, bias, sink, alibi_slopes, causal, window, diagonal, diagonal_offset, scale, softcap, seqlens_q,
        seqlens_kv, cu_seqlens_q, cu_seqlens_kv, None, None, score, keep, operands, row_offset, key_offset,
        blocks,
        key_indices,
    )  # fmt: skip
    wanted = _Wanted(return_dbias, return_dsink, return_doperands)
    _check_wanted(wanted, *call[3:])
    _check_shapes(call[0], call[2], out, lse, dout, dlse)
    if deterministic is None:
        deterministic = torch.are_deterministic_algorithms_enabled()
    of_rows = (out, lse, dout, dlse)
    if q.dim() == 4:
        return _gradients(of_rows, *call, deterministic, wanted)
    return _gradients_any_rank(of_rows, call, mask_axes, deterministic, wanted)
