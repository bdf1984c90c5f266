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
@pytest.mark.parametrize("seed", range(12))
def test_flash_dmattn_func(seed, is_causal):
    mask, bias = operands(seed)
    q, k, v = leaf(B, H, LQ, D), leaf(B, HKV, LK, D), leaf(B, HKV, LK, DV)
    out, lse, probabilities = attnjit.flash_dmattn_func(
        *sequence_major(q, k, v), mask, bias, 0.4, is_causal, return_attn_probs=True
    )
    keep = mask & bottom_right(LQ, LK) if is_causal else mask
    expected = attend(q, k, v, keep, bias, 0.4)[:2]
    found = out.transpose(1, 2), lse
    assert probabilities is None and out.shape == (B, LQ, H, DV)
    assert_same(found, expected)
    assert_same_gradients(found, expected, (q, k, v, bias))


def test_options_of_flash_dmattn_func():
    q, k, v = leaf(B, H, LQ, D), leaf(B, HKV, LK, D), leaf(B, HKV, LK, DV)
    tensors = sequence_major(q, k, v)
    call = lambda **options: attnjit.flash_dmattn_func(*tensors, **options).transpose(1, 2)
    assert_same(call(), attend(q, k, v)[0])
    assert_same(call(softmax_scale=0.3), attend(q, k, v, scale=0.3)[0])
    assert_same(call(scale=0.3), attend(q, k, v, scale=0.3)[0])
    assert_same(call(scale=0.3, softmax_scale=0.3), attend(q, k, v, scale=0.3)[0])
    bias = leaf(1, 1, LQ, LK)
    assert_same(call(softcap=0.5, attn_bias=bias), attend(q, k, v, bias=bias, cap=0.5)[0])
    mask = torch.rand(B, HKV, LQ, LK) > 0.3
    assert_same(call(attn_mask=attnjit.prepare_mask(mask, backward=True)), attend(q, k, v, mask)[0])
    with pytest.raises(ValueError, match="scale: it is 0.2 and softmax_scale 0.3"):
        call(scale=0.2, softmax_scale=0.3)


@pytest.mark.parametrize(("asked", "passed"), [(None, False), (False, False), (True, True)])
def test_flash_dmattn_func_obeys_its_own_deterministic(asked, passed, monkeypatch):
    from attnjit import _dispatch

    seen, backward = [], _dispatch.backward
    monkeypatch.setattr(_dispatch, "backward", lambda *a: seen.append(a[11]) or backward(*a))
    torch.use_deterministic_algorithms(True)
    try:
        q = leaf(B, LQ, H, D)
        attnjit.flash_dmattn_func(q, q, q, deterministic=asked).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert seen == [passed]


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


N = 3


def triangle(batch):
    torch.manual_seed(batch)
    q, k, v = leaf(batch, N, H, LQ, D), leaf(batch, N, H, LK, D), leaf(batch, N, H, LK, D)
    mask = torch.rand(batch, N, 1, 1, LK) > 0.4
    mask[0, 1] = False  # a row of pairs without a key
    return q, k, v, leaf(batch, 1, H, LQ, LK), mask


@pytest.mark.parametrize("has_mask", [False, True])
@pytest.mark.parametrize("batch", [1, 2])
def test_triangle_attention(batch, has_mask):
    *leaves, mask = triangle(batch)
    mask = mask if has_mask else None
    found = attnjit.triangle_attention(*leaves, mask, 0.3, return_aux=True)
    q, k, v, bias = leaves
    expected = attend(q, k, v, mask, bias, 0.3)
    assert [t.shape[:4] for t in found] == [(batch, N, H, LQ)] * 3
    assert all(t.dtype == torch.float32 and t.is_contiguous() for t in found[1:])
    assert_same(found, expected)
    assert_same_gradients(found[:2], expected[:2], leaves)
    assert not has_mask or (found[0][0, 1].abs().max() == 0 and found[2][0, 1].max() == -torch.inf)
    assert_same(attnjit.triangle_attention(*leaves, mask), attend(q, k, v, mask, bias)[0])


def test_triangle_attention_of_four_axes():
    *tensors, mask = triangle(1)
    expected = attnjit.triangle_attention(*tensors, mask)
    assert_same(attnjit.triangle_attention(*(t[0] for t in tensors), mask[0]), expected)


def test_masks_and_biases_of_other_dtypes_in_triangle_attention():
    q, k, v, bias, mask = triangle(2)
    expected = attnjit.triangle_attention(q, k, v, bias, mask)
    assert_same(attnjit.triangle_attention(q, k, v, bias.double(), mask.float()), expected)


def test_lengths_of_triangle_attention():
    q, k, v, bias, _ = triangle(2)
    lengths = torch.tensor([[0, 1, LK], [3, LK + 2, 2]], dtype=torch.int32)[..., None, None, None]
    found = attnjit.triangle_attention(q, k, v, bias, return_aux=True, kv_lengths=lengths)
    expected = attend(q, k, v, torch.arange(LK) < lengths, bias)
    assert_same(found, expected)
    assert_same_gradients(found[:2], expected[:2], (q, k, v, bias))


def test_what_triangle_attention_refuses():
    *tensors, mask = triangle(2)
    lengths = torch.ones(2, N, 1, 1, 1, dtype=torch.int32)
    with pytest.raises(ValueError, match="kv_lengths: it cannot be given together with mask"):
        attnjit.triangle_attention(*tensors, mask, kv_lengths=lengths)
    with pytest.raises(ValueError, match="kv_lengths: its shape is .2, 3.; expected .2, 3, 1, 1, 1."):
        attnjit.triangle_attention(*tensors, kv_lengths=lengths.reshape(2, N))
