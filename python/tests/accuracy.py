"""The accuracy that kernels owe (docs/reference/semantics.md), for tensors of PyTorch."""

import torch

from attnjit._call import Operands

import formulas

# Half a unit in the last place of 1.
_ROUNDING = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


def _plane_maximum(tensor):
    """The largest absolute value of each (batch, head), of finite elements."""
    return tensor.abs().nan_to_num(0, 0, 0).flatten(2).amax(-1) if tensor.numel() else tensor.new_zeros(())


def assert_accurate(name, found, exact, rounded, dtype, slack):
    """`found` lies as close to `exact` as the formulas rounded like kernels do, twice, in each plane."""
    assert found.isfinite().all(), f"{name}: it is not finite"
    shape = (1,) * (4 - found.dim()) + tuple(found.shape)
    found, exact, rounded = (t.double().reshape(shape) for t in (found, exact, rounded))
    error = _plane_maximum(found - exact)
    allowed = 2 * _plane_maximum(rounded - exact) + 2 * _ROUNDING[dtype] * _plane_maximum(exact) + slack
    worst = (error / allowed).max().item()
    assert worst <= 1, f"{name}: the error is {worst:.2f} of what is allowed"


def _size_of_sink_terms(sink, lse, dout, out):
    """The root of the sum of the squares of what goes into dsink with a rounded out, of the largest head."""
    weights = torch.where(lse.isfinite(), (sink.double().reshape(1, -1, 1) - lse).exp(), 0.0)
    terms = weights * dout.double().norm(dim=-1) * out.detach().double().norm(dim=-1)
    return terms.square().sum((0, 2)).sqrt().max()


def check(problem, out, lse=None, gradients=None, dout=None, dlse=None):
    """Holds what a call left against the formulas. `problem` is (q, k, v, operands, scalars) of attnjit._call;
    gradients are (dq, dk, dv, dbias or None, dsink or None)."""
    q, operands = problem[0], Operands.of_flat([t if t is None else t.detach() for t in problem[3].flat()])
    bias = operands.bias
    detached = (*(t.detach() for t in problem[:3]), operands, problem[4])
    exact, exact_lse = formulas.attend(*detached)
    rounded, _ = formulas.attend(*detached, dtype=torch.float32, rounded=q.dtype)
    assert_accurate("out", out.detach(), exact, rounded, q.dtype, 1e-5)
    if lse is not None:
        torch.testing.assert_close(lse.detach().double(), exact_lse, rtol=1e-4, atol=1e-4)
    if gradients is None:
        return
    given = (out.detach(), dout, dlse, *detached)
    exact = formulas.gradients(*given)
    rounded = formulas.gradients(*given, dtype=torch.float32, rounded=q.dtype)
    for name, *tensors in zip(("dq", "dk", "dv", "dbias", "dsink"), gradients, exact, rounded):
        if tensors[0] is None:
            continue
        # Differences of large terms: fp32 leaves an error that grows with how many are summed.
        terms = out[..., 0].numel() * problem[1].shape[2] / max(bias.numel(), 1) if name == "dbias" else 1
        slack = 1e-4 * max(1, terms) ** 0.5
        if name == "dsink":
            slack = slack + _ROUNDING[q.dtype] * _size_of_sink_terms(operands.sink, exact_lse, dout, out)
        assert_accurate(name, *tensors, q.dtype, slack)
