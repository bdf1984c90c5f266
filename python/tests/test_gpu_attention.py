"""attnjit.attention on a GPU against the formulas in fp64, forward and all gradients."""

import math
import random

import pytest
import torch

import attnjit
from attnjit._call import Operands
from attnjit._scalars import Scalars

import accuracy
import formulas
from random_calls import Call, of_packed_sequences, random_kind, with_features

pytestmark = pytest.mark.gpu

OPEN = Scalars()
KINDS, PACKED_KINDS, CALLS = 42, 18, 12  # 504 problems of a batch, 216 of packed sequences


@pytest.mark.parametrize("seed", range(KINDS + PACKED_KINDS))
def test_random_problems(seed):
    rng = random.Random(seed)
    kind = with_features(random_kind(rng), rng)
    if seed >= KINDS:
        kind = of_packed_sequences(kind, rng)
    maxima = {"return_row_max": True, "return_max_logits": True} if seed % 4 == 0 else {}
    for index in range(CALLS):
        call = Call(kind, 1000 * seed + index, "cuda")
        uses_lse = index % 3 == 0
        deterministic = index % 2 == 0
        out, lse, *largest = attnjit.attention(
            call.q, call.k, call.v, **call.options, **maxima, return_lse=True, deterministic=deterministic
        )
        if largest:
            exact = [f(call.q, call.k, *call.problem[3:]) for f in (formulas.row_max, formulas.max_logits)]
            torch.testing.assert_close([t.double() for t in largest], exact, rtol=1e-4, atol=1e-4)
        dout = torch.randn_like(out)
        dlse = torch.randn_like(lse) if uses_lse else None
        outputs, weights = ((out, lse), (dout, dlse)) if uses_lse else ((out,), (dout,))
        found = call.gradients(outputs, weights)
        accuracy.check(call.problem, out, lse, found, dout, dlse)
        with torch.no_grad():
            again = attnjit.attention(call.q, call.k, call.v, **call.options, **maxima)
            assert torch.equal(again[0] if maxima else again, out)


def make(*shape, dtype=torch.bfloat16, requires_grad=True):
    return torch.randn(shape, dtype=dtype, device="cuda", requires_grad=requires_grad)


def check_all(q, k, v, mask=None, bias=None):
    """Forward and gradients of one call without further options."""
    out, lse = attnjit.attention(q, k, v, mask=mask, bias=bias, return_lse=True)
    dout = torch.randn_like(out)
    leaves = [t for t in (q, k, v, bias) if t is not None and t.requires_grad]
    found = dict(zip(map(id, leaves), torch.autograd.grad(out, leaves, dout)))
    gradients = [found.get(id(t)) for t in (q, k, v, bias)]
    accuracy.check((q, k, v, Operands(mask, bias), OPEN), out, lse, gradients, dout)


def test_rows_with_low_lse_under_a_mask():
    """Lengths of 64 past a multiple of 128, a mask, and rows whose lse lies below -88.7, where fp32's exp of
    its opposite overflows."""
    torch.manual_seed(0)
    q, k, v = (make(1, 4, 320, 64) for _ in range(3))
    bias = torch.full((1, 1, 320, 320), -150.0, dtype=torch.float32, device="cuda", requires_grad=True)
    mask = torch.rand(1, 1, 320, 320, device="cuda") < 0.5
    check_all(q, k, v, mask, bias)


def test_one_query():
    torch.manual_seed(0)
    check_all(make(2, 8, 1, 64), make(2, 2, 4000, 64), make(2, 2, 4000, 64), bias=make(2, 8, 1, 4000))


def test_fp32_bias_beside_bf16():
    torch.manual_seed(0)
    q, k, v = (make(2, 4, 130, 128) for _ in range(3))
    check_all(q, k, v, bias=make(1, 4, 130, 130, dtype=torch.float32))


def test_only_the_bias_requires_grad():
    torch.manual_seed(0)
    q, k, v = (make(2, 4, 130, 64, requires_grad=False) for _ in range(3))
    check_all(q, k, v, bias=make(1, 4, 130, 130))


def test_dead_rows_and_padding_of_nan():
    torch.manual_seed(0)
    q, k, v = (make(2, 4, 96, 64, requires_grad=False) for _ in range(3))
    mask = torch.ones(2, 1, 1, 96, dtype=torch.bool, device="cuda")
    mask[0, ..., 50:] = False
    mask[1] = False
    k[0, :, 50:], v[0, :, 50:] = math.nan, math.nan
    for t in (q, k, v):
        t.requires_grad_()
    out = attnjit.attention(q, k, v, mask=mask)
    assert out.isfinite().all() and out[1].abs().max() == 0
    for gradient in torch.autograd.grad(out.float().square().sum(), (q, k, v)):
        assert gradient.isfinite().all() and gradient[1].abs().max() == 0


def test_bias_that_is_expanded():
    torch.manual_seed(0)
    q, k, v = (make(2, 4, 70, 64) for _ in range(3))
    bias = make(1, 1, 70, 70)
    dout = torch.randn_like(q)
    shapes = [(1, 1, 70, 70), (2, 4, 70, 70), (2, 1, 70, 70), (1, 4, 70, 70)]
    first, *others = (
        torch.autograd.grad(attnjit.attention(q, k, v, bias=bias.expand(shape)), bias, dout)[0]
        for shape in shapes
    )
    for other in others:
        torch.testing.assert_close(other, first, rtol=3e-2, atol=3e-2)


def test_empty_tensors():
    out, lse = attnjit.attention(make(2, 2, 8, 64), make(2, 2, 0, 64), make(2, 2, 0, 64), return_lse=True)
    assert out.abs().max() == 0 and lse.max() == -math.inf
    q = make(0, 2, 8, 64)
    assert attnjit.attention(q, q, q).shape == q.shape


@pytest.mark.parametrize(("batch", "rows", "keys"), [(0, 8, 9), (2, 0, 9), (2, 8, 0), (2, 0, 0)])
def test_empty_axes_with_all_results(batch, rows, keys):
    q, k, v = make(batch, 4, rows, 64), make(batch, 2, keys, 64), make(batch, 2, keys, 32)
    bias = make(1, 4, 1, keys)
    out, lse, row_max, max_logits = attnjit.attention(
        q, k, v, bias=bias, return_lse=True, return_row_max=True, return_max_logits=True
    )
    assert out.shape == (batch, 4, rows, 32) and lse.shape == row_max.shape == (batch, 4, rows)
    assert not out.any() and (lse == -math.inf).all() and (row_max == -math.inf).all()
    assert max_logits.shape == (4,) and (max_logits == -math.inf).all()
    leaves = (q, k, v, bias)
    gradients = torch.autograd.grad(out.sum() + lse.sum(), leaves)
    assert [g.shape for g in gradients] == [t.shape for t in leaves]
    assert not any(g.any() for g in gradients)
    merged, merged_lse = attnjit.merge_lse(out.detach()[None], lse.detach()[None])
    assert torch.equal(merged, out) and torch.equal(merged_lse, lse)


@pytest.mark.parametrize("batch", [1, 2])
def test_triangle_attention(batch):
    torch.manual_seed(0)
    rows, heads, length, width = 5, 4, 65, 32
    q, k, v = (make(batch, rows, heads, length, width) for _ in range(3))
    bias = make(batch, 1, heads, length, length)
    mask = torch.rand(batch, rows, 1, 1, length, device="cuda") < 0.8
    out = attnjit.attention(q, k, v, mask=mask, bias=bias)
    dout = torch.randn_like(out)
    dq, dk, dv, dbias = torch.autograd.grad(out, (q, k, v, bias), dout)
    for b in range(batch):
        problem = (q[b], k[b], v[b], Operands(mask[b], bias[b]), OPEN)
        accuracy.check(problem, out[b], None, (dq[b], dk[b], dv[b], dbias[b]), dout[b])


@pytest.mark.parametrize("length", [49, 64])
def test_shifted_windows(length):
    """Swin: the windows of each image have the same masks, here with a bias for each as well."""
    torch.manual_seed(0)
    images, windows, heads, width = 3, 4, 2, 32
    q, k, v = (make(images, windows, heads, length, width) for _ in range(3))
    bias = make(1, windows, heads, length, length)
    mask = torch.rand(1, windows, 1, length, length, device="cuda") < 0.8
    orders = OPEN._replace(plane_orders=(1, 0, 1, 0))
    for given in (mask, attnjit.prepare_mask(mask, backward=True)):
        out = attnjit.attention(q, k, v, mask=given, bias=bias)
        dout = torch.randn_like(out)
        *gradients, dbias = torch.autograd.grad(out, (q, k, v, bias), dout)
        flat = [t.flatten(0, 1) for t in (q, k, v, out, dout, *gradients)]
        problem = (*flat[:3], Operands(mask[0], bias[0]), orders)
        accuracy.check(problem, flat[3], None, (*flat[5:], dbias[0]), flat[4])
