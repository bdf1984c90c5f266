"""attnjit as an implementation of PyTorch's cuDNN attention operators, which PyTorch prefers on Hopper.

A bool mask arrives there as 0 and -65504 in q's dtype, in the shape that the caller gave it; grouped heads arrive
with a mask, too. The gradient of a mask is not one of the results."""

import torch
from torch import Tensor

from .. import _call
from .._layout import new_like, new_row_numbers
from ._overrides import Override, Overrides
from ._support import have_own_rows, sdpa_scalars, why_unserved


def _forward(
    query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, return_debug_mask=False, *,
    scale=None,
):  # fmt: skip
    out, lse = new_like(query, value.shape[3]), new_row_numbers(query)
    _call.enqueue_forward(
        query, key, value, out, lse if compute_log_sumexp else None, _call.Operands(bias=attn_bias),
        sdpa_scalars(scale, is_causal),
    )  # fmt: skip
    seed, offset = (torch.empty((), dtype=torch.long, device=query.device) for _ in range(2))
    return out, lse.unsqueeze(-1), None, None, query.shape[2], key.shape[2], seed, offset, None


def _backward(
    grad_out, query, key, value, out, logsumexp, philox_seed, philox_offset, attn_bias, cum_seq_q, cum_seq_k,
    max_q, max_k, dropout_p, is_causal, *, scale=None,
):  # fmt: skip
    gradients = tuple(torch.empty_like(t) for t in (query, key, value))
    _call.enqueue_backward(
        grad_out, None, query, key, value, out, logsumexp.squeeze(-1), _call.Operands(bias=attn_bias),
        sdpa_scalars(scale, is_causal), *gradients, None, torch.are_deterministic_algorithms_enabled(),
    )  # fmt: skip
    return gradients


def overrides(*, masked: bool, unmasked: bool) -> dict[str, Override]:
    """By operator. Calls with a mask are for them if `masked`, those without one if `unmasked`."""

    def why_not(query: Tensor, key: Tensor, value: Tensor, attn_bias: Tensor | None, dropout_p) -> str | None:
        if reason := why_unserved(query, key, value, dropout_p):
            return reason
        if query.dim() != 4:
            return "shape"
        if not have_own_rows(query, key, value):
            return "strides"
        if attn_bias is None:
            return None if unmasked else "no mask"
        if attn_bias.dtype not in (query.dtype, torch.float32):
            return "dtype of the bias"
        return None if masked else "mask"

    def why_not_forward(
        query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False,
        return_debug_mask=False, **_,
    ):  # fmt: skip
        return "debug mask" if return_debug_mask else why_not(query, key, value, attn_bias, dropout_p)

    def why_not_backward(
        grad_out, query, key, value, out, logsumexp, philox_seed, philox_offset, attn_bias, cum_seq_q,
        cum_seq_k, max_q, max_k, dropout_p, *rest, **_,
    ):  # fmt: skip
        return why_not(query, key, value, attn_bias, dropout_p)

    return {
        "_scaled_dot_product_cudnn_attention": Override(_forward, why_not_forward),
        "_scaled_dot_product_cudnn_attention_backward": Override(_backward, why_not_backward),
    }


def install(*, masked: bool, unmasked: bool) -> Overrides:
    """Takes the place of PyTorch's cuDNN attention, for calls with a mask, without, or both, until the result's
    remove(). Raises RuntimeError where this PyTorch cannot pass calls on."""
    return Overrides("cudnn", overrides(masked=masked, unmasked=unmasked))
