"""Doors for callers that stay as they are, on a GPU: scaled_dot_product_attention against the formulas, and
bit-equal to PyTorch's own after all is removed."""

import pytest
import torch
from torch.nn.attention import (
    SDPBackend,
    activate_flash_attention_impl,
    restore_flash_attention_impl,
    sdpa_kernel,
)
from torch.nn.functional import scaled_dot_product_attention

import attnjit
import attnjit.torch
from attnjit._call import Operands
from attnjit._scalars import NO_DIAGONAL, TOP_LEFT, Scalars
from attnjit.doors import _efficient_operators

import accuracy

pytestmark = pytest.mark.gpu


def tensors(rows=130, keys=130, heads_kv=4, width=64, dtype=torch.bfloat16):
    torch.manual_seed(0)
    make = lambda heads, length: torch.randn(2, length, heads, width, dtype=dtype, device="cuda")
    q, k, v = make(4, rows), make(heads_kv, keys), make(heads_kv, keys)
    return [t.transpose(1, 2).requires_grad_() for t in (q, k, v)]


def served(door):
    return attnjit.served().get(door, {}).get("served", 0)


def check(door, out, q, k, v, mask, bias, is_causal, passes=2):
    dout = torch.randn_like(out)
    leaves = [t for t in (q, k, v, bias) if t is not None and t.requires_grad]
    before = served(door)
    found = torch.autograd.grad(out, leaves, dout)
    assert served(door) == before + passes - 1
    gradients = (*found, None) if len(found) == 3 else found
    scalars = Scalars(None, is_causal, TOP_LEFT if is_causal else NO_DIAGONAL)
    accuracy.check((q, k, v, Operands(mask, bias), scalars), out, None, gradients, dout)


@pytest.fixture(params=["activate", "install"])
def flash(request):
    if request.param == "activate":
        activate_flash_attention_impl("attnjit")
        yield
        restore_flash_attention_impl()
    else:
        with attnjit.torch.install(masked=False, unmasked=True):
            yield


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_flash(flash, is_causal, dtype):
    for width in (64, 40):
        q, k, v = tensors(width=width, dtype=dtype)
        before = served("flash")
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            out = scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        assert served("flash") == before + 1
        check("flash", out, q, k, v, None, None, is_causal)


def test_flash_with_grouped_heads(flash):
    q, k, v = tensors(heads_kv=2)
    before = served("flash")
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        out = scaled_dot_product_attention(q, k, v, enable_gqa=True)
    assert served("flash") == before + 1
    check("flash", out, q, k, v, None, None, False)


def operand(kind, keys=130, rows=130):
    if kind == "mask":
        mask = torch.rand(2, 1, rows, keys, device="cuda") < 0.7
        mask[..., 0] = True
        return mask
    if kind == "padding":
        return (torch.arange(keys, device="cuda") < torch.tensor([[90], [130]], device="cuda"))[:, None, None]
    shape = {"bias": (2, 4, rows, keys), "1hqk": (1, 4, rows, keys), "11qk": (rows, keys)}[kind]
    return torch.randn(shape, dtype=torch.bfloat16, device="cuda", requires_grad=True)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", ["mask", "padding", "bias", "1hqk", "11qk"])
def test_efficient(kind, compiled):
    torch._dynamo.reset()
    call = (
        torch.compile(scaled_dot_product_attention, fullgraph=True)
        if compiled
        else scaled_dot_product_attention
    )
    q, k, v = tensors()
    attn_mask = operand(kind)
    with attnjit.torch.install(), sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        before = served("efficient")
        out = call(q, k, v, attn_mask)
        assert served("efficient") == before + 1
        is_mask = attn_mask.dtype == torch.bool
        mask, bias = (attn_mask, None) if is_mask else (None, attn_mask)
        check("efficient", out, q, k, v, mask, bias, False)


def test_whatever_backend_pytorch_prefers():
    q, k, v = tensors(rows=128, keys=128)
    total = lambda: sum(served(door) for door in ("efficient", "flash", "cudnn"))
    with attnjit.torch.install():
        for attn_mask in (operand("bias", 128, 128), operand("mask", 128, 128), None):
            before = total()
            scaled_dot_product_attention(q, k, v, attn_mask)
            with torch.no_grad():
                scaled_dot_product_attention(q, k, v, attn_mask)
            assert total() == before + 2


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", [None, "causal", "mask", "padding", "bias"])
def test_cudnn(kind, compiled):
    torch._dynamo.reset()
    call = scaled_dot_product_attention
    if compiled:
        call = torch.compile(call, fullgraph=True)
    for heads_kv in (4, 2):
        q, k, v = tensors(256, 256, heads_kv)
        is_causal = kind == "causal"
        attn_mask = None if kind in (None, "causal") else operand(kind, 256, 256).detach()
        is_mask = attn_mask is not None and attn_mask.dtype == torch.bool
        mask, bias = (attn_mask, None) if is_mask else (None, attn_mask)
        with attnjit.torch.install(), sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            before = served("cudnn")
            out = call(q, k, v, attn_mask, is_causal=is_causal, enable_gqa=heads_kv != 4)
            assert served("cudnn") == before + 1
            check("cudnn", out, q, k, v, mask, bias, is_causal)


@pytest.mark.parametrize(("rows", "keys"), [(1, 130), (33, 64), (192, 192)])
def test_efficient_of_other_lengths(rows, keys):
    """192 is 64 past a multiple of 128."""
    q, k, v = tensors(rows, keys)
    mask = operand("mask", keys, rows)
    with attnjit.torch.install(), sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        check("efficient", scaled_dot_product_attention(q, k, v, mask), q, k, v, mask, None, False)


def test_what_arrives_at_the_efficient_operator(monkeypatch):
    arrived = []
    why_not = _efficient_operators._why_not
    monkeypatch.setattr(
        _efficient_operators,
        "_why_not",
        lambda q, k, v, bias, p: arrived.append(bias) or why_not(q, k, v, bias, p),
    )
    q, k, v = (t.detach() for t in tensors())
    with attnjit.torch.install(), sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        for kind in ("mask", "padding", "11qk"):
            scaled_dot_product_attention(q, k, v, operand(kind).detach())
    mask, padding, matrix = arrived
    # A bool mask comes as 0 and -inf in q's dtype; axes that broadcast, with stride 0.
    for bias in arrived:
        assert bias.dtype == q.dtype and bias.shape == (2, 4, 130, 130)
    assert set(mask.unique().tolist()) == {0.0, -torch.inf}
    assert (mask.stride(1), padding.stride(1), padding.stride(2)) == (0, 0, 0)
    assert (matrix.stride(0), matrix.stride(1)) == (0, 0)


def test_grouped_heads_with_a_mask():
    q, k, v = tensors(heads_kv=2)
    mask, bias = operand("mask"), operand("1hqk")
    with attnjit.sdpa_mode():
        for attn_mask in (mask, bias):
            before = served("sdpa_mode")
            out = scaled_dot_product_attention(q, k, v, attn_mask, enable_gqa=True)
            assert served("sdpa_mode") == before + 1
            is_mask = attn_mask is mask
            check("sdpa_mode", out, q, k, v, mask if is_mask else None, None if is_mask else bias, False, 1)


def all_results():
    """Results and gradients of PyTorch's own kernels of both operators, served or not by attnjit."""
    results = []
    for backend, attn_mask in (
        (SDPBackend.FLASH_ATTENTION, None),
        (SDPBackend.EFFICIENT_ATTENTION, operand("mask")),
        (SDPBackend.EFFICIENT_ATTENTION, operand("1hqk")),
    ):
        for dropout_p in (0.0, 0.2):
            q, k, v = tensors()
            torch.manual_seed(1)
            with sdpa_kernel(backend):
                out = scaled_dot_product_attention(q, k, v, attn_mask, dropout_p)
            results += [
                (dropout_p, t) for t in (out, *torch.autograd.grad(out.float().square().sum(), (q, k, v)))
            ]
    return results


def test_bits_are_pytorchs_again_and_while_passed_on():
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        torch.manual_seed(0)
        expected = all_results()
        with attnjit.torch.install(unmasked=True):
            torch.manual_seed(0)
            inside = all_results()
        torch.manual_seed(0)
        after = all_results()
    finally:
        torch.use_deterministic_algorithms(False)
    counts = attnjit.served()
    assert counts["efficient"]["dropout"] >= 4 and counts["flash"]["dropout"] >= 2
    for (dropout_p, a), (_, b), (_, c) in zip(expected, inside, after, strict=True):
        assert torch.equal(a, c)
        assert dropout_p == 0 or torch.equal(a, b)


def test_bits_of_cudnn_after_removal():
    """Of its forward; that its backward repeats its bits, PyTorch does not say."""
    q, k, v = (t.detach() for t in tensors(256, 256))
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        expected = scaled_dot_product_attention(q, k, v)
        with attnjit.torch.install(unmasked=False):
            passed_on = scaled_dot_product_attention(q, k, v)
        after = scaled_dot_product_attention(q, k, v)
    assert attnjit.served()["cudnn"]["no mask"] >= 1
    assert torch.equal(passed_on, expected) and torch.equal(after, expected)
