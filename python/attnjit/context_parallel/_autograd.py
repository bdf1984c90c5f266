"""Forward and backward of a call over a group."""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .._layout import new_gradient
from ._bias_gradient import BiasGradient
from ._exchange import Part
from ._kernels import backward_into
from ._merging import Merging
from ._problem import Problem, operands_of


def forward(q: Tensor, k: Tensor, v: Tensor, bias, mask, problem: Problem) -> tuple[Tensor, Tensor]:
    """(out, lse) of this rank's rows; mask and bias have four axes."""
    exchange = problem.exchange(q, k, v, backward=False)
    merging = Merging(q, v.shape[3], problem.count_parts(exchange))
    for pieces, k_held, v_held in exchange.keys(k.contiguous(), v.contiguous()):
        for call in problem.calls(pieces):
            keys = slice(*call.keys)
            merging.add(
                call, k_held[:, :, keys], v_held[:, :, keys], operands_of(call, mask, bias),
                call.scalars(problem.scale, problem.softcap),
            )  # fmt: skip
    return merging.result()


class _Backward:
    """The gradients of a call: what its calls contribute, one after another."""

    def __init__(self, dout, dlse, q, k, v, out, lse, bias, mask, problem: Problem, need_dbias: bool):
        self._q, self._bias, self._mask, self._problem = q, bias, mask, problem
        self._dout, self._out, self._dlse, self._lse = dout, out, dlse, lse
        self._k, self._v = k.contiguous(), v.contiguous()
        self._dq = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
        self._dbias = BiasGradient(bias, problem.seqlen_kv) if need_dbias else None

    def run(self) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        exchange = self._problem.exchange(self._q, self._k, self._v, backward=True)
        dk, dv = exchange.gradients(self._k, self._v, self._contribute)
        dbias = self._dbias and self._dbias.result(self._lse, self._dlse, self._problem.who)
        return self._dq.to(self._q.dtype), dk.to(self._k.dtype), dv.to(self._v.dtype), dbias

    def _contribute(self, pieces, k: Tensor, v: Tensor) -> list[Part]:
        parts = []
        for call in self._problem.calls(pieces):
            keys = slice(*call.keys)
            parts.append((*call.keys, *self._call(call, k[:, :, keys], v[:, :, keys])))
        return parts

    def _call(self, call, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """(dk, dv) of a call; dq and dbias are added up here."""
        rows = slice(*call.rows)
        q, dout, out = (t[:, :, rows] for t in (self._q, self._dout, self._out))
        lse, dlse = (t if t is None else t[:, :, rows].contiguous() for t in (self._lse, self._dlse))
        gradients = tuple(new_gradient(t) for t in (q, k, v))
        target = self._dbias and self._dbias.target(call)
        backward_into(
            dout, dlse, q, k, v, out, lse, operands_of(call, self._mask, self._bias),
            call.scalars(self._problem.scale, self._problem.softcap), gradients, target,
            self._problem.deterministic,
        )  # fmt: skip
        if self._dbias:
            self._dbias.add(call, target)
        self._dq[:, :, rows].add_(gradients[0])
        return gradients[1:]


class Attention(torch.autograd.Function):
    """(out, lse), differentiable in q, k, v, bias."""

    @staticmethod
    def forward(ctx, q, k, v, bias, mask, problem):
        out, lse = forward(q, k, v, bias, mask, problem)
        ctx.save_for_backward(q, k, v, out, lse, bias, mask)
        ctx.problem = problem
        ctx.set_materialize_grads(False)  # lse without a use has no gradient
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx, dout, dlse):
        q, k, v, out, lse, bias, mask = ctx.saved_tensors
        if dout is None:
            dout = torch.zeros_like(out)
        need_dq, need_dk, need_dv, need_dbias = ctx.needs_input_grad[:4]
        backward = _Backward(dout, dlse, q, k, v, out, lse, bias, mask, ctx.problem, need_dbias)
        dq, dk, dv, dbias = backward.run()
        wanted = (dq if need_dq else None, dk if need_dk else None, dv if need_dv else None)
        return *wanted, dbias, None, None
