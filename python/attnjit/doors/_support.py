"""Calls of other interfaces that attnjit can take, and their scalars."""

from functools import cache

import torch
from torch import Tensor

from .._scalars import NO_DIAGONAL, TOP_LEFT, Scalars

MAX_HEAD_DIM = 256


def sdpa_scalars(scale: float | None, is_causal: bool) -> Scalars:
    """Those of a call of scaled_dot_product_attention."""
    return Scalars(scale, is_causal, TOP_LEFT if is_causal else NO_DIAGONAL)


@cache
def _is_supported_device(index: int) -> bool:
    return torch.version.hip is None and torch.cuda.get_device_capability(index) >= (8, 0)


def why_no_kernel(of: Tensor, dtype: torch.dtype, head_dim: int) -> str | None:
    """A word or two on what keeps all calls on the device of a tensor, with this dtype and head dim, from attnjit, or
    None."""
    if not of.is_cuda:
        return "layout or device"
    if dtype not in (torch.float16, torch.bfloat16):
        return "dtype"
    if head_dim > MAX_HEAD_DIM:
        return "head dim"
    return None if _is_supported_device(of.device.index) else "architecture"


def why_unserved(q: Tensor, k: Tensor, v: Tensor, dropout_p: float) -> str | None:
    """A word or two on what keeps a call of (batch, head, sequence, feature) tensors from attnjit, or None."""
    if dropout_p > 0:
        return "dropout"
    if any(not t.is_cuda or t.layout != torch.strided for t in (q, k, v)):
        return "layout or device"
    if k.dtype != q.dtype or v.dtype != q.dtype:
        return "dtype"
    if q.dim() < 4 or k.dim() != q.dim() or v.dim() != q.dim() or not _shapes_agree(q, k, v):
        return "shape"
    return why_no_kernel(q, q.dtype, max(q.shape[-1], v.shape[-1]))


def _shapes_agree(q: Tensor, k: Tensor, v: Tensor) -> bool:
    heads, heads_kv = q.shape[-3], k.shape[-3]
    return (
        q.shape[:-3] == k.shape[:-3] == v.shape[:-3]
        and k.shape[-3:-1] == v.shape[-3:-1]
        and q.shape[-1] == k.shape[-1] > 0
        and v.shape[-1] > 0
        and heads_kv > 0
        and heads % heads_kv == 0
    )


def have_own_rows(*tensors: Tensor) -> bool:
    """Whether the elements of a row are neighbours, and no element stands for several: what is allocated like such
    a tensor can be written."""
    return all(t.stride(-1) == 1 and 0 not in t.stride() for t in tensors)
