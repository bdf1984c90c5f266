"""Random problems over a group, and their results beside those of one process. Results are named tensors: out, lse,
row_max and max_logits on request, and the gradients."""

import random
from dataclasses import replace

import torch

import attnjit
from attnjit import context_parallel

from random_calls import Call, random_kind


def random_call(seed, device, dtype=None, ranks=1, kind_seed=None):
    """A problem of any pattern without lengths per batch element; those of one `kind_seed` share what kernels are
    specialised for. The gradient of a bias needs two rows on each rank, and is left out where there are fewer."""
    rng = random.Random(seed if kind_seed is None else kind_seed)
    kind = replace(
        random_kind(rng),
        seqlens=False,
        softcap=rng.choice((None, None, 2.0)),
        diagonal_offset=rng.choice((0, 0, 5, -9)),
        sink=rng.choice((None, None, dtype or torch.float32)),
        alibi=rng.choice((None, None, None, "h", "bh")),
    )
    if dtype is not None:
        kind = replace(kind, dtype=dtype, bias_dtype=dtype)
    call = Call(kind, seed, device)
    if call.bias is not None and call.q.shape[2] < 2 * ranks:
        call.bias = call.bias.detach()
        call.options["bias"] = call.bias
    return call


def weights_of(out, lse, seed):
    generator = torch.Generator(out.device).manual_seed(seed)
    dout = torch.randn(out.shape, generator=generator, device=out.device, dtype=out.dtype)
    return dout, torch.randn(lse.shape, generator=generator, device=out.device)


def run(attend, inputs, weights, uses_lse):
    """The results of a call; `inputs` are those that may want a gradient, by the names of the gradients."""
    out, lse, *maxima = attend()
    outputs, given = ((out, lse), weights) if uses_lse else ((out,), weights[:1])
    leaves = {name: t for name, t in inputs.items() if t is not None and t.requires_grad}
    gradients = torch.autograd.grad(outputs, tuple(leaves.values()), given)
    named = {"out": out.detach(), "lse": lse.detach(), **dict(zip(("row_max", "max_logits"), maxima))}
    return named | dict(zip(leaves, gradients, strict=True))


def whole(call, weights, uses_lse, attention=attnjit.attention, **more):
    options = call.options | more
    attend = lambda: attention(call.q, call.k, call.v, return_lse=True, **options)
    inputs = {"dq": call.q, "dk": call.k, "dv": call.v, "dbias": call.bias, "dsink": call.sink}
    return run(attend, inputs, weights, uses_lse)


def _has_rows(operand, rows):
    return operand is not None and operand.dim() >= 2 and operand.shape[-2] == rows > 1


def _slice(operand, rows, shard):
    """A mask or bias with this rank's rows, a leaf of its own."""
    if operand is None:
        return None
    own = operand.detach()
    if _has_rows(operand, rows):
        own = shard(own, operand.dim() - 2)
    return own.requires_grad_(operand.requires_grad)


def sharded(call, weights, uses_lse, group=None, **more):
    """The same over a group, put together again: what whole() returns."""
    shard = lambda tensor, dim: context_parallel.shard(tensor.detach(), dim, group)
    rows, keys = call.q.shape[2], call.k.shape[2]
    q, k, v = (shard(t, 2).requires_grad_() for t in (call.q, call.k, call.v))
    mask, bias = (_slice(t, rows, shard) for t in (call.mask, call.bias))
    sink = None if call.sink is None else call.sink.detach().requires_grad_(call.sink.requires_grad)
    own = {"mask": mask, "bias": bias, "sink": sink, "group": group, "seqlen_q": rows, "seqlen_kv": keys}
    options = call.options | own | more
    attend = lambda: context_parallel.attention(q, k, v, return_lse=True, **options)
    mine = tuple(shard(t, 2) for t in weights)
    inputs = {"dq": q, "dk": k, "dv": v, "dbias": bias, "dsink": sink}
    found = run(attend, inputs, mine, uses_lse)
    lengths = {"out": rows, "lse": rows, "dq": rows, "dk": keys, "dv": keys}
    if "row_max" in found:
        lengths["row_max"] = rows
    if "dbias" in found and _has_rows(call.bias, rows):
        lengths["dbias"] = rows
    for name, length in lengths.items():
        dim = 2 if name != "dbias" else found[name].dim() - 2
        found[name] = context_parallel.unshard(found[name], dim, group, length=length)
    return found
