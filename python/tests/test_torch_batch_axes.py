"""More than one batch axis: triangle attention on CPU tensors."""

import warnings

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


@pytest.fixture
def forwards(monkeypatch):
    """The operands and scalars of the calls of the kernels."""
    from attnjit import _dispatch

    calls, forward = [], _dispatch.forward
    monkeypatch.setattr(_dispatch, "forward", lambda *a: calls.append(a[3:5]) or forward(*a))
    return calls


def compare(q, k, v, mask, bias, prepared=None):
    """Output and gradients of a call against PyTorch's, which expands."""
    out = attnjit.attention(q, k, v, mask=mask if prepared is None else prepared, bias=bias)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, bias.masked_fill(~mask, -torch.inf))
    torch.testing.assert_close(out, expected)
    weights, leaves = torch.randn_like(out), (q, k, v, bias)
    found = torch.autograd.grad((out * weights).sum(), leaves)
    torch.testing.assert_close(found, torch.autograd.grad((expected * weights).sum(), leaves))


def test_an_operand_that_all_samples_share_is_one_call(forwards):
    q, k, v, mask, bias = triangle(2)
    compare(q, k, v, mask[:1], bias)
    ((operands, scalars),) = forwards
    assert operands.mask.shape == (N, 1, 1, S) and scalars.plane_orders == (1, 0, 0, 0)


AXES = (2, 3, 2, 2)


@pytest.mark.parametrize(
    ("sizes", "planes", "order"),
    [
        ((1, 3, 2, 2), 12, (1, 0)),
        ((1, 3, 1, 1), 3, (4, 0)),
        ((1, 1, 1, 2), 2, (1, 0)),
        ((2, 1, 1, 2), 4, (1, 2)),
        ((2, 1, 2, 1), 4, (2, 2)),
        ((2, 3, 1, 1), 6, (0, 0)),
        ((2, 3, 2, 2), 24, (0, 0)),
        ((1, 1, 1, 1), 1, (0, 0)),
    ],
    ids=str,
)
def test_operands_of_some_batch_axes(forwards, sizes, planes, order):
    """Swin's masks of windows are of this kind, (1, windows, 1, S, S)."""
    torch.manual_seed(1)
    q, k, v = (torch.randn(*AXES, H, S, D, requires_grad=True) for _ in range(3))
    mask = torch.rand(*sizes, 1, S, S) > 0.3
    mask[..., 0] = True
    bias = torch.randn(*sizes, H, S, S, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(q, k, v, mask, bias)
        compare(q, k, v, mask, bias, prepared=attnjit.prepare_mask(mask, backward=True))
    for operands, scalars in forwards:
        # The bias as it is in memory.
        assert operands.bias.shape[0] == planes and operands.bias.data_ptr() == bias.data_ptr()
        assert scalars.plane_orders == (None if order == (0, 0) else order * 2)
    assert len(forwards) == 2


@pytest.mark.parametrize("sizes", [(1, 3, 1), (2, 1, 2), (1, 3, 1, 2)], ids=str)
def test_batch_axes_in_compiled_code(sizes):
    batch = AXES[: len(sizes)]
    q, k, v = torch.randn(3, *batch, H, S, D).unbind()
    bias = torch.randn(*sizes, H, S, S)

    def step(q, k, v, bias):
        return attnjit.attention(q, k, v, bias=bias)

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, bias.expand(*batch, -1, -1, -1))
    torch.testing.assert_close(compiled(q, k, v, bias), expected)


def test_axes_too_far_apart_are_expanded_with_a_warning(forwards):
    torch.manual_seed(1)
    q, k, v = (torch.randn(*AXES, H, S, D, requires_grad=True) for _ in range(3))
    mask = torch.rand(1, 3, 1, 2, 1, 1, S) > 0.3
    mask[..., 0] = True
    bias = torch.randn(2, 1, 2, 1, H, S, S, requires_grad=True)
    with pytest.warns(UserWarning, match=r"mask: it has \(1, 3, 1, 2\) of the batch axes .* first 1 of them"):
        compare(q, k, v, mask, bias)
    ((operands, scalars),) = forwards
    assert operands.mask.shape == (12, 1, 1, S) and scalars.plane_orders == (1, 2, 2, 2)
    with pytest.raises(ValueError, match="prepare a copy that has the first of them too"):
        attnjit.attention(q, k, v, mask=attnjit.prepare_mask(mask), bias=bias)


@pytest.mark.parametrize("empty", [0, 1])
def test_a_batch_axis_of_size_0(empty):
    """Operands whose planes repeat are there, but no sample is."""
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
    with pytest.raises(ValueError, match="bias: batch axis 0 is 2; expected 1 or 4"):
        attnjit.attention(q, k, v, bias=bias)
