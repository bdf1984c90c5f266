"""attnjit as an implementation of PyTorch's flash attention operators, for
torch.nn.attention.activate_flash_attention_impl("attnjit")."""

import torch
from torch import Tensor

from .. import _call
from .._layout import new_row_numbers
from .._scalars import BOTTOM_RIGHT, NO_DIAGONAL, Scalars
from ._overrides import Override, Overrides
from ._support import have_own_rows, why_unserved


def _scalars(scale, is_causal, left=None, right=None) -> Scalars:
    left, right = (-1 if side is None or side < 0 else int(side) for side in (left, right))
    where = BOTTOM_RIGHT if is_causal or left >= 0 or right >= 0 else NO_DIAGONAL
    return Scalars(scale, is_causal, where, left, right)


def _forward(q: Tensor, k: Tensor, v: Tensor, out: Tensor, scalars: Scalars):
    """Writes `out` of (batch, head, sequence, feature) tensors; returns lse, and the seed, offset and mask of a
    dropout that there is not."""
    lse = new_row_numbers(q)
    _call.enqueue_forward(q, k, v, out, lse, _call.Operands(), scalars)
    seed = torch.empty(2, dtype=torch.uint64, device=q.device)
    offset = torch.empty((), dtype=torch.uint64, device=q.device)
    return lse, seed, offset, q.new_empty(0)


def _backward(dout, q, k, v, out, lse, scalars: Scalars, gradients) -> None:
    deterministic = torch.are_deterministic_algorithms_enabled()
    _call.enqueue_backward(
        dout, None, q, k, v, out, lse.contiguous(), _call.Operands(), scalars, *gradients, None, deterministic
    )


def _like(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(t) for t in tensors)


def _why_not_bhsd(q: Tensor, k: Tensor, v: Tensor, dropout_p: float) -> str | None:
    """As why_unserved(), for operators whose results lie in memory as q, k and v do."""
    reason = why_unserved(q, k, v, dropout_p)
    if reason is None and (q.dim() != 4 or q.shape[-1] != v.shape[-1]):
        return "shape"
    if reason is None and not have_own_rows(q, k, v):
        return "strides"
    return reason


def _sdpa_forward(query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    (out,) = _like(query)
    lse, *rest = _forward(query, key, value, out, _scalars(scale, is_causal))
    return out, lse, None, None, query.shape[2], key.shape[2], *rest


def _why_not_sdpa_forward(
    query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None
):
    return "debug mask" if return_debug_mask else _why_not_bhsd(query, key, value, dropout_p)


def _sdpa_backward(
    grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal,
    philox_seed, philox_offset, *, scale=None,
):  # fmt: skip
    gradients = _like(query, key, value)
    _backward(grad_out, query, key, value, out, logsumexp, _scalars(scale, is_causal), gradients)
    return gradients


def _why_not_sdpa_backward(grad_out, query, key, value, out, logsumexp, *rest, scale=None):
    dropout_p = rest[4]
    return _why_not_bhsd(query, key, value, dropout_p)


def _bhsd(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(t.transpose(1, 2) for t in tensors)


def _flash_forward(
    query, key, value, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, return_debug_mask, *,
    scale=None, window_size_left=None, window_size_right=None, **_,
):  # fmt: skip
    (out,) = _like(query)
    scalars = _scalars(scale, is_causal, window_size_left, window_size_right)
    return out, *_forward(*_bhsd(query, key, value, out), scalars)


def _flash_forward_into(
    out, query, key, value, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, return_debug_mask, *,
    scale=None, window_size_left=None, window_size_right=None, **_,
):  # fmt: skip
    scalars = _scalars(scale, is_causal, window_size_left, window_size_right)
    lse, *_ = _forward(*_bhsd(query, key, value, out), scalars)
    return lse


def _why_not_flash(query, key, value, cum_seq_q, cum_seq_k, dropout_p) -> str | None:
    if cum_seq_q is not None or cum_seq_k is not None:
        return "packed sequences"
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        return "shape"
    return _why_not_bhsd(*_bhsd(query, key, value), dropout_p)


def _why_not_flash_forward(
    query, key, value, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, return_debug_mask, *,
    seqused_k=None, alibi_slopes=None, block_table=None, **_,
):  # fmt: skip
    features = {"seqused_k": seqused_k, "alibi_slopes": alibi_slopes, "block_table": block_table}
    for name, tensor in features.items():
        if tensor is not None:
            return name
    if return_debug_mask:
        return "debug mask"
    return _why_not_flash(query, key, value, cum_seq_q, cum_seq_k, dropout_p)


def _why_not_flash_forward_into(out, *arguments, **options) -> str | None:
    reason = _why_not_flash_forward(*arguments, **options)
    return "strides" if reason is None and not out.is_contiguous() else reason


def _flash_backward(
    grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal,
    rng_state, unused, *, scale=None, window_size_left=None, window_size_right=None,
):  # fmt: skip
    gradients = _like(query, key, value)
    scalars = _scalars(scale, is_causal, window_size_left, window_size_right)
    dout, q, k, v, o, *views = _bhsd(grad_out, query, key, value, out, *gradients)
    _backward(dout, q, k, v, o, logsumexp, scalars, views)
    return gradients


def _why_not_flash_backward(
    grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, *rest, **_
):
    return _why_not_flash(query, key, value, cum_seq_q, cum_seq_k, dropout_p)


def activate() -> Overrides:
    """Takes the place of PyTorch's flash attention until the result's remove(). Raises RuntimeError where this
    PyTorch cannot pass calls on."""
    overrides = {
        "_flash_attention_forward": Override(_flash_forward, _why_not_flash_forward),
        "_flash_attention_backward": Override(_flash_backward, _why_not_flash_backward),
        "_scaled_dot_product_flash_attention": Override(_sdpa_forward, _why_not_sdpa_forward),
        "_scaled_dot_product_flash_attention_backward": Override(_sdpa_backward, _why_not_sdpa_backward),
    }
    into = "_flash_attention_forward_no_dropout_inplace"
    if hasattr(torch.ops.aten, into):  # newer than 2.11
        overrides[into] = Override(_flash_forward_into, _why_not_flash_forward_into)
    return Overrides("flash", overrides)
