"""flash_dmattn_func, and what flash_attn_func has beyond FlashAttention's: on CPU tensors against formulas of PyTorch's
operations, on a GPU against flash-dmattn."""

import random

import pytest
import torch

import attnjit

from named_doors import (
    assert_same,
    assert_same_compiled,
    assert_same_gradients,
    attend,
    bottom_right,
    compare,
    leaf,
    on_gpu,
    parameters,
)

pytestmark = pytest.mark.usefixtures("cpu_kernels")

B, H, HKV, LQ, LK, D, DV = 2, 4, 2, 5, 7, 8, 16


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


def test_compiled_code():
    mask = torch.rand(B, 1, 1, LK) > 0.4
    tensors = leaf(B, LQ, H, D), leaf(B, LK, HKV, D), leaf(B, LK, HKV, DV)
    assert_same_compiled(attnjit.flash_dmattn_func, (*tensors, mask), {"return_attn_probs": True})


@pytest.mark.gpu
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_flash_dmattn_func_agrees_with_flash_dmattn(heads, is_causal):
    theirs = pytest.importorskip("flash_dmattn")
    if not theirs.CUDA_AVAILABLE:
        pytest.skip("flash_dmattn has no kernels here")
    torch.manual_seed(0)
    q, k, v = on_gpu(torch.bfloat16, leaf(2, 130, 4, 64), leaf(2, 200, 2, 64), leaf(2, 200, 2, 64))
    (bias,) = on_gpu(torch.bfloat16, leaf(2, heads, 130, 200))
    mask = torch.rand(1, heads, 130, 200, device="cuda") > 0.3
    assert parameters(theirs.flash_dmattn_func) == parameters(attnjit.flash_dmattn_func)[:-1]
    ours, expected = (
        f(q, k, v, mask, bias, is_causal=is_causal)
        for f in (attnjit.flash_dmattn_func, theirs.flash_dmattn_func)
    )
    compare(ours, expected, (q, k, v, bias))
