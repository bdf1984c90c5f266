"""What tests of functions with names of other libraries share: formulas of PyTorch's operations, and comparisons."""

import inspect

import torch


def leaf(*shape):
    return torch.randn(shape, requires_grad=True)


def attend(q, k, v, mask=None, bias=None, scale=None, cap=None):
    """(out, lse, largest scores) of heads before rows; mask and bias have a plane for each head of k or of q, or one.
    Rows that keep no key give 0, -inf, -inf."""
    per_head = lambda t: t if t.shape[-3] == 1 else t.repeat_interleave(q.shape[-3] // t.shape[-3], -3)
    scores = (q.shape[-1] ** -0.5 if scale is None else scale) * (q @ per_head(k).transpose(-1, -2))
    if cap is not None:
        scores = cap * (scores / cap).tanh()
    if bias is not None:
        scores = scores + per_head(bias)
    keep = torch.ones_like(scores, dtype=torch.bool)
    if mask is not None:
        keep = keep & per_head(mask)
    alive = keep.any(-1)
    scores = scores.masked_fill(~keep & alive[..., None], -torch.inf)
    out = scores.softmax(-1) @ per_head(v) * alive[..., None]
    dead = lambda t: t.masked_fill(~alive, -torch.inf)
    return out, dead(scores.logsumexp(-1)), dead(scores.amax(-1))


def bottom_right(rows, keys):
    return torch.ones(rows, keys, dtype=torch.bool).tril(keys - rows)


def assert_same(found, expected, atol=1e-5):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=atol)


def assert_same_gradients(found, expected, leaves):
    """Of pairs of results, weighted at random; of an lse, the part that is finite."""
    losses = [0.0, 0.0]
    for pair in zip(found, expected, strict=True):
        weights = torch.randn_like(pair[0])
        for which, result in enumerate(pair):
            losses[which] = losses[which] + (torch.where(result.isfinite(), result, 0.0) * weights).sum()
    assert_same(*(torch.autograd.grad(loss, leaves) for loss in losses), atol=2e-4)


def parameters(function):
    """Names, kinds and defaults, in order."""
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


def on_gpu(dtype, *tensors):
    return [t.detach().cuda().to(dtype).requires_grad_() for t in tensors]


def assert_close_in_norm(found, expected):
    """Of 16-bit arithmetic in another order."""
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert (found.float() - expected.float()).norm() <= 0.05 * expected.float().norm()


def compare(ours, theirs, leaves):
    """Outputs, and the gradients of both."""
    assert_close_in_norm(ours, theirs)
    weights = torch.randn_like(ours)
    gradients = (torch.autograd.grad(out, leaves, weights, retain_graph=True) for out in (ours, theirs))
    for found, expected in zip(*gradients, strict=True):
        assert_close_in_norm(found, expected)


def assert_same_compiled(function, arguments, named):
    """As one graph."""
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    found, expected = (f(*arguments, **named) for f in (compiled, function))
    assert_same([t for t in found if t is not None], [t for t in expected if t is not None])
