"""Attention from its formulas (docs/reference/semantics.md), differentiable, in any precision and on any device, of
tensors with one batch axis."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .._call import Operands
from .._scalars import Scalars
from ._pairs import Pairs, kept, said, times_selected, used_rows
from ._planes import mask_of_bits, of_rank_4, orders_of, per_plane, unpaged


class Problem(NamedTuple):
    """A call in the precision that it is computed in, with a plane of k and v for each batch element and query head.
    Rows that keep no key, and keys that no row keeps, are 0: whatever they held reaches neither result nor gradient."""

    q: Tensor
    k: Tensor
    v: Tensor
    pairs: Pairs
    keep: Tensor
    distance: Tensor  # of a key from the diagonal of a row


def plain(k: Tensor, v: Tensor, operands: Operands, scalars: Scalars):
    """(k, v, operands, scalars) with keys one after another in the place of pages, and the mask that a prepared one
    stands for."""
    if scalars.prepared_mask is not None:
        operands = operands._replace(mask=mask_of_bits(operands.mask, scalars.prepared_mask))
        scalars = scalars._replace(prepared_mask=None)
    if operands.block_table is not None:
        k, v = unpaged(k, operands), unpaged(v, operands)
        operands = operands._replace(block_table=None)
    return k, v, operands, scalars


def problem_of(q, k, v, operands: Operands, scalars: Scalars, dtype, sequence=None) -> Problem:
    """`sequence` is the number of a packed sequence, if the call is one of these."""
    k, v, operands, scalars = plain(k, v, operands, scalars)
    pairs = Pairs(q, k.shape[2], q.shape[1] // k.shape[1], operands, scalars, sequence)
    keep, distance = kept(pairs)
    is_read = keep.any(-2).unsqueeze(-1)
    q = torch.where(keep.any(-1, keepdim=True), q.to(dtype), 0.0)
    k, v = (torch.where(is_read, per_plane(t.to(dtype), q), 0.0) for t in (k, v))
    return Problem(q, k, v, pairs, keep, distance)


def scaled(problem: Problem) -> Tensor:
    """The scaled scores, before all that changes them."""
    scale = problem.pairs.scalars.scale
    return (1 / math.sqrt(problem.q.shape[3]) if scale is None else scale) * (
        problem.q @ problem.k.transpose(-1, -2)
    )


def changed(scores: Tensor, problem: Problem) -> Tensor:
    """Scaled scores through the expression and the softcap."""
    scalars = problem.pairs.scalars
    if scalars.score is not None:
        value = said(scalars.score, problem.pairs, scores.dtype, scores)
        scores = value.to(scores.dtype).expand(scores.shape)
    if scalars.softcap > 0:
        scores = scalars.softcap * (scores / scalars.softcap).tanh()
    return scores


def _scores(problem: Problem) -> tuple[Tensor, Tensor]:
    """The scores, and which of them count: bool."""
    q, operands = problem.q, problem.pairs.operands
    scores = changed(scaled(problem), problem)
    if operands.bias is not None:
        order = orders_of(problem.pairs.scalars)[1]
        scores = scores + per_plane(of_rank_4(operands.bias).to(q.dtype), q, order)
    if operands.alibi_slopes is not None:
        slopes = operands.alibi_slopes.to(q.dtype)[..., None, None]
        scores = scores - slopes * problem.distance.abs()
    return scores, problem.keep & ~(scores <= -1e38)


class Softmax(NamedTuple):
    weights: Tensor
    lse: Tensor
    of_sinks: Tensor | None  # the weights of the sinks
    alive: Tensor  # which rows have a key that counts: bool, with an axis of size 1 for the keys


def softmax(problem: Problem) -> Softmax:
    sink = problem.pairs.operands.sink
    scores, keep = _scores(problem)
    times = times_selected(problem.pairs)
    if times is not None:  # exp(score) as often as the key is selected
        scores = scores + times.to(scores.dtype).clamp(min=1).log()
    alive = keep.any(-1, keepdim=True)
    scores = torch.where(alive, torch.where(keep, scores, -math.inf), 0.0)
    total = torch.where(alive, scores.logsumexp(-1, keepdim=True), 0.0)
    lse, of_sinks = torch.where(alive, total, -math.inf), None
    if sink is not None:
        of_head = sink.to(scores.dtype).reshape(1, -1, 1, 1)
        counts = (of_head > -1e38) & used_rows(problem.pairs).unsqueeze(-1)
        total = torch.where(counts, torch.where(alive, torch.logaddexp(total, of_head), of_head), total)
        lse = torch.where(alive | counts, total, -math.inf)
        of_sinks = torch.where(counts, (of_head - total).exp(), 0.0).squeeze(-1)
    weights = torch.where(keep & alive, scores - total, -math.inf).exp()
    return Softmax(weights, lse.squeeze(-1), of_sinks, alive)


def attend(problem: Problem) -> tuple[Tensor, Tensor]:
    """(out, lse). Of rows without a live key the gradient of out counts as 0."""
    weights, lse, _, alive = softmax(problem)
    return torch.where(alive, weights @ problem.v, 0.0), lse


def row_max(problem: Problem) -> Tensor:
    """The largest score of each row that counts, (batch, head, query); -inf without one."""
    scores, keep = _scores(problem)
    if not scores.shape[3]:
        return scores.new_full(scores.shape[:3], -math.inf)
    return torch.where(keep, scores, -math.inf).amax(-1)


def largest_of_heads(of_rows: Tensor) -> Tensor:
    """The largest number of each head, (head,); -inf without a row."""
    of_heads = of_rows.transpose(0, 1).flatten(1)
    return of_heads.amax(1) if of_heads.shape[1] else of_heads.new_full((of_heads.shape[0],), -math.inf)
