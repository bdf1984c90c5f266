"""`attnjit.flash_attn_func` and `attnjit.flash_attn_varlen_func`."""

from torch import Tensor

from ._attention import attention


def refuse(**features) -> None:
    """Raises NotImplementedError for the first feature that is set, by its name."""
    for name, value in features.items():
        if value:
            raise NotImplementedError(f"{name}: it is {value}; attnjit does not have it")


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Tensor:
    """flash_attn.flash_attn_func by attnjit's kernels: the same arguments and meaning.

    Args:
        q: (B, Lq, Hq, D), fp16 or bf16, on a CUDA device.
        k, v: (B, Lk, Hkv, D) and (B, Lk, Hkv, Dv); Hq is a multiple of Hkv.
        softmax_scale: 1 / sqrt(D) by default.
        causal: query i keeps keys j <= i + Lk - Lq.
        window_size: (left, right) keys around that diagonal; -1 opens a side.
        softcap: c turns scaled scores s into c tanh(s / c); 0 does not.
        deterministic: the same gradients, bit for bit, on every run.
        alibi_slopes: (Hq,) or (B, Hq) fp32; slope * |i + Lk - Lq - j| is taken off the scores.
        dropout_p, return_attn_probs: not supported.

    Returns:
        (B, Lq, Hq, Dv).

    Raises:
        NotImplementedError: for what is not supported. Otherwise as `attnjit.attention`.
    """
    refuse(dropout_p=dropout_p, return_attn_probs=return_attn_probs)
    is_open = tuple(window_size) == (-1, -1)
    out = attention(
        *(t.transpose(1, 2) for t in (q, k, v)),
        alibi_slopes=alibi_slopes,
        causal="bottom-right" if causal else None,
        window=None if is_open else window_size,
        diagonal=None if is_open and alibi_slopes is None else "bottom-right",
        scale=softmax_scale,
        softcap=softcap,
        deterministic=deterministic,
    )
    return out.transpose(1, 2)


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Tensor | None = None,
) -> Tensor:
    """flash_attn.flash_attn_varlen_func by attnjit's kernels: the same arguments and meaning.

    Args:
        q: (Tq, Hq, D), fp16 or bf16, on a CUDA device: the rows of all sequences, one after another.
        k, v: (Tk, Hkv, D) and (Tk, Hkv, Dv); Hq is a multiple of Hkv.
        cu_seqlens_q, cu_seqlens_k: (B + 1,) int32 on the device: where each sequence begins, and the end.
        max_seqlen_q, max_seqlen_k: not looked at.
        softmax_scale, softcap, deterministic: as those of `flash_attn_func`.
        causal, window_size: likewise, within each sequence.
        dropout_p, alibi_slopes, return_attn_probs, block_table: not supported.

    Returns:
        (Tq, Hq, Dv); 0 in rows that belong to no sequence.

    Raises:
        NotImplementedError: for what is not supported. Otherwise as `attnjit.attention`.
    """
    refuse(
        dropout_p=dropout_p,
        alibi_slopes="a tensor" if alibi_slopes is not None else None,
        return_attn_probs=return_attn_probs,
        block_table="a tensor" if block_table is not None else None,
    )
    is_open = tuple(window_size) == (-1, -1)
    out = attention(
        *(t.transpose(0, 1).unsqueeze(0) for t in (q, k, v)),
        causal="bottom-right" if causal else None,
        window=None if is_open else window_size,
        diagonal=None if is_open else "bottom-right",
        scale=softmax_scale,
        softcap=softcap,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_kv=cu_seqlens_k,
        deterministic=deterministic,
    )
    return out.squeeze(0).transpose(0, 1)
