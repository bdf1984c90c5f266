"""`attnjit.flash_attn_func`, `attnjit.flash_attn_varlen_func` and `attnjit.flash_attn_with_kvcache`."""

import torch
from torch import Tensor

from ._attention import attention, sides
from ._prepared_mask import PreparedMask


def refuse(**features) -> None:
    """Raises NotImplementedError for the first feature that is set, by its name."""
    for name, value in features.items():
        if value:
            raise NotImplementedError(f"{name}: it is {value}; attnjit does not have it")


def _options(softmax_scale, causal, window_size, softcap, alibi_slopes=None):
    """The options of `attention` that these stand for: diagonals lie at the bottom right."""
    window = sides("window_size", window_size)
    is_open = window == (-1, -1)
    return {
        "alibi_slopes": alibi_slopes,
        "causal": "bottom-right" if causal else None,
        "window": None if is_open else window,
        "diagonal": None if is_open and alibi_slopes is None else "bottom-right",
        "scale": softmax_scale,
        "softcap": softcap,
    }


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
    *,
    mask: Tensor | PreparedMask | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """flash_attn.flash_attn_func by attnjit's kernels: the same arguments and meaning, and a mask and a bias.

    Args:
        q: (B, Lq, Hq, D), fp16 or bf16, on a CUDA device.
        k, v: (B, Lk, Hkv, D) and (B, Lk, Hkv, Dv); Hq is a multiple of Hkv.
        softmax_scale: 1 / sqrt(D) by default.
        causal: query i keeps keys j <= i + Lk - Lq.
        window_size: (left, right) keys around that diagonal; -1 opens a side.
        softcap: c turns scaled scores s into c tanh(s / c); 0 does not.
        deterministic: the same gradients, bit for bit, on every run.
        alibi_slopes: (Hq,) or (B, Hq) fp32; slope * |i + Lk - Lq - j| is taken off the scores.
        mask: bool, True keeps, or what `prepare_mask` made of one; broadcast to (B, Hq, Lq, Lk), heads before rows,
            as that of `attnjit.attention` is. A row keeps the keys that mask, causal and window_size all keep; one
            that keeps none is 0.
        bias: q's dtype or fp32, added to the scaled and capped scores; broadcast as mask is, with a gradient if it
            requires one.
        dropout_p, return_attn_probs: not supported.

    Returns:
        (B, Lq, Hq, Dv).

    Raises:
        NotImplementedError: for what is not supported. Otherwise as `attnjit.attention`.
    """
    refuse(dropout_p=dropout_p, return_attn_probs=return_attn_probs)
    out = attention(
        *(t.transpose(1, 2) for t in (q, k, v)),
        mask=mask,
        bias=bias,
        **_options(softmax_scale, causal, window_size, softcap, alibi_slopes),
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
        k, v: (Tk, Hkv, D) and (Tk, Hkv, Dv), or with a block table pools of pages, (pages, page size, Hkv, D) and
            (pages, page size, Hkv, Dv); Hq is a multiple of Hkv.
        cu_seqlens_q, cu_seqlens_k: (B + 1,) int32 on the device: where each sequence begins, and the end. Beside a
            block table the differences of cu_seqlens_k are the keys in use; who has them at hand passes them to
            `attention` as seqlens_kv, which saves a kernel.
        max_seqlen_q, max_seqlen_k: not looked at.
        softmax_scale, softcap, deterministic: as those of `flash_attn_func`.
        causal, window_size: likewise, within each sequence.
        block_table: (B, most pages of a sequence) int32 on the device; without gradients.
        alibi_slopes: (Hq,) or (B, Hq) fp32, as those of `flash_attn_func`, within each sequence.
        dropout_p, return_attn_probs: not supported.

    Returns:
        (Tq, Hq, Dv); 0 in rows that belong to no sequence.

    Raises:
        NotImplementedError: for what is not supported. Otherwise as `attnjit.attention`.
    """
    refuse(dropout_p=dropout_p, return_attn_probs=return_attn_probs)
    packed = lambda rows: rows.transpose(0, 1).unsqueeze(0)
    if block_table is None:
        keys, of_keys = (packed(k), packed(v)), {"cu_seqlens_kv": cu_seqlens_k}
    else:
        keys = k.transpose(1, 2), v.transpose(1, 2)
        of_keys = {"seqlens_kv": cu_seqlens_k.diff(), "block_table": block_table}
    out = attention(
        packed(q),
        *keys,
        **_options(softmax_scale, causal, window_size, softcap, alibi_slopes),
        cu_seqlens_q=cu_seqlens_q,
        **of_keys,
        deterministic=deterministic,
    )
    return out.squeeze(0).transpose(0, 1)


def flash_attn_with_kvcache(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    k: Tensor | None = None,
    v: Tensor | None = None,
    rotary_cos: Tensor | None = None,
    rotary_sin: Tensor | None = None,
    cache_seqlens: int | Tensor | None = None,
    cache_batch_idx: Tensor | None = None,
    cache_leftpad: Tensor | None = None,
    block_table: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Tensor | None = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """flash_attn.flash_attn_with_kvcache by attnjit's kernels, for a cache that is read alone: the same arguments and
    meaning. Without gradients beside a block table.

    Args:
        q: (B, Lq, Hq, D), fp16 or bf16, on a CUDA device.
        k_cache, v_cache: (B, Lk, Hkv, D) and (B, Lk, Hkv, Dv), or with a block table pools of pages, (pages, page
            size, Hkv, D) and (pages, page size, Hkv, Dv).
        cache_seqlens: the keys in use of all batch elements, or (B,) int32 on the device; all by default, but not
            beside a block table.
        block_table: (B, most pages of a batch element) int32 on the device.
        softmax_scale, softcap: as those of `flash_attn_func`.
        causal, window_size, alibi_slopes: likewise; the diagonal ends at the last key in use.
        return_softmax_lse: also return the logarithm of the sum of exp(score), (B, Hq, Lq) fp32.
        k, v, rotary_cos, rotary_sin, cache_batch_idx, cache_leftpad: not supported. Keys are appended before the call.
        rotary_interleaved, num_splits: not looked at.

    Returns:
        (B, Lq, Hq, Dv), or a pair.

    Raises:
        NotImplementedError: for what is not supported. Otherwise as `attnjit.attention`.
    """
    absent = {
        "k": k,
        "v": v,
        "rotary_cos": rotary_cos,
        "rotary_sin": rotary_sin,
        "cache_batch_idx": cache_batch_idx,
        "cache_leftpad": cache_leftpad,
    }
    refuse(**{name: None if value is None else "a tensor" for name, value in absent.items()})
    if isinstance(cache_seqlens, int):
        cache_seqlens = torch.full((q.shape[0],), cache_seqlens, dtype=torch.int32, device=q.device)
    result = attention(
        *(t.transpose(1, 2) for t in (q, k_cache, v_cache)),
        **_options(softmax_scale, causal, window_size, softcap, alibi_slopes),
        seqlens_kv=cache_seqlens,
        block_table=block_table,
        return_lse=return_softmax_lse,
    )
    if not return_softmax_lse:
        return result.transpose(1, 2)
    out, lse = result
    return out.transpose(1, 2), lse
