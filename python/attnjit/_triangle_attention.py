"""`attnjit.triangle_attention`."""

import torch
from torch import Tensor

from ._attention import attention


def triangle_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    return_aux: bool = False,
    *,
    kv_lengths: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    """cuequivariance_torch.triangle_attention by attnjit's kernels: the same arguments and meaning, but for rows that
    keep no key. Gradients are those of q, k, v and bias.

    Args:
        q: (B, N, H, Q, D), or (N, H, Q, D), which is the same with B = 1; fp16 or bf16, on a CUDA device.
        k, v: (B, N, H, K, D), or (N, H, K, D).
        bias: (B, 1, H, Q, K), or (1, H, Q, K), of any floating-point dtype; q's dtype and fp32 are read as they are. It
            is added to the scaled scores. All N rows of pairs of a batch element read it in place, and its gradient is
            summed over them.
        mask: (B, N, 1, 1, K), or (N, 1, 1, K); True, or a number other than 0, keeps. Not together with kv_lengths.
        scale: 1 / sqrt(D) by default.
        return_aux: also return lse and the largest scores.
        kv_lengths: (B, N, 1, 1, 1) int32 on the device: row n of batch element b keeps its first kv_lengths[b, n] keys.
            Lengths above K count as K.

    Returns:
        (B, N, H, Q, D) in q's dtype, five axes for four of q too. A query that keeps no key, because mask or kv_lengths
        drop all of them, is 0; cuEquivariance gives the mean of v where a mask drops all, and 0 where a length is 0.
        With return_aux a tuple (out, lse, max): the logarithm of the sum of exp(score), with a gradient, and the
        largest score, without one, both (B, N, H, Q) fp32. Both are -inf for a query that keeps no key.

    Raises:
        ValueError: mask and kv_lengths together, or kv_lengths of another shape. Otherwise as `attnjit.attention`.
    """
    q, k, v = (t.unsqueeze(0) if t.dim() == 4 else t for t in (q, k, v))
    if kv_lengths is not None:
        if mask is not None:
            raise ValueError("kv_lengths: it cannot be given together with mask")
        if kv_lengths.shape != (*q.shape[:2], 1, 1, 1):
            raise ValueError(
                f"kv_lengths: its shape is {tuple(kv_lengths.shape)}; expected {(*q.shape[:2], 1, 1, 1)}"
            )
    return attention(
        q,
        k,
        v,
        mask=None if mask is None else mask.to(torch.bool),
        bias=bias if bias.dtype in (q.dtype, torch.float32) else bias.to(torch.float32),
        scale=scale,
        seqlens_kv=kv_lengths,
        return_lse=return_aux,
        return_row_max=return_aux,
    )
