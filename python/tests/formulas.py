"""The formulas of `attnjit.reference` in the precision of a test, rounded as kernels round, and gradients written
out."""

import math

import torch

from attnjit.reference import _packed
from attnjit.reference._formulas import changed, largest_of_heads, plain, problem_of, scaled, softmax
from attnjit.reference._planes import NEIGHBOURS, of_rank_4, orders_of, plane_numbers


def attend(q, k, v, operands, scalars, dtype=torch.float64, rounded=None):
    """(out, lse) in `dtype`; operands and scalars are those of attnjit._call. Weights and out are rounded to dtype
    `rounded`, as kernels round them, if that is given."""
    if rounded is None:
        return tuple(_packed.attend(q, k, v, operands, scalars, dtype))

    def formula(problem):
        weights, lse, *_ = softmax(problem)
        return _rounded(_rounded(weights, rounded) @ problem.v, rounded), lse

    return tuple(_packed.of_rows(formula, (0.0, -torch.inf), q, k, v, operands, scalars, dtype))


def row_max(q, k, operands, scalars):
    return _packed.row_max(q, k, operands, scalars, torch.float64)


def max_logits(q, k, operands, scalars):
    return largest_of_heads(row_max(q, k, operands, scalars))


def _rounded(tensor, to):
    return tensor if to is None else tensor.to(to).to(tensor.dtype)


def prepare_mask(mask, memory):
    """Writes the bits by rows of a prepared mask; what follows is 0."""
    keys = mask.shape[3]
    padded = torch.nn.functional.pad(mask.to(torch.uint8), (0, -keys % 128)).unflatten(3, (-1, 8))
    rows = (padded << torch.arange(8, device=mask.device)).sum(-1).to(torch.uint8)
    memory.zero_()
    memory[: rows.numel()] = rows.flatten()


def merge_lse(parts, part_lses, dtype=torch.float64):
    """(out, lse) in `dtype` from results over shares of the keys, stacked; where lse is -inf a part does not count."""
    part_lses = part_lses.to(dtype)
    lse = part_lses.logsumexp(0)
    weights = torch.where(part_lses.isfinite(), (part_lses - lse).exp(), 0.0).unsqueeze(-1)
    return (weights * torch.where(weights > 0, parts.to(dtype), 0.0)).sum(0), lse


def _sum_to(tensor, shape, order=NEIGHBOURS):
    """The sum over the axes that a tensor of `shape` broadcasts, and over those that share its planes of batch
    elements and heads."""
    rank_4 = (1,) * (4 - len(shape)) + tuple(shape)
    planes = plane_numbers(rank_4[0], tensor.shape[0], order)
    if planes is not None:
        sums = tensor.new_zeros(rank_4[0], *tensor.shape[1:])
        tensor = sums.index_add(0, planes.to(tensor.device), tensor)
    for axis in (0, 1):
        if rank_4[axis] not in (1, tensor.shape[axis]):
            tensor = tensor.unflatten(axis, (rank_4[axis], -1)).sum(axis + 1)
    return tensor.sum_to_size(rank_4).reshape(shape)


def _of_bias(ds, over_keys, of_lse, of_sinks, delta):
    """The gradient of each score by a bias. One that is the same for all keys changes lse and the weight of the sink
    alone: its sum over the keys is `of_lse` without sinks, which the rounding of out would hide."""
    if over_keys:
        return ds
    of_row = of_lse if of_sinks is None else of_lse + of_sinks * delta
    return torch.zeros_like(ds[..., :1]) + of_row[..., None]


def _slopes(problem):
    """The derivatives of changed(), from differences in fp64."""
    scores, step = scaled(problem).double(), 2.0**-20
    above, below = (changed(scores + sign * step, problem) for sign in (1, -1))
    return ((above - below) / (2 * step)).nan_to_num(0, 0, 0)


def _gradients_of_problem(of_rows, shapes, problem, over_keys, rounded):
    """(dq, dk, dv, dbias, dsink) in the shapes of q, k, v and the bias; `of_rows` are out, dout, dlse and, where it is
    not that of the problem, lse."""
    out, dout, dlse, given_lse = of_rows
    q, k, v, (*_, operands, scalars, _), *_ = problem
    scale = 1 / math.sqrt(q.shape[3]) if scalars.scale is None else scalars.scale
    weights, lse, of_sinks, _ = softmax(problem)
    if given_lse is not None:
        share = torch.where(lse.isfinite(), (lse - given_lse.to(q.dtype)).exp(), 0.0)
        weights = weights * share.unsqueeze(-1)
        of_sinks = None if of_sinks is None else of_sinks * share
        lse = given_lse
    dout = torch.where((weights > 0).any(-1, keepdim=True), dout.to(q.dtype), 0.0)  # not that of dead rows
    of_lse = torch.zeros_like(lse) if dlse is None else torch.where(lse.isfinite(), dlse.to(q.dtype), 0.0)
    delta = (dout * out.to(q.dtype)).sum(-1) - of_lse
    weights = _rounded(weights, rounded)  # before ds is formed, as the kernel of Hopper does
    ds = weights * (dout @ v.transpose(-1, -2) - delta.unsqueeze(-1))
    dbias, bias = None, operands.bias
    if bias is not None:
        dbias = _sum_to(_of_bias(ds, over_keys, of_lse, of_sinks, delta), bias.shape, orders_of(scalars)[1])
    dsink = None if of_sinks is None else -(of_sinks * delta).sum((0, 2))
    if scalars.softcap > 0 or scalars.score is not None:
        ds = ds * _slopes(problem).to(q.dtype)
    ds = _rounded(ds, rounded)
    dk, dv = scale * (ds.transpose(-1, -2) @ q), weights.transpose(-1, -2) @ dout
    dq, dk, dv = (
        _rounded(_sum_to(t, shape), rounded) for t, shape in zip((scale * (ds @ k), dk, dv), shapes)
    )
    return dq, dk, dv, dbias, dsink


def gradients(out, dout, dlse, q, k, v, operands, scalars, dtype=torch.float64, rounded=None, given_lse=None):
    """dq, dk, dv and the gradients of bias and sink (None without one) in `dtype`, written out. `out` is what the
    forward left, rounded: a backward is told it and does not compute it anew. Weights, their gradients and the
    results are rounded to `rounded`, as kernels round them, if that is given. `given_lse` is that of the forward,
    where it had more keys."""
    of_rows = (out, dout, dlse, given_lse)
    # A sequence with one key has a part of one column of a bias that varies over keys.
    over_keys = operands.bias is not None and operands.bias.shape[-1] != 1
    if operands.cu_seqlens_q is None:
        problem = problem_of(q, k, v, operands, scalars, dtype)
        return _gradients_of_problem(of_rows, [t.shape for t in (q, k, v)], problem, over_keys, rounded)
    k, v, operands, scalars = plain(k, v, operands, scalars)
    dq, dk, dv = (torch.zeros_like(t, dtype=dtype) for t in (q, k, v))
    dbias, dsink = (
        None if t is None else torch.zeros_like(t, dtype=dtype) for t in (operands.bias, operands.sink)
    )
    problems = _packed.problems_of(q, k, v, operands, scalars, dtype)
    for s, (_, problem) in zip(_packed.sequences(q, k, operands), problems):
        own = [None if t is None else t[:, :, s.rows] for t in of_rows]
        shapes = [t.shape for t in (q[:, :, s.rows], s.own_keys(k), s.own_keys(v))]
        *found, found_dbias, found_dsink = _gradients_of_problem(own, shapes, problem, over_keys, rounded)
        for whole, part, places in zip((dq, dk, dv), found, (s.rows, s.keys, s.keys)):
            whole[:, :, places] = part
        if dbias is not None:
            target = of_rank_4(dbias)[s.place(of_rank_4(dbias), k.shape[2])]
            target += found_dbias[:, :, : target.shape[2], : target.shape[3]]
        if dsink is not None:
            dsink += found_dsink
    return dq, dk, dv, dbias, dsink
