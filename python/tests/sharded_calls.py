"""Random problems over a group, and their results beside those of one process."""

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
    )
    if dtype is not None:
        kind = replace(kind, dtype=dtype, bias_dtype=dtype)
    call = Call(kind, seed, device)
    if call.bias is not None and call.q.shape[2] < 2 * ranks:
        call.bias = call.bias.detach()
        call.options["bias"] = call.bias
    return call


def _options(call):
    """Those of a call that context_parallel.attention takes."""
    taken = ("mask", "bias", "causal", "window", "diagonal", "scale", "softcap", "diagonal_offset")
    return {name: call.options[name] for name in taken}


def weights_of(out, lse, seed):
    generator = torch.Generator(out.device).manual_seed(seed)
    dout = torch.randn(out.shape, generator=generator, device=out.device, dtype=out.dtype)
    return dout, torch.randn(lse.shape, generator=generator, device=out.device)


def run(attend, leaves, weights, uses_lse):
    """(out, lse, gradients of `leaves`)."""
    out, lse = attend()
    outputs, given = ((out, lse), weights) if uses_lse else ((out,), weights[:1])
    return out.detach(), lse.detach(), torch.autograd.grad(outputs, leaves, given)


def whole(call, weights, uses_lse, attention=attnjit.attention, **more):
    options = _options(call) | more
    attend = lambda: attention(call.q, call.k, call.v, return_lse=True, **options)
    return run(attend, call.leaves(), weights, uses_lse)


def _slice(operand, rows, shard):
    """A mask or bias with this rank's rows, a leaf of its own."""
    if operand is None:
        return None
    if operand.dim() >= 2 and operand.shape[-2] == rows and rows > 1:
        operand, wants = shard(operand.detach(), operand.dim() - 2), operand.requires_grad
        return operand.requires_grad_(wants)
    return operand.detach().requires_grad_(operand.requires_grad)


def sharded(call, weights, uses_lse, group=None, **more):
    """The same over a group, put together again: what whole() returns."""
    shard = lambda tensor, dim: context_parallel.shard(tensor.detach(), dim, group)
    rows, keys = call.q.shape[2], call.k.shape[2]
    q, k, v = (shard(t, 2).requires_grad_() for t in (call.q, call.k, call.v))
    mask, bias = (_slice(t, rows, shard) for t in (call.mask, call.bias))
    options = _options(call)
    options |= {"mask": mask, "bias": bias, "group": group, "seqlen_q": rows, "seqlen_kv": keys} | more
    attend = lambda: context_parallel.attention(q, k, v, return_lse=True, **options)
    leaves = [t for t in (q, k, v, bias) if t is not None and t.requires_grad]
    mine = tuple(shard(t, 2) for t in weights)
    out, lse, gradients = run(attend, leaves, mine, uses_lse)
    join = lambda tensor, dim, length: context_parallel.unshard(tensor, dim, group, length=length)
    dq, dk, dv, *dbias = gradients
    joined = [join(dq, 2, rows), join(dk, 2, keys), join(dv, 2, keys)]
    if dbias and bias.shape != call.bias.shape or (dbias and bias.dim() >= 2 and bias.shape[-2] == rows > 1):
        dbias = [join(dbias[0], dbias[0].dim() - 2, rows)]
    return join(out, 2, rows), join(lse, 2, rows), (*joined, *dbias)
