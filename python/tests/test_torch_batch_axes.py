"""More than one batch axis: triangle attention on CPU tensors."""

import pytest
import torch

import attnjit

pytestmark = pytest.mark.usefixtures("cpu_kernels")

N, H, S, D = 3, 2, 6, 8


def triangle(batch):
    torch.manual_seed(1)
    q, k, v = (torch.randn(batch, N, H, S, D, requires_grad=True) for _ in range(3))
    bias = torch.randn(batch, 1, H, S, S, requires_grad=True)
    mask = torch.rand(batch, N, 1, 1, S) > 0.2
    mask[..., 0] = True
    return q, k, v, mask, bias


@pytest.mark.parametrize("batch", [1, 2])
def test_triangle_attention(batch, monkeypatch):
    from attnjit import _dispatch

    q, k, v, mask, bias = triangle(batch)
    biases = []
    forward = _dispatch.forward
    monkeypatch.setattr(_dispatch, "forward", lambda *a: biases.append(a[3].bias) or forward(*a))
    out = attnjit.attention(q, k, v, mask=mask, bias=bias)
    # One call for all samples, and the bias as it is in memory.
    assert [b.shape for b in biases] == [(batch, H, S, S)]
    assert biases[0].data_ptr() == bias.data_ptr()

    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, bias.masked_fill(~mask, -torch.inf))
    torch.testing.assert_close(out, expected)
    weights = torch.randn_like(out)
    leaves = (q, k, v, bias)
    found = torch.autograd.grad((out * weights).sum(), leaves)
    torch.testing.assert_close(found, torch.autograd.grad((expected * weights).sum(), leaves))


def test_an_operand_that_all_samples_share_is_a_call_per_sample():
    q, k, v, mask, bias = triangle(2)
    mask = mask[:1]
    out = attnjit.attention(q, k, v, mask=mask, bias=bias)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, bias.masked_fill(~mask, -torch.inf))
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("empty", [0, 1])
def test_a_batch_axis_of_size_0(empty):
    """Operands that ask for a call per sample are there, but no sample is."""
    sizes = [(0, N), (2, 0)][empty]
    q, k, v = (torch.randn(*sizes, H, S, D, requires_grad=True) for _ in range(3))
    bias = torch.randn(1, sizes[1], H, S, S, requires_grad=True)
    out, lse, _, max_logits = attnjit.attention(
        q, k, v, bias=bias, return_lse=True, return_row_max=True, return_max_logits=True
    )
    assert out.shape == q.shape and lse.shape == q.shape[:-1] and (max_logits == -torch.inf).all()
    found = torch.autograd.grad(out.sum() + lse.sum(), (q, k, v, bias))
    assert [g.shape for g in found] == [t.shape for t in (q, k, v, bias)] and not found[3].abs().sum()


def test_planes_that_batch_elements_share_in_groups():
    q, k, v, _, bias = triangle(2)
    q, k, v = (t.detach().flatten(0, 1).requires_grad_() for t in (q, k, v))
    bias = bias.detach()[:, 0].requires_grad_()
    out = attnjit.attention(q, k, v, bias=bias)
    each = bias.repeat_interleave(N, 0)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, each)
    torch.testing.assert_close(out, expected)
    found = torch.autograd.grad(out.square().sum(), (q, k, v, bias))
    torch.testing.assert_close(found, torch.autograd.grad(expected.square().sum(), (q, k, v, bias)))


def test_lengths_and_lse_of_two_batch_axes():
    q, k, v, _, _ = triangle(2)
    keys = torch.tensor([[1, 2, 3], [4, 5, 6]])
    out, lse = attnjit.attention(q, k, v, seqlens_kv=keys, return_lse=True)
    assert out.shape == q.shape and lse.shape == q.shape[:-1]
    torch.testing.assert_close(out[0, 0], v[0, 0, :, :1].expand(H, S, D))


@pytest.mark.parametrize("share", [False, True])
def test_largest_scores_of_two_batch_axes(share):
    """In one call, and in a call per sample, which a mask that the samples share asks for."""
    q, k, v, mask, bias = triangle(2)
    mask = mask[:1] if share else mask
    _, of_rows, found = attnjit.attention(
        q, k, v, mask=mask, bias=bias, return_row_max=True, return_max_logits=True
    )
    scores = (q @ k.transpose(-1, -2) / D**0.5 + bias).masked_fill(~mask, -torch.inf)
    torch.testing.assert_close(of_rows, scores.detach().amax(-1))
    torch.testing.assert_close(found, scores.detach().amax((0, 1, 3, 4)))


@pytest.mark.parametrize("share", [False, True])
def test_slopes_per_batch_element(share):
    """In one call, and in a call per sample, which a mask that the samples share asks for."""
    q, k, v, mask, _ = triangle(2)
    slopes = torch.rand(2, N, H)
    mask = mask[:1] if share else mask
    distance = (torch.arange(S)[:, None] - torch.arange(S)).abs()
    bias = -slopes[..., None, None] * distance
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, bias.masked_fill(~mask, -torch.inf))
    torch.testing.assert_close(attnjit.attention(q, k, v, mask=mask, alibi_slopes=slopes), expected)
    of_heads = attnjit.attention(q, k, v, mask=mask, alibi_slopes=slopes[1, 2])
    torch.testing.assert_close(of_heads[1, 2], expected[1, 2])


def test_batch_axes_that_differ_are_refused():
    q, k, v, _, _ = triangle(2)
    with pytest.raises(ValueError, match="the same of all"):
        attnjit.attention(q, k[:1], v[:1])
    with pytest.raises(ValueError, match="expected .batch, head, sequence, feature."):
        attnjit.attention(q[0, 0], k[0, 0], v[0, 0])


def test_an_operand_of_fewer_samples_is_refused():
    q, k, v = torch.randn(3, 4, 3, 2, 6, 8, dtype=torch.bfloat16).unbind()
    bias = torch.randn(2, 1, 2, 6, 6, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="bias: the first batch axis is 2; expected 1 or 4"):
        attnjit.attention(q, k, v, bias=bias)
