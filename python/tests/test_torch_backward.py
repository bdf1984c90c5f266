"""attnjit.attention_backward on CPU tensors, beside autograd of attnjit.attention."""

import inspect

import pytest
import torch

import attnjit
from attnjit import _notes

pytestmark = pytest.mark.usefixtures("cpu_kernels")

B, H, HKV, LQ, LK, D, DV = 2, 4, 2, 5, 7, 8, 16


def tensors(*batch):
    torch.manual_seed(0)
    batch = batch or (B,)
    shapes = (H, LQ, D), (HKV, LK, D), (HKV, LK, DV)
    return [torch.randn(*batch, *shape, requires_grad=True) for shape in shapes]


def lengths(*numbers):
    return torch.tensor(numbers, dtype=torch.int32)


def check(q, k, v, uses_lse=True, **options):
    """The gradients of all that requires one, as autograd has them."""
    bias, sink, operands = options.get("bias"), options.get("sink"), options.get("operands", {})
    out, lse = attnjit.attention(q, k, v, **options, return_lse=True)
    dout = torch.randn_like(out)
    dlse = torch.randn_like(lse).where(lse.isfinite(), 0.0) if uses_lse else None
    named = {name: t for name, t in operands.items() if isinstance(t, torch.Tensor) and t.requires_grad}
    leaves = [q, k, v, *(t for t in (bias, sink) if t is not None), *named.values()]
    outputs, given = ((out, lse), (dout, dlse)) if uses_lse else ((out,), (dout,))
    expected = torch.autograd.grad(outputs, leaves, given)
    found = attnjit.attention_backward(
        q, k, v, out, lse, dout, dlse=dlse, **options, return_dbias=bias is not None, return_dsink=sink is not None,
        return_doperands=named,
    )  # fmt: skip
    assert (found.dbias is None, found.dsink is None) == (bias is None, sink is None)
    assert (found.doperands or {}).keys() == named.keys()
    found = [*found[:3], *(t for t in found[3:5] if t is not None), *(found.doperands or {}).values()]
    assert not any(t.requires_grad for t in found)
    torch.testing.assert_close(found, list(expected), rtol=0, atol=0)


def test_options_are_those_of_attention():
    """But for what a backward does not take or returns itself."""
    ours, theirs = (inspect.signature(f).parameters for f in (attnjit.attention_backward, attnjit.attention))
    forward_only = {"block_table", "tail_mask", "return_lse", "return_row_max", "return_max_logits"}
    own = {"out", "lse", "dout", "dlse", "return_dbias", "return_dsink", "return_doperands"}
    assert [name for name in ours if name not in own] == [name for name in theirs if name not in forward_only]
    assert all(ours[name].default == p.default for name, p in theirs.items() if name not in forward_only)


@pytest.mark.parametrize("uses_lse", [False, True])
def test_masks_biases_sinks(uses_lse):
    mask = torch.rand(B, 1, LQ, LK) > 0.3
    mask[0, 0, 2] = False
    check(
        *tensors(), uses_lse, mask=mask, bias=torch.randn(1, HKV, LQ, LK, requires_grad=True), softcap=3.0,
        sink=torch.randn(H, requires_grad=True), causal="bottom-right", scale=0.4,
    )  # fmt: skip
    check(*tensors(), uses_lse)


def test_slopes_windows_lengths():
    options = {"alibi_slopes": torch.rand(H), "window": (3, 1), "diagonal": "top-left", "diagonal_offset": 1}
    check(*tensors(), **options, seqlens_q=lengths(3, 5), seqlens_kv=lengths(7, 2).long())


def test_expressions():
    operands = {
        "rel": torch.randn(H, 5, requires_grad=True),
        "still": torch.randn(LK),
        "gate": torch.randn((), requires_grad=True),
        "n": 6,
    }
    check(
        *tensors(), score="(s + rel[h, clamp(j - i, -2, 2) + 2]) * sigmoid(gate) + still[j]", keep="j < n + i",
        operands=operands, row_offset=1,
    )  # fmt: skip


def test_packed_sequences():
    q, k, v = (t[:1] for t in tensors())
    bias = torch.randn(2, H, 3, 4, requires_grad=True)
    check(q, k, v, bias=bias, cu_seqlens_q=lengths(0, 2, 5), cu_seqlens_kv=lengths(0, 4, 7))


@pytest.mark.parametrize("shape", [(1, 3, 1, LQ, LK), (B, 1, H, LQ, LK), (3, H, 1, LK), (LQ, LK)], ids=str)
def test_more_batch_axes(shape):
    bias = torch.randn(shape, requires_grad=True)
    check(*tensors(B, 3), bias=bias, mask=torch.rand(B, 1, 1, LQ, LK) < 0.7)
    check(*tensors(B, 3), mask=attnjit.prepare_mask(torch.rand(1, 3, 1, LQ, LK) < 0.7, backward=True))


def test_a_bias_that_is_copied_over_batch_axes():
    _notes._note.cache_clear()
    with pytest.warns(UserWarning, match="bias: it has"):
        check(*tensors(2, 3, 2, 2), bias=torch.randn(1, 3, 1, 2, 1, LQ, LK, requires_grad=True))


def test_a_ring_of_two_shares():
    """Each share takes out and lse of all keys, and gives its part of the gradients."""
    q, k, v = tensors()
    bias = torch.randn(1, H, LQ, LK, requires_grad=True)
    dout, dlse = torch.randn(B, H, LQ, DV), torch.randn(B, H, LQ)
    outs = attnjit.attention(q, k, v, bias=bias, causal="top-left", return_lse=True)
    expected = torch.autograd.grad(outs, (q, k, v, bias), (dout, dlse))
    shares = slice(0, 3), slice(3, LK)
    with torch.no_grad():
        of = lambda s: {"bias": bias[..., s], "causal": "top-left", "diagonal_offset": -s.start}
        held = [(q, k[:, :, s], v[:, :, s]) for s in shares]
        parts = [attnjit.attention(*t, **of(s), return_lse=True) for t, s in zip(held, shares)]
        out, lse = attnjit.merge_lse(*(torch.stack(t) for t in zip(*parts)))
    (first, second) = (
        attnjit.attention_backward(*t, out, lse, dout, dlse=dlse, **of(s), return_dbias=True)
        for t, s in zip(held, shares)
    )
    found = [
        first.dq + second.dq,
        torch.cat([first.dk, second.dk], 2),
        torch.cat([first.dv, second.dv], 2),
        torch.cat([first.dbias, second.dbias], 3),
    ]
    torch.testing.assert_close(found, list(expected), rtol=1e-4, atol=1e-5)


def test_what_is_not_asked_for_is_none():
    q, k, v = tensors()
    bias, sink, x = (
        torch.randn(LQ, LK, requires_grad=True),
        torch.randn(H),
        torch.randn(LK, requires_grad=True),
    )
    options = {"bias": bias, "sink": sink, "score": "s + x[j]", "operands": {"x": x}}
    out, lse = attnjit.attention(q, k, v, **options, return_lse=True)
    found = attnjit.attention_backward(q, k, v, out, lse, torch.ones_like(out), **options)
    assert isinstance(found, attnjit.Gradients) and found[3:] == (None, None, None)
    assert [t.shape for t in found[:3]] == [t.shape for t in (q, k, v)]


def test_dsink_is_fp32_and_layouts_are_those_of_the_inputs():
    q, k, v = (t.detach().transpose(1, 2).contiguous().transpose(1, 2) for t in tensors())
    sink = torch.randn(H, dtype=torch.bfloat16)
    out, lse = attnjit.attention(q, k, v, sink=sink, return_lse=True)
    apart = lse.transpose(1, 2).contiguous().transpose(1, 2)
    found = attnjit.attention_backward(q, k, v, out, apart, out, dlse=apart, sink=sink, return_dsink=True)
    assert found.dsink.dtype == torch.float32
    assert all(t.transpose(1, 2).is_contiguous() for t in found[:3])


def test_compiled_code_and_fake_tensors():
    q, k, v = (t.detach() for t in tensors())
    bias = torch.randn(H, 1, LK)
    out, lse = attnjit.attention(q, k, v, bias=bias, return_lse=True)
    call = lambda *inputs: attnjit.attention_backward(*inputs, bias=bias, return_dbias=True)
    compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
    expected = call(q, k, v, out, lse, out)
    torch.testing.assert_close(compiled(q, k, v, out, lse, out), expected)
    with torch._subclasses.FakeTensorMode() as mode:
        fake = [mode.from_tensor(t) for t in (q, k, v, out, lse, out)]
        found = attnjit.attention_backward(*fake, bias=mode.from_tensor(bias), return_dbias=True)
    assert [t.shape for t in found[:4]] == [t.shape for t in expected[:4]]


@pytest.mark.parametrize("own", [None, False])
def test_deterministic(own, monkeypatch):
    from attnjit import _dispatch

    asked, backward = [], _dispatch.backward
    monkeypatch.setattr(_dispatch, "backward", lambda *a: asked.append(a[-2]) or backward(*a))
    q, k, v = tensors()
    out, lse = attnjit.attention(q, k, v, return_lse=True)
    torch.use_deterministic_algorithms(True)
    try:
        attnjit.attention_backward(q, k, v, out, lse, out, deterministic=own)
    finally:
        torch.use_deterministic_algorithms(False)
    assert asked == [own is None]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"out": None}, TypeError, "out: expected a tensor, not NoneType"),
        ({"dlse": 1.0}, TypeError, "dlse: expected a tensor, not float"),
        ({"lse": torch.ones(B, H, LQ + 1)}, ValueError, "lse: shape is .2, 4, 6.; expected .2, 4, 5."),
        ({"dout": torch.ones(B, H, LQ, DV + 1)}, ValueError, "dout: shape is"),
        ({"return_dbias": True}, ValueError, "return_dbias: the call has no bias"),
        ({"return_dsink": True}, ValueError, "return_dsink: the call has no sink"),
        ({"return_doperands": ["x"]}, ValueError, "return_doperands: 'x' is none of the operands"),
        ({"window": (1, 1)}, ValueError, "window: say diagonal"),
        ({"block_table": lengths(0)}, TypeError, "unexpected keyword argument 'block_table'"),
    ],
)
def test_what_is_refused(change, error, message):
    q, k, v = tensors()
    out, lse = attnjit.attention(q, k, v, return_lse=True)
    arguments = {"q": q, "k": k, "v": v, "out": out, "lse": lse, "dout": out}
    with pytest.raises(error, match=message):
        attnjit.attention_backward(**arguments | change)


def test_transforms_of_torch_func_are_refused():
    q, k, v = (t.detach() for t in tensors())
    out, lse = attnjit.attention(q, k, v, return_lse=True)
    with pytest.raises(NotImplementedError, match="torch.func"):
        torch.func.vmap(attnjit.attention_backward)(*(t[None] for t in (q, k, v, out, lse, out)))
