"""`attnjit.attention`."""

import operator
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from ._autograd import attend
from ._batch_axes import attend_any_rank
from ._block_lists import BlockLists, checked
from ._call import Operands
from ._expressions import said
from ._prepared_mask import PreparedMask, unpacked
from ._scalars import BOTTOM_RIGHT, NO_DIAGONAL, TOP_LEFT, Scalars

Diagonal = Literal["top-left", "bottom-right"]

_DIAGONALS = {None: NO_DIAGONAL, "top-left": TOP_LEFT, "bottom-right": BOTTOM_RIGHT}


def _diagonal(name: str, value: str | None) -> int:
    if value not in _DIAGONALS:
        raise ValueError(f'{name}: {value!r}; expected None, "top-left" or "bottom-right"')
    return _DIAGONALS[value]


def _integer(value):
    return value if isinstance(value, (int, torch.SymInt)) else operator.index(value)


def sides(name: str, window) -> tuple[int, int]:
    """Both sides of a window: a pair, a tensor or an array of two integers of any type. Raises TypeError for anything
    else, by the argument's name."""
    try:
        if len(window) == 2:
            return _integer(window[0]), _integer(window[1])
    except (TypeError, KeyError):
        pass  # floats, and what is no sequence
    raise TypeError(f"{name}: {window!r}; expected (left, right), two integers")


def scalars_of(
    scale: float | None,
    causal: str | None,
    window: tuple[int, int] | None,
    diagonal: str | None,
    softcap: float | None = None,
    diagonal_offset: int = 0,
    prepared_mask: tuple[int, ...] | None = None,
) -> Scalars:
    """Raises ValueError where the arguments contradict one another."""
    cap = 0.0 if softcap is None else softcap
    if causal is None and window is None and diagonal is None:
        return Scalars(scale, softcap=cap, diagonal_offset=diagonal_offset, prepared_mask=prepared_mask)
    where = _diagonal("causal", causal)
    if diagonal is not None:
        named = _diagonal("diagonal", diagonal)
        if where not in (NO_DIAGONAL, named):
            raise ValueError(f"causal is {causal!r} and diagonal {diagonal!r}; name one, or the same")
        where = named
    left, right = (-1, -1) if window is None else sides("window", window)
    if left < -1 or right < -1:
        raise ValueError(f"window: ({left}, {right}); expected sides of 0 or more, or -1 for an open one")
    if window is not None and where == NO_DIAGONAL:
        raise ValueError('window: say diagonal="top-left" or "bottom-right"; libraries differ on it')
    return Scalars(scale, causal is not None, where, left, right, cap, diagonal_offset, prepared_mask)


def autocast(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, sink: Tensor | None):
    """The tensors in the dtype of a CUDA autocast region, if this is one; fp32 of bias and sink stays fp32."""
    if not torch.is_autocast_enabled("cuda"):
        return q, k, v, bias, sink
    dtype = torch.get_autocast_dtype("cuda")
    bias, sink = (
        t if t is None or t.dtype in (dtype, torch.float32, torch.bool) else t.to(dtype) for t in (bias, sink)
    )
    return q.to(dtype), k.to(dtype), v.to(dtype), bias, sink


def _lengths(name: str, lengths: Tensor | None) -> Tensor | None:
    if lengths is None or lengths.dtype == torch.int32:
        return lengths
    if lengths.dtype != torch.int64:
        raise TypeError(f"{name}: dtype is {lengths.dtype}; expected int32")
    return lengths.to(torch.int32)


def refuse_what_is_no_tensor(required, optional) -> None:
    for name, value in (required | optional).items():
        if not isinstance(value, Tensor) and (value is not None or name in required):
            raise TypeError(f"{name}: expected a tensor, not {type(value).__name__}") from None


def arguments_of(
    q, k, v, mask, bias, sink, alibi_slopes, causal, window, diagonal, diagonal_offset, scale, softcap, seqlens_q,
    seqlens_kv, cu_seqlens_q, cu_seqlens_kv, block_table, tail_mask, score, keep, operands, row_offset, key_offset,
    blocks=None, key_indices=None,
) -> tuple[Tensor, Tensor, Tensor, Operands, Scalars, tuple[int, ...] | None]:  # fmt: skip
    """(q, k, v, operands, scalars, batch axes of a prepared mask) of the arguments of `attention`. Raises what is wrong
    with them, as far as it does not depend on shapes."""
    mask, prepared, mask_axes = unpacked(mask)
    scalars = scalars_of(scale, causal, window, diagonal, softcap, diagonal_offset, prepared)
    q, k, v, bias, sink = autocast(q, k, v, bias, sink)
    given = {
        "seqlens_q": seqlens_q,
        "seqlens_kv": seqlens_kv,
        "cu_seqlens_q": cu_seqlens_q,
        "cu_seqlens_kv": cu_seqlens_kv,
        "block_table": block_table,
    }
    lengths = {name: _lengths(name, value) for name, value in given.items()}
    if cu_seqlens_q is not None and q.dim() != 4:
        raise ValueError(f"q: it has {q.dim()} axes; packed sequences lie in (1, head, sequence, feature)")
    if q.dim() != 4 and (block_table is not None or tail_mask is not None):
        raise ValueError(f"q: it has {q.dim()} axes; block_table and tail_mask are for one batch axis")
    lists, block_sizes = checked(blocks)
    if q.dim() != 4 and blocks is not None:
        raise ValueError(f"q: it has {q.dim()} axes; blocks are for one batch axis")
    if q.dim() != 4 and key_indices is not None:
        raise ValueError(f"q: it has {q.dim()} axes; key_indices are for one batch axis")
    if q.dim() == 4 and mask_axes is not None:
        raise ValueError(f"mask: it was prepared with {len(mask_axes)} batch axes; q has one")
    read = None
    if score is not None or keep is not None or operands is not None:
        scalars, read = said(scalars, score, keep, operands, q.device, row_offset, key_offset)
    if blocks is not None:
        scalars = scalars._replace(block_sizes=block_sizes)
    tensors = Operands(
        mask, bias, sink, alibi_slopes, *lengths.values(), tail_mask, *lists, key_indices, read
    )
    return q, k, v, tensors, scalars, mask_axes


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
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
    block_table: Tensor | None = None,
    tail_mask: Tensor | None = None,
    score: str | None = None,
    keep: str | None = None,
    operands: Mapping[str, Tensor | float] | None = None,
    row_offset: int = 0,
    key_offset: int = 0,
    blocks: BlockLists | None = None,
    key_indices: Tensor | None = None,
    return_lse: bool = False,
    return_row_max: bool = False,
    return_max_logits: bool = False,
    deterministic: bool | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """softmax(scale * q k^T + bias, over the kept keys) v, with gradients by q, k, v, bias, sink, lse and operands.

    Args:
        q: (B, Hq, Lq, D), fp16 or bf16, on a CUDA device; any strides. More batch axes may stand before
            the heads.
        k: (B, Hkv, Lk, D), q's dtype. Hq is a multiple of Hkv: query head h reads head
            h // (Hq // Hkv).
        v: (B, Hkv, Lk, Dv), q's dtype.
        mask: bool, True keeps; broadcast to (B, Hq, Lq, Lk), where the head axis may also be Hkv, and the
            batch axis any n that divides B: element b reads plane b // (B // n). Of several batch axes each is full or
            1: the windows of a batch of images share masks as (1, windows, 1, Lq, Lk). Or what `prepare_mask` made
            of one.
        bias: q's dtype or fp32, added to the scaled scores; broadcast as mask is. Its gradient is computed
            if it requires one, and summed over its axes of size 1.
        sink: (Hq,), q's dtype or fp32: one more score of each row of a head, with neither a key nor a value.
            Its gradient is computed if it requires one.
        alibi_slopes: (Hq,) or (B, Hq) fp32: a slope is taken off a score for each key between it and the row's
            diagonal, beside the bias. Without a gradient.
        causal: "top-left": query i keeps keys j <= i. "bottom-right": keys j <= i + Lk - Lq.
        window: (left, right): query i, on its diagonal, keeps that many keys before and after it; -1
            opens a side.
        diagonal: where a window without `causal` starts, and from where slopes count: "top-left" or
            "bottom-right". Slopes need none where Lq = Lk and there are no lengths.
        diagonal_offset: keys by which that diagonal, or the one of `causal`, lies further right.
        scale: any finite number; 1 / sqrt(D) by default.
        softcap: c turns scaled scores s into c tanh(s / c), before the bias is added; None or 0 does not.
        seqlens_q, seqlens_kv: (B,) int32 on the device: rows and keys in use. Other rows are 0.
        cu_seqlens_q, cu_seqlens_kv: (B + 1,) int32 on the device: B sequences lie one after another in tensors whose
            batch axis is 1; sequence b has rows cu_seqlens_q[b] to before cu_seqlens_q[b + 1]. mask and bias are
            then (B, heads, rows, keys) of a sequence, any axis 1, or (1, heads, 1, all keys). Beside a block table
            cu_seqlens_q alone.
        block_table: (B, pages) int32 on the device, without gradients: k and v are pools (number of pages, Hkv,
            page size, D or Dv), key j of batch element or sequence b is row j % page size of page
            block_table[b, j // page size], and seqlens_kv must be given. Entries of pages past it are not looked at,
            whatever they are.
        tail_mask: bool, True keeps, without gradients: broadcast to (B, 1, Lq, Lq). Column t is key n - Lq + t of
            the n in use, as drafts of a tree have it; other keys are kept.
        score: an expression (docs/reference/expressions.md) that takes the place of the scaled score s, before softcap,
            bias and slopes, such as "s + rel[h, clamp(j - i, -128, 128) + 128]".
        keep: one that is true where a row keeps a key, beside all else that drops keys, such as
            "doc[b, i] == doc[b, j]". Of several batch axes b counts the elements, the last axis the fastest.
        operands: the tensors that both read, by name: fp32, fp16, bf16, int32 or bool on q's device, of up to 4 axes
            and any strides, or numbers. Each of them is read by one at least. Gradients of up to four are computed if
            they require them.
        row_offset, key_offset: the places of q's and k's rows in a whole of which they are a part, as of a chunk of
            a prompt: added to i and j of both, and off to match, unless these name row_offset or key_offset.
        blocks: `BlockLists`, the blocks of keys that each block of rows attends to: pairs in no listed block are
            dropped, and everything else holds inside the blocks.
        key_indices: (B or 1, Hkv or 1, W) int32 or int64: the keys that all rows of a kv head may see, by their numbers
            and in any order, as `topk` gives them. Others are not read, and their gradients are 0. A key that is
            named m times counts m times; a number that is none of a key in use, such as -1, names none. All else
            holds at the key's own number. Not beside cu_seqlens, block_table, tail_mask, blocks or a prepared mask,
            nor with a gradient of the bias.
        return_lse: also return the logarithm of the sum of exp(score), (B, Hq, Lq) fp32; of a row that keeps
            no key the sink, or -inf.
        return_row_max: also return the largest score of each row over its kept keys, scaled, capped and with its
            bias and slopes, (B, Hq, Lq) fp32; -inf without one. A sink does not count. Without a gradient.
        return_max_logits: also return the largest of each head, (Hq,) fp32; likewise.
        deterministic: the same gradients, bit for bit, on every run; by default as
            torch.use_deterministic_algorithms() says.

    Returns:
        (B, Hq, Lq, Dv) in q's dtype and order of axes in memory; rows that keep no key are 0. A tuple of it, lse
        and the largest scores of rows and of heads, as far as they are asked for, where any is.

    Raises:
        ValueError: a shape, stride or option breaks a rule; the message names it.
        TypeError: a dtype that is never taken, or an argument that is no tensor.
        NotImplementedError: this build has no kernel for the problem or device; torch.func transforms; gradients
            beside block_table or tail_mask, or by an operand of an expression.
        RuntimeError: no NVRTC, a failure of CUDA or of the compiler.

    The first call of a kind compiles its kernels, and tunes them unless DISABLE_AUTOTUNE=1. The full
    contract is docs/reference/semantics.md of the project.
    """
    try:
        q, k, v, tensors, scalars, mask_axes = arguments_of(
            q, k, v, mask, bias, sink, alibi_slopes, causal, window, diagonal, diagonal_offset, scale, softcap,
            seqlens_q, seqlens_kv, cu_seqlens_q, cu_seqlens_kv, block_table, tail_mask, score, keep, operands,
            row_offset, key_offset, blocks, key_indices,
        )  # fmt: skip
        wanted = (return_lse, return_row_max, return_max_logits)
        options = (tensors, scalars, None, deterministic, wanted)
        results = attend(q, k, v, *options) if q.dim() == 4 else attend_any_rank(q, k, v, *options, mask_axes)
    except (AttributeError, RuntimeError):
        optional = Operands(
            unpacked(mask)[0], bias, sink, alibi_slopes, seqlens_q, seqlens_kv, cu_seqlens_q, cu_seqlens_kv,
            block_table, tail_mask, key_indices=key_indices,
        )._asdict()  # fmt: skip
        refuse_what_is_no_tensor({"q": q, "k": k, "v": v}, optional)
        raise
    if not any(wanted):
        return results[0]
    return tuple(t for t in results if t is not None)
