"""torch.compile, fake tensors, modes and opcheck on CPU tensors."""

import pytest
import torch
from torch._subclasses import FakeTensorMode

import attnjit
from attnjit import _dispatch
from attnjit._call import Operands
from attnjit._scalars import TOP_LEFT, Scalars

pytestmark = pytest.mark.usefixtures("cpu_kernels")

B, H, HKV, L, D = 2, 4, 2, 6, 8


def tensors(length=L):
    torch.manual_seed(0)
    q = torch.randn(B, length, H, D).transpose(1, 2).requires_grad_()
    k, v = (torch.randn(B, HKV, length, D, requires_grad=True) for _ in range(2))
    mask = (torch.rand(B, 1, 1, length) > 0.3).expand(B, 1, length, length)
    bias = torch.randn(1, H, length, length, requires_grad=True)
    sink = torch.randn(H, requires_grad=True)
    return q, k, v, mask, bias, sink


def loss(q, k, v, mask, bias, sink):
    out, lse, row_max, max_logits = attnjit.attention(
        q,
        k,
        v,
        mask=mask,
        bias=bias,
        sink=sink,
        alibi_slopes=sink.detach(),
        causal="top-left",
        return_lse=True,
        return_row_max=True,
        return_max_logits=True,
    )
    of_rows = sum(torch.where(t.isfinite(), t, 0).sum() for t in (lse, row_max))
    return out.square().sum() + of_rows + max_logits.sum()


@pytest.mark.parametrize("dynamic", [False, True])
def test_full_graph_forward_and_backward(dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for length in (L, 9) if dynamic else (L,):
        inputs = tensors(length)
        leaves = [t for t in inputs if t.requires_grad]
        value, expected = compiled(*inputs), loss(*inputs)
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(torch.autograd.grad(value, leaves), torch.autograd.grad(expected, leaves))


def test_a_window_that_is_symbolic():
    torch._dynamo.reset()
    call = lambda q, k, v: attnjit.flash_attn_func(q, k, v, window_size=(q.shape[1] // 2, 0))
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager", dynamic=True)
    for length in (L, 9):
        inputs = [t.detach().transpose(1, 2) for t in tensors(length)[:3]]
        torch.testing.assert_close(compiled(*inputs), call(*inputs))


@pytest.mark.parametrize("door", ["sdpa", "flash_attn_func"])
def test_full_graph_of_the_other_doors(door):
    torch._dynamo.reset()
    q, k, v, mask, *_ = tensors()
    if door == "sdpa":
        call = lambda: attnjit.sdpa(q, k, v, mask, enable_gqa=True)
    else:
        call = lambda: attnjit.flash_attn_func(*(t.transpose(1, 2) for t in (q, k, v)), causal=True)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(call, fullgraph=True, backend="aot_eager")(), call())


def test_fake_tensors_have_the_layout_of_real_ones():
    q, k, v, mask, bias, _ = tensors()
    more = {"return_lse": True, "return_row_max": True, "return_max_logits": True}
    call = lambda: attnjit.attention(q, k, v, mask=mask, bias=bias, **more)
    results = call()
    with FakeTensorMode(allow_non_fake_inputs=True):
        fakes = call()
    for real, fake in zip(results, fakes, strict=True):
        assert (real.shape, real.stride(), real.dtype) == (fake.shape, fake.stride(), fake.dtype)


@pytest.mark.parametrize("need", [False, True])
def test_opcheck(need):
    q, k, v, mask, bias, sink = (t.detach() for t in tensors())
    operands, scalars = (
        Operands(mask, bias, sink, torch.rand(B, H)),
        Scalars(causal=True, diagonal=TOP_LEFT),
    )
    forward = (q, k, v, *operands, *scalars, need, need, need, need)
    torch.library.opcheck(torch.ops.attnjit.forward.default, forward)
    out, lse, *_ = torch.ops.attnjit.forward(q, k, v, *operands, *scalars, True, False, False, need)
    dlse = torch.randn_like(lse) if need else None
    backward = (torch.randn_like(out), dlse, q, k, v, out, lse, *operands, *scalars, need, need, True, ())
    torch.library.opcheck(torch.ops.attnjit.backward.default, backward)


def test_what_takes_the_short_way(monkeypatch):
    """Plain tensors and parameters of a GPU only: neither subclasses, nor modes, nor other devices."""
    on_gpu = torch.Tensor.is_cuda
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    plain, parameter = torch.zeros(1), torch.nn.Parameter(torch.zeros(1))
    subclass = torch.zeros(1).as_subclass(type("Subclass", (torch.Tensor,), {}))
    assert _dispatch._is_plain(plain, parameter, None)
    assert not _dispatch._is_plain(plain, subclass)
    with FakeTensorMode():
        assert not _dispatch._is_plain(plain)
    monkeypatch.setattr(torch.Tensor, "is_cuda", on_gpu)
    assert not _dispatch._is_plain(plain)
