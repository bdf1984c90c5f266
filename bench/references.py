"""What attention is by its formulas in fp64, for the programs that measure errors."""

import math

import torch

TENSORS = ("out", "dq", "dk", "dv", "dbias")


def exact(q, k, v, dout, bias, causal, dtype=None):
    """out and the gradients by the formulas in fp64. With a dtype, probabilities are rounded to it as they enter out,
    dv and dS, dS and out as well, against the maximum of the row: FlashAttention's rounding."""
    copies = q.shape[1] // k.shape[1]

    def grouped(t):
        return t.unflatten(1, (-1, copies)).sum(2)

    def rounded(t):
        return t if dtype is None else t.to(dtype).double()

    q, k, v, dout = (t.double() for t in (q, k, v, dout))
    keys, values = (t.repeat_interleave(copies, 1) for t in (k, v))
    scale = q.shape[-1] ** -0.5
    scores = q @ keys.mT * scale
    if bias is not None:
        scores += bias.double()
    if causal:
        scores.masked_fill_(torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1), -math.inf)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    total = weights.sum(-1, keepdim=True)
    out = rounded(rounded(weights) @ values / total)
    p = weights / total
    ds = p * (dout @ values.mT - (dout * out).sum(-1, keepdim=True))
    dv, ds_operand = rounded(p).mT @ dout, rounded(ds)
    found = [out, ds_operand @ keys * scale, grouped(ds_operand.mT @ q * scale), grouped(dv)]
    return [rounded(t) for t in found] + ([] if bias is None else [rounded(ds)])


def rms(t):
    return t.double().square().mean().sqrt().item()
