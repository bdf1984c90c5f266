"""Functions that have the signatures of flash-dmattn and cuEquivariance, and what flash_attn_func has beyond
FlashAttention's: on CPU tensors against formulas of PyTorch's operations, on a GPU against these libraries."""

import random

import pytest
import torch

import attnjit

pytestmark = pytest.mark.usefixtures("cpu_kernels")

B, H, HKV, LQ, LK, D, DV = 2, 4, 2, 5, 7, 8, 16


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


def sequence_major(*tensors):
    return [t.transpose(1, 2) for t in tensors]


def operands(seed):
    """A mask and a bias of random broadcasts, a dead row among them."""
    choose = random.Random(seed)
    shape = lambda: tuple(choose.choice(sizes) for sizes in ((B, 1), (H, HKV, 1), (LQ, 1), (LK, 1)))
    torch.manual_seed(seed)
    mask = torch.rand(shape()) > 0.3
    mask[0, 0, 0] = False
    return mask, leaf(*shape())


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_mask_and_bias_of_flash_attn_func(seed, is_causal):
    mask, bias = operands(seed)
    q, k, v = leaf(B, H, LQ, D), leaf(B, HKV, LK, D), leaf(B, HKV, LK, DV)
    out = attnjit.flash_attn_func(*sequence_major(q, k, v), causal=is_causal, mask=mask, bias=bias)
    keep = mask & bottom_right(LQ, LK) if is_causal else mask
    expected = attend(q, k, v, keep, bias)[:1]
    found = (out.transpose(1, 2),)
    assert_same(found, expected)
    assert_same_gradients(found, expected, (q, k, v, bias))
