"""Attention from its formulas (docs/reference/semantics.md), differentiable, in any precision and on any device."""

import math

import torch

from attnjit._scalars import BOTTOM_RIGHT

from expression_values import evaluate, with_index


def _planes_of(planes, batch, order):
    """The plane of each batch element, or None where neighbours share one; `order` is (inner, cycle)."""
    inner, cycle = order
    if inner == 0:
        return None
    cycle = cycle or planes
    elements, repeats = torch.arange(batch), batch // (planes * inner)
    return elements // (inner * cycle * repeats) * cycle + elements // inner % cycle


def orders_of(scalars):
    """The orders of the planes of mask and bias, (inner, cycle) each."""
    orders = scalars.plane_orders or (0, 0, 0, 0)
    return tuple(orders[:2]), tuple(orders[2:])


def _per_plane(operand, q, order=(0, 0)):
    """A mask, bias, key or value with a plane per batch element and query head of q, or one for all."""
    planes = _planes_of(operand.shape[0], q.shape[0], order)
    if planes is not None:
        operand = operand[planes.to(operand.device)]
    for axis in (0, 1):
        planes, size = operand.shape[axis], q.shape[axis]
        if planes not in (1, size):
            operand = operand.repeat_interleave(size // planes, dim=axis)
    return operand


def _of_rank_4(operand):
    return operand[(None,) * (4 - operand.dim())]


def unpaged(pool, operands):
    """The keys or values of each batch element, one after another. Entries past those in use name no page."""
    size, table = pool.shape[2], operands.block_table.long()
    begins = torch.arange(table.shape[1], device=table.device) * size
    in_use = begins < operands.seqlens_kv.reshape(-1, 1)
    return pool[torch.where(in_use, table, 0)].transpose(1, 2).flatten(2, 3)


def bits_of(data, prepared):
    """The mask that a prepared one stands for, (batch, head, query, key), by its bits by rows."""
    *shape, _ = prepared
    batches, heads, queries, keys = shape
    row_bytes = (keys + 127) // 128 * 16
    rows = data[: batches * heads * queries * row_bytes].reshape(batches, heads, queries, row_bytes)
    bits = rows[..., None] >> torch.arange(8, device=data.device) & 1
    return bits.flatten(3)[..., :keys].bool()


def prepare_mask(mask, memory):
    """Writes the bits by rows of a prepared mask; what follows is 0."""
    keys = mask.shape[3]
    padded = torch.nn.functional.pad(mask.to(torch.uint8), (0, -keys % 128)).unflatten(3, (-1, 8))
    rows = (padded << torch.arange(8, device=mask.device)).sum(-1).to(torch.uint8)
    memory.zero_()
    memory[: rows.numel()] = rows.flatten()


def _indices(q, k, operands, scalars):
    """The indices of expressions but g, each broadcast to (batch, head, query, key)."""
    batch, device = q.shape[0], q.device
    lengths = []
    for length, given in ((q.shape[2], operands.seqlens_q), (k.shape[2], operands.seqlens_kv)):
        used = torch.full((batch,), length, device=device) if given is None else given.clamp(0, length).long()
        lengths.append(used.reshape(batch, 1, 1, 1))
    used_q, used_kv = lengths
    offset = scalars.diagonal_offset + (used_kv - used_q if scalars.diagonal == BOTTOM_RIGHT else 0)
    along = lambda size, axis: torch.arange(size, device=device).reshape(
        [-1 if a == axis else 1 for a in range(4)]
    )
    sizes = zip("bhij", (*q.shape[:3], k.shape[2]))
    indices = {name: along(size, axis) for axis, (name, size) in enumerate(sizes)}
    return indices | {"off": offset, "Lq": used_q, "Lk": used_kv}


def _said(text, q, k, operands, scalars, dtype, s=None):
    """The value of an expression of a call."""
    read = dict(zip(scalars.operand_names, operands.read or ()))
    indices = _indices(q, k, operands, scalars)
    rows, keys = (torch.tensor(n, device=q.device) for n in (scalars.row_offset, scalars.key_offset))
    if "_offset" not in text:
        indices |= {"i": indices["i"] + rows, "j": indices["j"] + keys, "off": indices["off"] + keys - rows}
    return evaluate(text, indices | {"row_offset": rows, "key_offset": keys}, read, dtype, s)


def kept(q, k, operands, scalars):
    """Which keys each row keeps: bool, and how far they lie behind its diagonal, both broadcast to (batch, head,
    query, key)."""
    mask = operands.mask
    if scalars.prepared_mask is not None:
        mask = bits_of(mask, scalars.prepared_mask)
    batch, rows, keys = q.shape[0], q.shape[2], k.shape[2]
    indices = _indices(q, k, operands, scalars)
    i, j, offset, used_q, used_kv = (indices[name] for name in ("i", "j", "off", "Lq", "Lk"))
    keep = (i < used_q) & (j < used_kv)
    if operands.tail_mask is not None:
        column = (j - used_kv + rows).expand(batch, 1, rows, keys)
        tail = _of_rank_4(operands.tail_mask).bool().expand(batch, 1, rows, rows)
        inside = (column >= 0) & (column < rows)
        keep = keep & (~inside | tail.gather(3, column.clamp(0, max(rows - 1, 0))))
    if mask is not None:
        keep = keep & _per_plane(_of_rank_4(mask), q, orders_of(scalars)[0]).bool()
    if scalars.keep is not None:
        keep = keep & _said(scalars.keep, q, k, operands, scalars, torch.float64)
    left, right = scalars.window_left, scalars.window_right
    if scalars.causal:
        keep = keep & (j <= i + offset)
    if left >= 0:
        keep = keep & (j >= i + offset - left)
    if right >= 0:
        keep = keep & (j <= i + offset + right)
    return keep, j - i - offset


def _used_rows(q, seqlens_q):
    """Which rows are in use: bool, (batch or 1, 1, query)."""
    i = torch.arange(q.shape[2], device=q.device).reshape(1, 1, -1)
    return i < (q.shape[2] if seqlens_q is None else seqlens_q.reshape(-1, 1, 1))


def _changed(scores, q, k, operands, scalars):
    """Scaled scores through the expression and the softcap."""
    if scalars.score is not None:
        scores = _said(scalars.score, q, k, operands, scalars, scores.dtype, scores).to(scores.dtype)
    if scalars.softcap > 0:
        scores = scalars.softcap * (scores / scalars.softcap).tanh()
    return scores


def _slopes(scores, *call):
    """The derivatives of _changed(), from differences in fp64."""
    scores, step = scores.double(), 2.0**-20
    above, below = (_changed(scores + sign * step, *call) for sign in (1, -1))
    return ((above - below) / (2 * step)).nan_to_num(0, 0, 0)


def _scores(q, k, operands, scalars):
    """The scores of a head for each head of q, and which of them count: bool."""
    bias, slopes = operands.bias, operands.alibi_slopes
    keep, distance = kept(q, k, operands, scalars)
    scale = 1 / math.sqrt(q.shape[3]) if scalars.scale is None else scalars.scale
    scores = _changed(scale * (q @ k.transpose(-1, -2)), q, k, operands, scalars)
    if bias is not None:
        scores = scores + _per_plane(_of_rank_4(bias).to(q.dtype), q, orders_of(scalars)[1])
    if slopes is not None:
        scores = scores - slopes.to(q.dtype)[..., None, None] * distance.abs()
    return scores, keep & (scores > -1e38)


def row_max(q, k, operands, scalars, dtype=torch.float64):
    """The largest score of each row that counts, (batch, head, query) in `dtype`; -inf without one."""
    if operands.block_table is not None:
        k = unpaged(k, operands)
    scalars = with_index(scalars, "g", f"(h // {q.shape[1] // k.shape[1]})")
    q, k = q.to(dtype), _per_plane(k.to(dtype), q)
    scores, keep = _scores(q, k, operands, scalars)
    kept_scores = torch.where(keep, scores, -math.inf)
    return kept_scores.amax(-1) if k.shape[2] else q.new_full(q.shape[:3], -math.inf)


def max_logits(q, k, operands, scalars, dtype=torch.float64):
    """The largest score of each head that counts, (head,) in `dtype`; -inf without one."""
    return largest_of_heads(row_max(q, k, operands, scalars, dtype))


def largest_of_heads(of_rows):
    of_heads = of_rows.transpose(0, 1).flatten(1)
    return of_heads.amax(1) if of_heads.shape[1] else of_heads.new_full((of_heads.shape[0],), -math.inf)


def _softmax(q, k, operands, scalars):
    """(weights, lse, weights of the sinks or None) of a head for each head of q."""
    sink = operands.sink
    scores, keep = _scores(q, k, operands, scalars)
    alive = keep.any(-1, keepdim=True)
    scores = torch.where(alive, torch.where(keep, scores, -math.inf), 0.0)
    total = torch.where(alive, scores.logsumexp(-1, keepdim=True), 0.0)
    lse, of_sinks = torch.where(alive, total, -math.inf), None
    if sink is not None:
        of_head = sink.to(q.dtype).reshape(1, -1, 1, 1)
        counts = (of_head > -1e38) & _used_rows(q, operands.seqlens_q).unsqueeze(-1)
        total = torch.where(counts, torch.where(alive, torch.logaddexp(total, of_head), of_head), total)
        lse = torch.where(alive | counts, total, -math.inf)
        of_sinks = torch.where(counts, (of_head - total).exp(), 0.0).squeeze(-1)
    weights = torch.where(keep & alive, scores - total, -math.inf).exp()
    return weights, lse.squeeze(-1), of_sinks


def _rounded(tensor, to):
    return tensor if to is None else tensor.to(to).to(tensor.dtype)


def attend(q, k, v, operands, scalars, dtype=torch.float64, rounded=None):
    """(out, lse) in `dtype`; operands and scalars are those of attnjit._call. Autograd goes through it. Weights and
    out are rounded to dtype `rounded`, as kernels round them, if that is given."""
    if operands.block_table is not None:
        k, v = (unpaged(t, operands) for t in (k, v))
    scalars = with_index(scalars, "g", f"(h // {q.shape[1] // k.shape[1]})")
    q, k, v = q.to(dtype), *(_per_plane(t.to(dtype), q) for t in (k, v))
    weights, lse, _ = _softmax(q, k, operands, scalars)
    return _rounded(_rounded(weights, rounded) @ v, rounded), lse


def merge_lse(parts, part_lses, dtype=torch.float64):
    """(out, lse) in `dtype` from results over shares of the keys, stacked; where lse is -inf a part does not count."""
    part_lses = part_lses.to(dtype)
    lse = part_lses.logsumexp(0)
    weights = torch.where(part_lses.isfinite(), (part_lses - lse).exp(), 0.0).unsqueeze(-1)
    return (weights * torch.where(weights > 0, parts.to(dtype), 0.0)).sum(0), lse


def _sum_to(tensor, shape, order=(0, 0)):
    """The sum over the axes that a tensor of `shape` broadcasts, and over those that share its planes of batch
    elements and heads."""
    rank_4 = (1,) * (4 - len(shape)) + tuple(shape)
    planes = _planes_of(rank_4[0], tensor.shape[0], order)
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


def gradients(
    out,
    dout,
    dlse,
    q,
    k,
    v,
    operands,
    scalars,
    dtype=torch.float64,
    rounded=None,
    given_lse=None,
    over_keys=None,
):
    """dq, dk, dv and the gradients of bias and sink (None without one) in `dtype`, written out. `out` is what the
    forward left, rounded: a backward is told it and does not compute it anew. Weights, their gradients and the
    results are rounded to `rounded`, as kernels round them, if that is given. `given_lse` is that of the forward,
    where it had more keys. `over_keys` says whether the bias varies over keys, where its shape does not."""
    scale = 1 / math.sqrt(q.shape[3]) if scalars.scale is None else scalars.scale
    shapes = [t.shape for t in (q, k, v)]
    scalars = with_index(scalars, "g", f"(h // {q.shape[1] // k.shape[1]})")
    q, k, v = q.to(dtype), *(_per_plane(t.to(dtype), q) for t in (k, v))
    weights, lse, of_sinks = _softmax(q, k, operands, scalars)
    if given_lse is not None:
        share = torch.where(lse.isfinite(), (lse - given_lse.to(dtype)).exp(), 0.0)
        weights = weights * share.unsqueeze(-1)
        of_sinks = None if of_sinks is None else of_sinks * share
        lse = given_lse
    dout = torch.where((weights > 0).any(-1, keepdim=True), dout.to(dtype), 0.0)  # not that of dead rows
    of_lse = torch.zeros_like(lse) if dlse is None else torch.where(lse.isfinite(), dlse.to(dtype), 0.0)
    delta = (dout * out.to(dtype)).sum(-1) - of_lse
    weights = _rounded(weights, rounded)  # before ds is formed, as the kernel of Hopper does
    ds = weights * (dout @ v.transpose(-1, -2) - delta.unsqueeze(-1))
    dbias, bias = None, operands.bias
    if bias is not None:
        over_keys = bias.shape[-1] != 1 if over_keys is None else over_keys
        dbias = _sum_to(_of_bias(ds, over_keys, of_lse, of_sinks, delta), bias.shape, orders_of(scalars)[1])
    dsink = None if of_sinks is None else -(of_sinks * delta).sum((0, 2))
    if scalars.softcap > 0 or scalars.score is not None:
        ds = ds * _slopes(scale * (q @ k.transpose(-1, -2)), q, k, operands, scalars).to(dtype)
    ds = _rounded(ds, rounded)
    dk, dv = scale * (ds.transpose(-1, -2) @ q), weights.transpose(-1, -2) @ dout
    dq, dk, dv = (
        _rounded(_sum_to(t, shape), rounded) for t, shape in zip((scale * (ds @ k), dk, dv), shapes)
    )
    return dq, dk, dv, dbias, dsink
