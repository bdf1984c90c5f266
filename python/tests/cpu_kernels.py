"""Kernels of torch.ops.attnjit for CPU tensors, from the formulas: with them the doors run without a GPU."""

import torch

from attnjit import _operators  # noqa: F401 (defines the operators)
from attnjit._layout import new_gradient, new_lse, new_tensor

import formulas


def _forward(
    q, k, v, mask, bias, seqlens_q, seqlens_kv,
    scale, causal, diagonal, left, right, softcap, offset, need_lse, sequence_major,
):  # fmt: skip
    scalars = (scale, causal, diagonal, left, right, softcap, offset)
    out, lse = formulas.attend(q, k, v, mask, bias, seqlens_q, seqlens_kv, scalars)
    out = new_tensor(q, v.shape[3], sequence_major).copy_(out)
    return out, new_lse(q).copy_(lse) if need_lse else q.new_empty(0, dtype=torch.float32)


def _backward(
    dout, dlse, q, k, v, out, lse, mask, bias, seqlens_q, seqlens_kv,
    scale, causal, diagonal, left, right, softcap, offset, need_dbias, deterministic,
):  # fmt: skip
    scalars = (scale, causal, diagonal, left, right, softcap, offset)
    *found, dbias = formulas.gradients(out, dout, dlse, q, k, v, mask, bias, seqlens_q, seqlens_kv, scalars)
    results = [new_gradient(t).copy_(g) for t, g in zip((q, k, v), found)]
    absent = q.new_empty(0, dtype=torch.float32)
    return *results, bias.new_empty(bias.shape).copy_(dbias) if need_dbias else absent


def install() -> torch.library.Library:
    """Registers the kernels for as long as the result lives."""
    library = torch.library.Library("attnjit", "IMPL")
    library.impl("forward", _forward, "CPU", allow_override=True)
    library.impl("backward", _backward, "CPU", allow_override=True)
    return library
