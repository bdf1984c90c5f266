"""`attnjit.reference.attention`."""

from collections.abc import Mapping

import torch
from torch import Tensor

from .._attention import Diagonal, arguments_of, refuse_what_is_no_tensor
from .._batch_axes import flattened
from .._block_lists import BlockLists
from .._call import Operands
from .._layout import is_sequence_major
from .._prepared_mask import PreparedMask, unpacked
from ._checks import check
from ._formulas import largest_of_heads
from ._packed import attend, row_max


def _with_graph_of(result: Tensor, tensors) -> Tensor:
    """`result`, whose gradient by each of the tensors is 0 where it depends on none of their elements."""
    for tensor in tensors:
        if tensor is not None and tensor.requires_grad:
            result = result + tensor.flatten()[:0].sum().to(result.dtype)
    return result


def _in_memory_order_of(q: Tensor, out: Tensor) -> Tensor:
    return out.transpose(1, 2).contiguous().transpose(1, 2) if is_sequence_major(q) else out


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
    """`attnjit.attention` from its formulas, by PyTorch's operations on any device: no GPU, no kernel, no compiler.

    It takes memory and time for all pairs of rows and keys, (B, Hq, Lq, Lk) several times.

    Args:
        q: (B, Hq, Lq, D), fp16, bf16, fp32 or fp64, on any device, which is that of all tensors. What is computed is
            fp64 for fp64, else fp32; results are rounded to q's dtype once.
        k: (B, Hkv, Lk, D), q's dtype.
        v: (B, Hkv, Lk, Dv), q's dtype.
        mask, bias, sink, alibi_slopes, causal, window, diagonal, diagonal_offset, scale, softcap, seqlens_q,
        seqlens_kv, cu_seqlens_q, cu_seqlens_kv, block_table, tail_mask, score, keep, operands, row_offset,
        key_offset, blocks, key_indices: as those of `attnjit.attention`. What is fp32 there may be fp64 beside a q of fp64. The host reads
            cu_seqlens_*. A prepared mask is one that was made on a GPU; prepare_mask makes none on the CPU.
        return_lse, return_row_max, return_max_logits: also return these, (B, Hq, Lq), (B, Hq, Lq) and (Hq,): fp64 of
            fp64, else fp32.
        deterministic: taken as `attnjit.attention` takes it; PyTorch's own settings say what its operations do.

    Returns:
        What `attnjit.attention` returns. Gradients go through out and lse to q, k, v, bias, sink and to floats that a
        score reads, beside block_table and tail_mask too, and may be differentiated again. NaN and infinity in a key
        that no row keeps, and in a row that keeps no key, reach no result and no gradient.

    Raises:
        ValueError, TypeError, NotImplementedError: as `attnjit.attention` raises them for 16-bit tensors on a GPU.
    """
    optional = Operands(
        unpacked(mask)[0], bias, sink, alibi_slopes, seqlens_q, seqlens_kv, cu_seqlens_q, cu_seqlens_kv, block_table,
        tail_mask, key_indices=key_indices,
    )._asdict()  # fmt: skip
    refuse_what_is_no_tensor({"q": q, "k": k, "v": v}, optional)
    *call, mask_axes = arguments_of(
        q, k, v, mask, bias, sink, alibi_slopes, causal, window, diagonal, diagonal_offset, scale, softcap, seqlens_q,
        seqlens_kv, cu_seqlens_q, cu_seqlens_kv, block_table, tail_mask, score, keep, operands, row_offset, key_offset,
        blocks, key_indices,
    )  # fmt: skip
    batch = call[0].shape[:-3]
    q, k, v, tensors, scalars = call if q.dim() == 4 else flattened(*call, mask_axes)
    check(q, k, v, tensors, scalars)
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    with torch.autocast(q.device.type, enabled=False):
        out, lse = attend(q, k, v, tensors, scalars, dtype)
        leaves = (q, k, v, *tensors.flat())
        out = _in_memory_order_of(q, _with_graph_of(out, leaves).to(q.dtype)).unflatten(0, batch)
        results = [out]
        if return_lse:
            results.append(_with_graph_of(lse, leaves).unflatten(0, batch))
        if return_row_max or return_max_logits:
            with torch.no_grad():
                of_rows = row_max(q, k, tensors, scalars, dtype)
            if return_row_max:
                results.append(of_rows.unflatten(0, batch))
            if return_max_logits:
                results.append(largest_of_heads(of_rows))
    return tuple(results) if len(results) > 1 else out
