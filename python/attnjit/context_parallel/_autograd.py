"""Forward and backward of a call over a group."""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from .._call import Operands
from .._layout import new_gradient
from ._bias_gradient import BiasGradient
from ._exchange import Part
from ._expressions import ReadGradients
from ._kernels import backward_into
from ._merging import Merging
from ._problem import Problem, operands_of
from ._sinks import add_sink, sink_terms


def forward(
    q: Tensor, k: Tensor, v: Tensor, operands: Operands, problem: Problem, need_row_max: bool,
    need_max_logits: bool,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """(out, lse) of this rank's rows, and on request the largest scores of these rows and of all ranks' heads; mask
    and bias have four axes."""
    exchange = problem.exchange(q, k, v, backward=False)
    merging = Merging(q, v.shape[3], problem.count_parts(exchange), need_row_max, need_max_logits)
    of_keys = operands._replace(sink=None)
    for spans, k_held, v_held in exchange.keys(k.contiguous(), v.contiguous()):
        for call in problem.calls(spans):
            keys = slice(*call.keys)
            merging.add(
                call, k_held[:, :, keys], v_held[:, :, keys], operands_of(call, of_keys),
                problem.scalars_of(call),
            )  # fmt: skip
    out, lse = merging.result()
    if operands.sink is not None:
        lse = add_sink(out, lse, operands.sink)
    if need_max_logits:
        dist.all_reduce(merging.max_logits, dist.ReduceOp.MAX, group=problem.who.group)
    return out, lse, merging.row_max, merging.max_logits


class _Backward:
    """The gradients of a call: what its calls contribute, one after another."""

    def __init__(
        self, dout, dlse, q, k, v, out, lse, operands: Operands, problem: Problem, need_dbias: bool,
        need_dsink: bool, need_read: tuple[bool, ...],
    ):  # fmt: skip
        self._q, self._operands, self._problem = q, operands, problem
        self._dout, self._out, self._dlse, self._lse = dout, out, dlse, lse
        self._k, self._v = k.contiguous(), v.contiguous()
        self._dq = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
        self._dbias = BiasGradient(operands.bias, problem.seqlen_kv) if need_dbias else None
        self._need_dsink = need_dsink
        self._read = ReadGradients(operands.read or (), need_read, problem.shared)

    def run(self) -> tuple:
        """(dq, dk, dv, dbias, dsink, gradients of the operands of expressions)."""
        exchange = self._problem.exchange(self._q, self._k, self._v, backward=True)
        dk, dv = exchange.gradients(self._k, self._v, self._contribute)
        dbias, dsink = self._of_rows()
        read = self._read.result(self._problem.who)
        return self._dq.to(self._q.dtype), dk.to(self._k.dtype), dv.to(self._v.dtype), dbias, dsink, read

    def _of_rows(self) -> tuple[Tensor | None, Tensor | None]:
        """(dbias, dsink), as far as they are wanted: what rows have beside their keys enters them once."""
        sink, who = self._operands.sink, self._problem.who
        of_rows = None if self._dlse is None else self._dlse.where(self._lse.isfinite(), 0.0)
        dsink = None
        if sink is not None and (self._dbias or self._need_dsink):
            terms = sink_terms(sink, self._lse, self._dlse, self._dout, self._out)
            of_rows = terms if of_rows is None else of_rows + terms
            if self._need_dsink:
                dsink = -terms.sum((0, 2))
                dist.all_reduce(dsink, group=who.group)
                dsink = dsink.to(sink.dtype)
        return self._dbias and self._dbias.result(of_rows, who), dsink

    def _contribute(self, spans, k: Tensor, v: Tensor) -> list[Part]:
        parts = []
        for call in self._problem.calls(spans):
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
        read = backward_into(
            dout, dlse, q, k, v, out, lse, operands_of(call, self._operands),
            self._problem.scalars_of(call), gradients, target,
            self._problem.deterministic, self._read.need,
        )  # fmt: skip
        self._read.add(read)
        if self._dbias:
            self._dbias.add(call, target)
        self._dq[:, :, rows].add_(gradients[0])
        return gradients[1:]


class Attention(torch.autograd.Function):
    """(out, lse, largest scores of rows or None, those of heads or None), the first two differentiable in q, k, v,
    bias, sink."""

    @staticmethod
    def forward(ctx, q, k, v, *arguments):
        problem, need_row_max, need_max_logits, *operands = arguments
        operands = problem.with_whole_reads(Operands.of_flat(operands))
        out, lse, *maxima = forward(q, k, v, operands, problem, need_row_max, need_max_logits)
        ctx.save_for_backward(q, k, v, out, lse, *operands.flat())
        ctx.problem = problem
        ctx.set_materialize_grads(False)  # lse without a use has no gradient
        ctx.mark_non_differentiable(*(t for t in maxima if t is not None))
        return out, lse, *maxima

    @staticmethod
    @once_differentiable
    def backward(ctx, dout, dlse, *_):
        q, k, v, out, lse, *operands = ctx.saved_tensors
        if dout is None:
            dout = torch.zeros_like(out)
        need_dq, need_dk, need_dv, *need_others = ctx.needs_input_grad
        needs = Operands.of_flat(need_others[3:])
        backward = _Backward(
            dout, dlse, q, k, v, out, lse, Operands.of_flat(operands), ctx.problem, needs.bias, needs.sink,
            needs.read or (),
        )  # fmt: skip
        dq, dk, dv, dbias, dsink, read = backward.run()
        wanted = (dq if need_dq else None, dk if need_dk else None, dv if need_dv else None)
        gradients = Operands(bias=dbias, sink=dsink, read=read if needs.read else None)
        return *wanted, None, None, None, *gradients.flat()
