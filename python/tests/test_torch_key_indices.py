"""Selected keys: `attention`, its gradients and `reference.attention` beside the call over these keys alone."""

import pytest

torch = pytest.importorskip("torch")

import attnjit
import attnjit.reference

import cpu_kernels

B, HQ, HKV, LQ, LK, D, W = 2, 4, 2, 40, 90, 16, 30

by_both = pytest.mark.parametrize("attention", [attnjit.attention, attnjit.reference.attention])


@pytest.fixture(autouse=True, scope="module")
def kernels():
    library = cpu_kernels.install()
    yield
    del library


def tensors(seed=0):
    generator = torch.Generator().manual_seed(seed)
    new = lambda *shape: torch.randn(shape, generator=generator, dtype=torch.float16)
    return new(B, HQ, LQ, D), new(B, HKV, LK, D), new(B, HKV, LK, D)


def indices(batch=B, heads=HKV, dtype=torch.int64, seed=0):
    """Different keys in a random order."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(batch, heads, LK, generator=generator).topk(W).indices.to(dtype)


def gathered(t, places):
    """The rows of a k or v that are selected."""
    places = places.long().expand(B, HKV, -1)
    return t.gather(2, places.unsqueeze(-1).expand(-1, -1, -1, t.shape[-1]))


@by_both
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(("batch", "heads"), [(B, HKV), (1, HKV), (B, 1), (1, 1)])
def test_selected_keys_are_those_keys_alone(attention, batch, heads, dtype):
    q, k, v = tensors()
    places = indices(batch, heads, dtype)
    found = attention(q, k, v, key_indices=places, return_lse=True)
    expected = attention(q, gathered(k, places), gathered(v, places), return_lse=True)
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3)


@by_both
def test_what_else_a_call_has_holds_at_the_keys_own_numbers(attention):
    q, k, v = tensors()
    places = indices()
    selected = torch.zeros(B, HKV, LK, dtype=torch.bool).scatter_(-1, places, True)
    mask = selected.repeat_interleave(HQ // HKV, 1).unsqueeze(2).expand(-1, -1, LQ, -1)
    bias = torch.randn(1, HQ, LQ, LK, generator=torch.Generator().manual_seed(5)).half()
    options = {"causal": "bottom-right", "bias": bias, "softcap": 5.0, "keep": "j % 3 != 1"}
    found = attention(q, k, v, key_indices=places, **options)
    torch.testing.assert_close(found, attention(q, k, v, mask=mask, **options), rtol=3e-3, atol=3e-3)


@by_both
def test_indices_of_no_key_and_repeated_ones(attention):
    q, k, v = tensors()
    places = indices()
    faulty = torch.cat([places, places[..., :7], torch.full((B, HKV, 3), -1)], -1)
    faulty[..., 3] = LK  # in the place of a key
    counted = torch.cat([faulty[..., :3], faulty[..., 4:-3]], -1)
    found = attention(q, k, v, key_indices=faulty)
    expected = attention(q, gathered(k, counted), gathered(v, counted))
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3)


@by_both
def test_gradients(attention):
    places = torch.cat([indices(), indices()[..., :5]], -1)
    found, expected = [], []
    for gradients, selects in ((found, True), (expected, False)):
        q, k, v = (t.requires_grad_() for t in tensors())
        if selects:
            out = attention(q, k, v, key_indices=places)
        else:
            out = attention(q, gathered(k, places), gathered(v, places))
        (out.float() * torch.linspace(-1, 1, out.numel()).view(out.shape)).sum().backward()
        gradients += [t.grad for t in (q, k, v)]
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=5e-3)
    named = torch.zeros(B, HKV, LK, dtype=torch.bool).scatter_(-1, places, True)
    assert not found[1][~named].any() and not found[2][~named].any()


def test_keys_that_are_not_selected_may_hold_anything():
    q, k, v = tensors()
    places = indices()
    expected = attnjit.attention(q, k, v, key_indices=places)
    named = torch.zeros(B, HKV, LK, dtype=torch.bool).scatter_(-1, places, True)
    k[~named], v[~named] = float("nan"), float("inf")
    assert torch.equal(attnjit.attention(q, k, v, key_indices=places), expected)


def test_attention_backward_takes_them():
    q, k, v = tensors()
    places = indices()
    out, lse = attnjit.attention(q, k, v, key_indices=places, return_lse=True)
    dout = torch.ones_like(out)
    found = attnjit.attention_backward(q, k, v, out, lse, dout, key_indices=places)
    leaves = [t.requires_grad_() for t in (q, k, v)]
    attnjit.attention(*leaves, key_indices=places).backward(dout)
    for gradient, leaf in zip(found[:3], leaves):
        torch.testing.assert_close(gradient, leaf.grad)


@by_both
def test_what_is_no_tensor_and_more_batch_axes_are_refused(attention):
    q, k, v = tensors()
    with pytest.raises(TypeError, match="key_indices: expected a tensor"):
        attention(q, k, v, key_indices=[1, 2, 3])
    with pytest.raises(ValueError, match="key_indices are for one batch axis"):
        attention(q[None], k[None], v[None], key_indices=indices())


# By the module, as those of a GPU are.
@pytest.mark.parametrize(
    ("places", "message"),
    [
        (indices().half(), "key_indices: dtype is .*; expected int32 or int64"),
        (indices()[0], "key_indices: it has 2 axes; expected .batch, kv head, keys."),
        (indices(heads=HQ), "key_indices: head axis is 4; expected 1 or 2"),
        (indices(batch=3), "key_indices: batch axis is 3; expected 1 or 2"),
    ],
)
def test_what_is_refused(places, message):
    with pytest.raises((TypeError, ValueError), match=message):
        attnjit.reference.attention(*tensors(), key_indices=places)
