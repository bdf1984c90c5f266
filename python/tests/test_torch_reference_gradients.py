"""Gradients of attnjit.reference.attention against differences, and what unread keys and dead rows hold reaches none."""

import math

import pytest
import torch

import attnjit
from attnjit.reference._expressions import evaluate

from reference_calls import DV, HKV, LK, LQ, WIDE, B, D, H, lengths, tensors


def test_gradients():
    q, k, v = tensors(requires_grad=True)
    bias = torch.randn(1, HKV, LQ, LK, dtype=WIDE, requires_grad=True)
    sink = torch.randn(H, dtype=WIDE, requires_grad=True)
    rel = torch.randn(H, 5, dtype=WIDE, requires_grad=True)
    mask = torch.rand(B, 1, LQ, LK) < 0.7
    mask[0, 0, 1] = False

    def call(q, k, v, bias, sink, rel):
        return attnjit.reference.attention(
            q, k, v, mask=mask, bias=bias, sink=sink, softcap=2.0, score="s * sigmoid(s) + rel[h, clamp(j - i, -2, 2) + 2]",
            operands={"rel": rel}, return_lse=True,
        )  # fmt: skip

    assert torch.autograd.gradcheck(call, (q, k, v, bias, sink, rel))


def test_gradients_of_packed_sequences_and_of_second_order():
    q, k, v = (t[:1].detach().requires_grad_() for t in tensors())
    bias = torch.randn(2, 1, 2, 1, dtype=WIDE, requires_grad=True)
    begins = {"cu_seqlens_q": lengths(0, 2, 3), "cu_seqlens_kv": lengths(0, 2, 4)}
    call = lambda q, k, v, bias: attnjit.reference.attention(q, k, v, bias=bias, **begins, return_lse=True)
    finite = lambda *leaves: [t.nan_to_num(0, 0, 0) for t in call(*leaves)]
    assert torch.autograd.gradcheck(finite, (q, k, v, bias))
    assert torch.autograd.gradgradcheck(lambda *leaves: finite(*leaves)[0], (q, k, v, bias))


def test_gradients_of_paged_keys_and_drafts():
    q = tensors(requires_grad=True)[0]
    pools = [torch.randn(4, HKV, 2, n, dtype=WIDE, requires_grad=True) for n in (D, DV)]
    options = {"block_table": lengths(3, 0, 1, 2).reshape(2, 2), "seqlens_kv": lengths(4, 3)}
    tree = torch.ones(LQ, LQ, dtype=torch.bool).tril()
    call = lambda *leaves: attnjit.reference.attention(*leaves, **options, tail_mask=tree)
    assert torch.autograd.gradcheck(call, (q, *pools))


def test_rows_without_a_live_key():
    """Their results, and gradients of exactly 0 whatever their dout."""
    q, k, v = tensors(requires_grad=True)
    bias = torch.zeros(LQ, LK, dtype=WIDE, requires_grad=True)
    mask = torch.ones(LQ, LK, dtype=torch.bool)
    mask[0] = False
    dropped = torch.zeros(LQ, LK, dtype=WIDE).index_fill(0, torch.tensor(1), -math.inf)
    for sink in (None, torch.tensor([1.0, 2.0, -math.inf, -1e39], dtype=WIDE, requires_grad=True)):
        out, lse = attnjit.reference.attention(
            q, k, v, mask=mask, bias=bias + dropped, sink=sink, return_lse=True
        )
        assert not out[:, :, :2].any()
        of_head = torch.full((H,), -math.inf, dtype=WIDE) if sink is None else sink.detach()
        of_head = torch.where(of_head > -1e38, of_head, -math.inf)
        assert torch.equal(lse[:, :, :2], of_head.reshape(1, H, 1).expand(B, H, 2))
        dout = torch.ones_like(out)
        dout[:, :, :2] = math.nan
        found = torch.autograd.grad(out, (q, k, v, bias), dout, retain_graph=True)
        assert all(t.isfinite().all() for t in found)
        assert not found[0][:, :, :2].any() and not found[3][:2].any()
    (dsink,) = torch.autograd.grad(lse[:, :, :2].nan_to_num(0, 0, 0).sum(), sink)
    torch.testing.assert_close(dsink, torch.tensor([2.0 * B, 2.0 * B, 0, 0], dtype=WIDE))


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"seqlens_kv": (3, 3)}, 3),
        ({"mask": torch.arange(LK) < 3}, 3),
        ({"causal": "top-left"}, LQ),
        ({"window": (-1, 0), "diagonal": "top-left"}, LQ),
        ({"keep": "j < 3"}, 3),
    ],
)
def test_what_keys_hold_that_no_row_reads(value, options, kept):
    """And rows that read no key."""
    if "seqlens_kv" in options:
        options = {"seqlens_kv": lengths(3, 3), "seqlens_q": lengths(2, 2)}
    q, k, v = tensors()
    results = []
    for rubbish in (0.0, value):
        for t in (k, v):
            t[:, :, kept:] = rubbish
        if "seqlens_q" in options:
            q[:, :, 2:] = rubbish
        leaves = [t.clone().requires_grad_() for t in (q, k, v)]
        out, lse = attnjit.reference.attention(*leaves, **options, return_lse=True)
        loss = out.sin().sum() + lse.nan_to_num(0, 0, 0).sum()
        results.append((out, lse, *torch.autograd.grad(loss, leaves)))
    for zeros, other in zip(*results):
        assert torch.equal(zeros, other)
    assert not results[1][3][:, :, kept:].any() and not results[1][4][:, :, kept:].any()


def test_a_nan_that_a_row_reads_is_in_its_result():
    q, k, v = tensors()
    q[0, 0, 0] = math.nan
    out = attnjit.reference.attention(q, k, v)
    assert out[0, 0, 0].isnan().all() and out[0, 0, 1:].isfinite().all()


def test_operands_that_nothing_depends_on_have_gradients_of_zeros():
    q, k, v = tensors(requires_grad=True)
    x = torch.randn(LK, requires_grad=True)
    out, lse = attnjit.reference.attention(q, k, v, keep="x[j] > -9.0", operands={"x": x}, return_lse=True)
    assert not torch.autograd.grad(out.sum(), x, retain_graph=True)[0].any()
    assert not torch.autograd.grad(lse.sum(), v)[0].any()


@pytest.mark.parametrize(
    ("text", "at", "slope"),
    [
        ("clamp(s, -1.0, 2.0)", -1.0, 1.0),
        ("clamp(s, -1.0, 2.0)", 2.0, 1.0),
        ("max(s, 1.0)", 1.0, 0.5),
        ("abs(s)", 0.0, 0.0),
        ("s < 0.0 ? 1.0 : sqrt(s)", -4.0, 0.0),
        ("sqrt(max(s, 0.0))", -1.0, 0.0),
        ("s > 0.0 ? s / s : 0.0", 0.0, 0.0),
        ("float(int(s)) + floor(s)", 1.5, 0.0),
        ("exp(s) * log(s)", 1.0, math.e),
    ],
)
def test_derivatives_at_kinks_and_of_sides_not_taken(text, at, slope):
    s = torch.tensor(at, dtype=WIDE, requires_grad=True)
    value = evaluate(text, {"i": torch.tensor(0)}, {}, s=s)
    (found,) = torch.autograd.grad(value + 0 * s, s)
    assert found.item() == pytest.approx(slope)


def test_ints_at_their_ends():
    value = lambda text: evaluate(text, {"i": torch.tensor(-(2**63))}, {}, torch.float32).item()
    assert (
        value("i // -1") == -(2**63) and value("i % -1") == 0 and value("i // 0") == 0 and value("3 % 0") == 3
    )
    assert value("int(3e9)") == 2**31 - 1 and value("int(-inf)") == -(2**31) and value("int(0.0 / 0.0)") == 0
    assert value("1 << 99") == -(2**63) and value("i >> 70") == -1
