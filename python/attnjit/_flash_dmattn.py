"""`attnjit.flash_dmattn_func`."""

from torch import Tensor

from ._attention import attention
from ._prepared_mask import PreparedMask


def flash_dmattn_func(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | PreparedMask | None = None,
    attn_bias: Tensor | None = None,
    softmax_scale: float | None = None,
    is_causal: bool | None = None,
    softcap: float | None = None,
    deterministic: bool | None = None,
    return_attn_probs: bool | None = None,
    *,
    scale: float | None = None,
) -> Tensor | tuple[Tensor, Tensor, None]:
    """flash_dmattn.flash_dmattn_func of flash-dmattn 1.2.2 by attnjit's kernels: the same arguments and meaning, but
    for a softcap. flash_sparse_attn_func of flash-sparse-attn 1.2 is the same function.

    Args:
        query: (B, Lq, Hq, D), fp16 or bf16, on a CUDA device.
        key, value: (B, Lk, Hkv, D) and (B, Lk, Hkv, Dv); Hq is a multiple of Hkv.
        attn_mask: bool, True keeps, or what `prepare_mask` made of one; ({B|1}, {Hq|Hkv|1}, {Lq|1}, {Lk|1}), and any
            other shape that `attnjit.attention` broadcasts.
        attn_bias: query's dtype or fp32, added to the scaled scores; of the same shapes, with a gradient if it
            requires one.
        softmax_scale: 1 / sqrt(D) by default.
        is_causal: query i keeps keys j <= i + Lk - Lq: the diagonal lies at the bottom right.
        softcap: c turns scaled scores s into c tanh(s / c), before the bias is added, as in `flash_attn_func`; None or
            0 does not. The kernels of flash-dmattn 1.2.2 cap the sum with the bias at 1 instead.
        deterministic: the same gradients, bit for bit, on every run; None does not ask for them.
        return_attn_probs: also return lse, and None in the place of the probabilities, which are never in memory.
        scale: another name of softmax_scale, which some releases have.

    Returns:
        (B, Lq, Hq, Dv); rows that keep no key are 0. With return_attn_probs a tuple of it, the logarithm of the sum of
        exp(score), (B, Hq, Lq) fp32, with a gradient, which is -inf in rows that keep no key, and None.

    Raises:
        ValueError: softmax_scale and scale that differ. Otherwise as `attnjit.attention`.
    """
    if softmax_scale is None:
        softmax_scale = scale
    elif scale not in (None, softmax_scale):
        raise ValueError(f"scale: it is {scale} and softmax_scale {softmax_scale}; name one, or the same")
    result = attention(
        *(t.transpose(1, 2) for t in (query, key, value)),
        mask=attn_mask,
        bias=attn_bias,
        causal="bottom-right" if is_causal else None,
        scale=softmax_scale,
        softcap=softcap,
        return_lse=bool(return_attn_probs),
        deterministic=bool(deterministic),
    )
    if not return_attn_probs:
        return result.transpose(1, 2)
    out, lse = result
    return out.transpose(1, 2), lse, None
