"""`attnjit.flash_attn_func`."""

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
        dropout_p, alibi_slopes, return_attn_probs: not supported. Slopes are a bias of
            `attnjit.attention`.

    Returns:
        (B, Lq, Hq, Dv).

    Raises:
        NotImplementedError: for what is not supported. Otherwise as `attnjit.attention`.
    """
    refuse(
        dropout_p=dropout_p,
        alibi_slopes="a tensor" if alibi_slopes is not None else None,
        return_attn_probs=return_attn_probs,
    )
    is_open = tuple(window_size) == (-1, -1)
    out = attention(
        *(t.transpose(1, 2) for t in (q, k, v)),
        causal="bottom-right" if causal else None,
        window=None if is_open else window_size,
        diagonal=None if is_open else "bottom-right",
        scale=softmax_scale,
        softcap=softcap,
        deterministic=deterministic,
    )
    return out.transpose(1, 2)
