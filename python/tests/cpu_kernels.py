"""Kernels of torch.ops.attnjit for CPU tensors, from the formulas: with them the doors run without a GPU."""

from concurrent.futures import ThreadPoolExecutor

import torch

from attnjit import _merge_lse as _defines_merge_lse  # noqa: F401
from attnjit import _operators
from attnjit import _prepared_mask as _defines_prepare_mask  # noqa: F401
from attnjit._layout import new_gradient, new_max_logits, new_row_numbers, new_tensor

import formulas


def _absent(q):
    return q.new_empty(0, dtype=torch.float32)


def _forward(q, k, v, *arguments):
    *flat, need_lse, need_row_max, need_max_logits, sequence_major = arguments
    operands, scalars = _operators.grouped(flat)
    out, lse = formulas.attend(q, k, v, operands, scalars)
    results = [new_tensor(q, v.shape[3], sequence_major).copy_(out)]
    results.append(new_row_numbers(q).copy_(lse) if need_lse else _absent(q))
    for wanted, new, formula in (
        (need_row_max, new_row_numbers, formulas.row_max),
        (need_max_logits, new_max_logits, formulas.max_logits),
    ):
        results.append(new(q).copy_(formula(q, k, operands, scalars)) if wanted else _absent(q))
    return tuple(results)


def _backward(dout, dlse, q, k, v, out, lse, *arguments):
    *flat, need_dbias, need_dsink, _, need_read = arguments
    operands, scalars = _operators.grouped(flat)
    *found, dbias, dsink = formulas.gradients(out, dout, dlse, q, k, v, operands, scalars, given_lse=lse)
    results = [new_gradient(t).copy_(g) for t, g in zip((q, k, v), found)]
    results.append(dbias.to(operands.bias.dtype) if need_dbias else _absent(q))
    results.append(dsink.float() if need_dsink else _absent(q))
    wanted_read = any(need_read)
    of_rows = dout, dlse, out, lse
    results.append(_gradients_of_read(of_rows, q, k, v, operands, scalars, need_read) if wanted_read else [])
    return tuple(results)


def _gradients_of_read(of_rows, q, k, v, operands, scalars, need_read):
    """Those of the tensors that expressions read, of which `out` and `lse` may be over more keys. An operator's kernel
    records no graph, another thread does."""
    dout, dlse, out, lse = (t if t is None else t.double() for t in of_rows)
    delta = (dout * out).sum(-1) - (0 if dlse is None else dlse)

    def compute():
        read = [t.detach().requires_grad_(need) for t, need in zip(operands.read, need_read)]
        with torch.enable_grad():
            given = operands._replace(read=read)
            own_out, own_lse = formulas.attend(q, k, v, given, scalars)
            # The sum of exp(score - lse) (dout . v - delta) over the keys at hand, whose derivative by a score is
            # the score's gradient.
            counts = own_lse.isfinite() & lse.isfinite()
            share = torch.where(counts, torch.where(counts, own_lse - lse, 0.0).exp(), 0.0)
            total = (share * ((dout * own_out).sum(-1) - delta)).nan_to_num(0, 0, 0).sum()
        leaves = [t for t in read if t.requires_grad]
        found = torch.autograd.grad(total, leaves, allow_unused=True)
        return [torch.zeros_like(t) if g is None else g.to(t.dtype) for t, g in zip(leaves, found)]

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(compute).result()


def _merge_lse(parts, part_lses, carry, carry_lse, out, lse):
    if carry is not None:
        parts, part_lses = torch.cat([parts.double(), carry[None]]), torch.cat([part_lses, carry_lse[None]])
    found, found_lse = formulas.merge_lse(parts, part_lses)
    out.copy_(found)
    lse.copy_(found_lse)


def _prepare_mask(mask, backward, memory):
    formulas.prepare_mask(mask, memory)


def install() -> torch.library.Library:
    """Registers the kernels for as long as the result lives."""
    library = torch.library.Library("attnjit", "IMPL")
    library.impl("forward", _forward, "CPU", allow_override=True)
    library.impl("backward", _backward, "CPU", allow_override=True)
    library.impl("merge_lse", _merge_lse, "CPU", allow_override=True)
    library.impl("prepare_mask", _prepare_mask, "CPU", allow_override=True)
    return library
