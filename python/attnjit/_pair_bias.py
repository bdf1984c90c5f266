"""`attnjit.attention_pair_bias`."""

import torch
from torch import Tensor
from torch.nn import functional

from ._attention import attention

_NORMS = ("layer_norm", "rms_norm")


def _as(like: Tensor, parameter: Tensor | None) -> Tensor | None:
    return None if parameter is None else parameter.to(like.dtype)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return functional.linear(x, _as(x, weight), _as(x, bias))


def _normalized(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, kind: str) -> Tensor:
    """`x` normalized over its last axis."""
    if kind == "rms_norm":
        return functional.rms_norm(x, x.shape[-1:], _as(x, weight), eps)
    return functional.layer_norm(x, x.shape[-1:], _as(x, weight), _as(x, bias), eps)


def attention_pair_bias(
    single_repr: Tensor,
    pair_repr: Tensor,
    mask: Tensor | None,
    num_heads: int,
    w_ln_a: Tensor,
    b_ln_a: Tensor | None,
    w_proj_q: Tensor,
    b_proj_q: Tensor | None,
    w_proj_k: Tensor,
    w_proj_v: Tensor,
    w_proj_g: Tensor,
    w_proj_o: Tensor,
    w_proj_z: Tensor | None = None,
    b_proj_o: Tensor | None = None,
    b_proj_z: Tensor | None = None,
    w_ln_z: Tensor | None = None,
    b_ln_z: Tensor | None = None,
    inf: float = 1e6,
    eps: float = 1e-5,
    attn_scale: float | None = None,
    return_z_proj: bool = False,
    is_cached_z_proj: bool = False,
    *,
    b_proj_k: Tensor | None = None,
    b_proj_v: Tensor | None = None,
    w_ln_q: Tensor | None = None,
    b_ln_q: Tensor | None = None,
    w_ln_k: Tensor | None = None,
    b_ln_k: Tensor | None = None,
    b_proj_g: Tensor | None = None,
    norm_kind: str = "layer_norm",
) -> tuple[Tensor, Tensor | None]:
    """cuequivariance_torch.attention_pair_bias: the same arguments and meaning, but for rows that keep no key. Norms,
    projections and the gate are PyTorch's operations, the attention is attnjit's. Gradients are those of single_repr,
    pair_repr and all weights and biases.

    Args:
        single_repr: (B * M, N, C), fp16 or bf16, or fp32 under autocast, on a CUDA device. Neighbouring M elements
            share a plane of pair_repr: element b reads plane b // M, which is not copied.
        pair_repr: (B, N, N, Cz), of single_repr's dtype or fp32. With is_cached_z_proj the projected pairs,
            (B, H, N, N).
        mask: (B, N) or (B * M, N), of any dtype; a key whose number is 0 is dropped, others are kept. None keeps all.
        num_heads: H. The width of a head is DH, and weights of projections have H * DH rows.
        w_ln_a, b_ln_a: (C,), of the norm of single_repr.
        w_proj_q, w_proj_k, w_proj_v, w_proj_g: (H * DH, C), of the normalized single_repr; g is the gate.
        b_proj_q, b_proj_k, b_proj_v, b_proj_g: (H * DH,).
        w_proj_o, b_proj_o: (C, H * DH) and (C,).
        w_proj_z, b_proj_z: (H, Cz) and (H,), of the normalized pair_repr. Not looked at with is_cached_z_proj.
        w_ln_z, b_ln_z: (Cz,), of the norm of pair_repr. Not looked at with is_cached_z_proj.
        w_ln_q, b_ln_q, w_ln_k, b_ln_k: (H * DH,), of a norm of the projected queries and keys over all heads. There is
            none where both are None.
        inf: not looked at. A dropped key has the weight 0, as under any penalty far above the scores.
        eps: of all norms.
        attn_scale: 1 / sqrt(DH) by default.
        return_z_proj: whether z_proj is returned.
        is_cached_z_proj: pair_repr is what an earlier call returned as z_proj.
        norm_kind: "layer_norm", or "rms_norm", which has no biases.

    Weights and biases may have another dtype than the tensor that they are applied to, and are converted.

    Returns:
        (out, z_proj): (B * M, N, C) in single_repr's dtype, or that of autocast, and (B, H, N, N), the projected pairs
        without the mask, or None. Where a mask drops all keys of an element, its attention is 0 and its out is
        b_proj_o; cuEquivariance subtracts `inf` from all its scores and so goes on as without a mask, on scores that
        are rounded.

    Raises:
        ValueError: no w_proj_z without is_cached_z_proj, an unknown norm_kind, a bias of rms_norm, or a batch of
            single_repr that is no multiple of that of pair_repr. Otherwise as `attnjit.attention`.
    """
    if norm_kind not in _NORMS:
        raise ValueError(f"norm_kind: {norm_kind!r}; expected {_NORMS[0]!r} or {_NORMS[1]!r}")
    biases = {"b_ln_a": b_ln_a, "b_ln_q": b_ln_q, "b_ln_k": b_ln_k, "b_ln_z": b_ln_z}
    given = [name for name, value in biases.items() if value is not None]
    if norm_kind == "rms_norm" and given:
        raise ValueError(f"{given[0]}: rms_norm has no bias")
    if w_proj_z is None and not is_cached_z_proj:
        raise ValueError("w_proj_z: it is needed, unless is_cached_z_proj says that pair_repr is projected")
    batch, planes = single_repr.shape[0], pair_repr.shape[0]
    if planes == 0 or batch % planes != 0:
        raise ValueError(f"single_repr: its batch is {batch}; expected a multiple of pair_repr's, {planes}")

    a = _normalized(single_repr, w_ln_a, b_ln_a, eps, norm_kind)
    q = _linear(a, w_proj_q, b_proj_q)
    k = _linear(a, w_proj_k, b_proj_k)
    if w_ln_q is not None or b_ln_q is not None:
        q = _normalized(q, w_ln_q, b_ln_q, eps, norm_kind)
    if w_ln_k is not None or b_ln_k is not None:
        k = _normalized(k, w_ln_k, b_ln_k, eps, norm_kind)
    if is_cached_z_proj:
        z_proj = pair_repr
    else:
        z = _normalized(pair_repr, w_ln_z, b_ln_z, eps, norm_kind)
        z_proj = _linear(z, w_proj_z, b_proj_z).permute(0, 3, 1, 2).contiguous()
    out = attention(
        *(t.unflatten(-1, (num_heads, -1)).transpose(1, 2) for t in (q, k, _linear(a, w_proj_v, b_proj_v))),
        mask=None if mask is None else mask.to(torch.bool)[:, None, None],
        bias=z_proj,
        scale=attn_scale,
    )
    gate = _linear(a, w_proj_g, b_proj_g).sigmoid()
    out = _linear(gate * out.transpose(1, 2).flatten(2), w_proj_o, b_proj_o)
    return out, z_proj if return_z_proj else None
