"""Gradients of a call."""

import torch
from torch.autograd.function import once_differentiable

from . import _dispatch
from ._call import OUTPUT_ALONE, Operands


class Attention(torch.autograd.Function):
    """The output of a call, or it and those that are wanted of lse, where that has uses of its own, and the largest
    scores of rows and of heads. Output and lse are differentiable in q, k, v, bias, sink, and in operands that a score
    reads."""

    @staticmethod
    def forward(ctx, q, k, v, scalars, options, *tensors):
        sequence_major, deterministic, wanted = options
        operands = Operands.of_flat(tensors)
        need_lse, *need_maxima = wanted
        out, lse, *maxima = _dispatch.forward(
            q, k, v, operands, scalars, (True, *need_maxima), sequence_major
        )
        ctx.save_for_backward(q, k, v, out, lse, *tensors)
        ctx.options = scalars, deterministic
        ctx.need_lse = need_lse
        if not any(wanted):
            return out
        ctx.set_materialize_grads(False)  # lse without a use has no gradient
        maxima = [t for t in maxima if t is not None]
        ctx.mark_non_differentiable(*maxima)
        return (out, lse, *maxima) if need_lse else (out, *maxima)

    @staticmethod
    def backward(ctx, dout, *others):
        # A graph of the gradients alone needs the wrapper that refuses a second derivative.
        dlse = others[0] if ctx.need_lse else None
        return (_once if torch.is_grad_enabled() else _gradients)(ctx, dout, dlse)


# Of the arguments of Attention.apply: q, k, v, scalars, options and the named operands come before.
_FIRST_READ = 5 + len(Operands._fields) - 1


def _gradients(ctx, dout, dlse):
    q, k, v, out, lse, *tensors = ctx.saved_tensors
    operands = Operands.of_flat(tensors)
    if dout is None:
        dout = torch.zeros_like(out)
    scalars, deterministic = ctx.options
    need_dq, need_dk, need_dv, *_, need_dbias, need_dsink = ctx.needs_input_grad[:8]
    need_read = ctx.needs_input_grad[_FIRST_READ:]
    dq, dk, dv, dbias, dsink, read = _dispatch.backward(
        dout, dlse, q, k, v, out, lse, operands, scalars, need_dbias, need_dsink, deterministic, need_read
    )
    if need_dsink:
        dsink = dsink.to(operands.sink.dtype)
    gradients = (dq if need_dq else None, dk if need_dk else None, dv if need_dv else None)
    of_read = read or (None,) * len(operands.read or ())
    return *gradients, None, None, *Operands(bias=dbias, sink=dsink, read=of_read).flat()


_once = once_differentiable(_gradients)

# Attention.apply without what it does for transforms of torch.func, which takes as long as a launch.
_apply = super(torch.autograd.Function, Attention).apply


def attend(
    q, k, v, operands: Operands, scalars, sequence_major, deterministic, wanted=OUTPUT_ALONE
):  # fmt: skip
    """(out, lse or None, largest scores of rows or None, those of heads or None) of 4-D tensors, with gradients where
    one is wanted. The output lies in memory as q does if `sequence_major` is None."""
    is_compiling = torch.compiler.is_compiling()
    if not is_compiling:
        _dispatch.refuse_transforms()
    _, bias, sink, *_ = operands
    if not torch.is_grad_enabled() or not (
        q.requires_grad or k.requires_grad or v.requires_grad
        or (bias is not None and bias.requires_grad) or (sink is not None and sink.requires_grad)
        or (operands.read is not None and any(t.requires_grad for t in operands.read))
    ):  # fmt: skip
        return _dispatch.forward(q, k, v, operands, scalars, wanted, sequence_major)
    if operands.block_table is not None or operands.tail_mask is not None:
        raise NotImplementedError(
            "block_table, tail_mask: they have no gradients; call under torch.no_grad(), or with tensors that"
            " require none"
        )
    if deterministic is None:
        deterministic = torch.are_deterministic_algorithms_enabled()
    apply = Attention.apply if is_compiling else _apply
    results = apply(q, k, v, scalars, (sequence_major, deterministic, wanted), *operands.flat())
    if not any(wanted):
        return results, None, None, None
    out, others = results[0], iter(results[1:])
    return out, *(next(others) if is_wanted else None for is_wanted in wanted)
