"""Gradients of a call."""

import torch
from torch.autograd.function import once_differentiable

from . import _dispatch


class Attention(torch.autograd.Function):
    """(out, lse) of a call, differentiable in q, k, v, bias and, through lse, in its uses."""

    @staticmethod
    def forward(ctx, q, k, v, bias, mask, seqlens_q, seqlens_kv, scalars, sequence_major, deterministic):
        out, lse = _dispatch.forward(
            q, k, v, mask, bias, seqlens_q, seqlens_kv, scalars, True, sequence_major
        )
        ctx.save_for_backward(q, k, v, out, lse, mask, bias, seqlens_q, seqlens_kv)
        ctx.set_materialize_grads(False)
        ctx.scalars, ctx.deterministic = scalars, deterministic
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx, dout, dlse):
        q, k, v, out, lse, mask, bias, seqlens_q, seqlens_kv = ctx.saved_tensors
        if dout is None:
            dout = torch.zeros_like(out)
        need_dq, need_dk, need_dv, need_dbias = ctx.needs_input_grad[:4]
        dq, dk, dv, dbias = _dispatch.backward(
            dout, dlse, q, k, v, out, lse, mask, bias, seqlens_q, seqlens_kv,
            ctx.scalars, need_dbias, ctx.deterministic,
        )  # fmt: skip
        gradients = (dq if need_dq else None, dk if need_dk else None, dv if need_dv else None, dbias)
        return *gradients, None, None, None, None, None, None


def attend(
    q, k, v, mask, bias, seqlens_q, seqlens_kv, scalars, sequence_major, deterministic, need_lse=False
):
    """(out, lse or None) of 4-D tensors, with gradients where one is wanted."""
    _dispatch.refuse_transforms()
    if torch.is_grad_enabled() and (
        q.requires_grad or k.requires_grad or v.requires_grad or (bias is not None and bias.requires_grad)
    ):
        if deterministic is None:
            deterministic = torch.are_deterministic_algorithms_enabled()
        return Attention.apply(
            q, k, v, bias, mask, seqlens_q, seqlens_kv, scalars, sequence_major, deterministic
        )
    return _dispatch.forward(q, k, v, mask, bias, seqlens_q, seqlens_kv, scalars, need_lse, sequence_major)
