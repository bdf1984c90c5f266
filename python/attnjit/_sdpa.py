"""`attnjit.sdpa`."""

import torch
from torch import Tensor

from ._attention import attention


def sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention by attnjit's kernels: the same arguments and meaning.

    Args:
        query: (..., Hq, L, E), or (N, L, E); fp16 or bf16, on a CUDA device.
        key, value: (..., H, S, E) and (..., H, S, Ev). Where ranks differ, all axes before the last two broadcast.
        attn_mask: broadcast to (..., Hq, L, S); bool, True keeps, or numbers of query's dtype or fp32 that
            are added to the scores, with a gradient if they require one.
        dropout_p: 0.
        is_causal: query i keeps keys j <= i; not together with attn_mask.
        scale: 1 / sqrt(E) by default.
        enable_gqa: allows H to divide Hq.

    Raises:
        NotImplementedError: dropout_p > 0. Otherwise as `attnjit.attention`. Nothing falls back to
            PyTorch's kernels.
    """
    if dropout_p > 0:
        raise NotImplementedError(
            f"dropout_p: it is {dropout_p}; pass dropout_p=0, for attnjit has no dropout"
        )
    if attn_mask is not None and is_causal:
        raise ValueError("attn_mask: it cannot be given together with is_causal=True")
    if not query.dim() == key.dim() == value.dim():
        first = torch.broadcast_shapes(*(t.shape[:-2] for t in (query, key, value)))
        query, key, value = (t.expand(*first, *t.shape[-2:]) for t in (query, key, value))
    without_heads = query.dim() == 3
    if without_heads:
        query, key, value = (t.unsqueeze(1) for t in (query, key, value))
        if attn_mask is not None and attn_mask.dim() == 3:
            attn_mask = attn_mask.unsqueeze(1)
    if not enable_gqa and query.size(-3) != key.size(-3):
        raise ValueError(
            f"key: it has {key.shape[-3]} heads and query {query.shape[-3]}; enable_gqa=True allows that"
        )
    is_mask = attn_mask is not None and not attn_mask.is_floating_point()
    out = attention(
        query,
        key,
        value,
        mask=attn_mask if is_mask else None,
        bias=None if is_mask else attn_mask,
        causal="top-left" if is_causal else None,
        scale=scale,
    )
    return out.squeeze(1) if without_heads else out
