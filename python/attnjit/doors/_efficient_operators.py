"""attnjit as an implementation of PyTorch's efficient attention operators, the only ones that take an additive
bias and return its gradient: masked and biased calls of SDPA come to them.

A bool mask arrives there as 0 and -inf in q's dtype; a mask or bias that broadcasts, expanded with stride 0.
Grouped heads with a mask never arrive: PyTorch computes those from the formulas."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from .. import _call
from .._layout import new_tensor
from ._overrides import Override, Overrides
from ._support import sdpa_scalars, why_unserved

_LSE_MULTIPLE = 32  # rows of PyTorch's logsumexp
_BIAS_MULTIPLE = 16  # keys of a row of PyTorch's gradient of the bias


def _forward(query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None):
    operands, scalars = _call.Operands(bias=attn_bias), sdpa_scalars(scale, is_causal)
    wanted = (compute_log_sumexp, False, False)
    out, lse, *_ = _call.forward(query, key, value, operands, scalars, wanted, True)
    padded = query.new_empty((*query.shape[:2], 0), dtype=torch.float32)
    if lse is not None:
        padded = pad(lse, (0, -lse.shape[2] % _LSE_MULTIPLE), value=torch.inf)
    seed, offset = (torch.empty((), dtype=torch.long, device=query.device) for _ in range(2))
    return out, padded, seed, offset


def _why_not_forward(
    query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None
):
    return _why_not(query, key, value, attn_bias, dropout_p)


def _why_not(query, key, value, attn_bias, dropout_p) -> str | None:
    if reason := why_unserved(query, key, value, dropout_p):
        return reason
    if query.dim() != 4:
        return "shape"
    if attn_bias is not None and attn_bias.dtype not in (query.dtype, torch.float32):
        return "dtype of the bias"
    return None


def _new_bias_gradient(bias: Tensor) -> Tensor:
    """As PyTorch allocates it: rows begin at multiples of 16 elements."""
    *axes, keys = bias.shape
    return bias.new_empty((*axes, keys + -keys % _BIAS_MULTIPLE))[..., :keys]


def _backward(
    grad_out_, query, key, value, attn_bias, out, logsumexp, philox_seed, philox_offset, dropout_p,
    grad_input_mask, is_causal=False, *, scale=None,
):  # fmt: skip
    if grad_out_ is None:
        return None, None, None, None
    gradients = [new_tensor(t, t.shape[3], sequence_major=True) for t in (query, key, value)]
    wants_dbias = attn_bias is not None and grad_input_mask[3]
    dbias = _new_bias_gradient(attn_bias) if wants_dbias else None
    lse = logsumexp[..., : query.shape[2]].contiguous()
    _call.enqueue_backward(
        grad_out_, None, query, key, value, out, lse, _call.Operands(bias=attn_bias),
        sdpa_scalars(scale, is_causal), *gradients, dbias, torch.are_deterministic_algorithms_enabled(),
    )  # fmt: skip
    return *gradients, dbias


def _why_not_backward(
    grad_out_, query, key, value, attn_bias, out, logsumexp, philox_seed, philox_offset, dropout_p, *rest, **_
):
    return _why_not(query, key, value, attn_bias, dropout_p)


def install() -> Overrides:
    """Takes the place of PyTorch's efficient attention until the result's remove(). Raises RuntimeError where
    this PyTorch cannot pass calls on."""
    overrides = {
        "_scaled_dot_product_efficient_attention": Override(_forward, _why_not_forward),
        "_scaled_dot_product_efficient_attention_backward": Override(_backward, _why_not_backward),
    }
    return Overrides("efficient", overrides)
