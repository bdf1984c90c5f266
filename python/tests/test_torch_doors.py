"""Doors for callers that stay as they are, as far as they go without a GPU."""

import gc
import warnings
from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import attnjit
import attnjit.torch
from attnjit import _call, _described, _notes
from attnjit.doors import _cudnn_operators, _efficient_operators, _flash_operators, _sdpa_mode, _support

aten = torch.ops.aten
EFFICIENT = "aten::_scaled_dot_product_efficient_attention"
FLASH = "aten::_scaled_dot_product_flash_attention"
CUDNN = "aten::_scaled_dot_product_cudnn_attention"


def kernel(name):
    """Where the kernel of an operator comes from."""
    return repr(torch.library.get_kernel(name, "CUDA"))


def test_install_and_remove():
    names = (EFFICIENT, f"{EFFICIENT}_backward", CUDNN, f"{CUDNN}_backward", FLASH)
    before = {name: kernel(name) for name in names}
    installation = attnjit.torch.install(unmasked=False)
    assert torch.backends.cuda.cudnn_sdp_enabled()
    assert {name for name in names if kernel(name) != before[name]} == {*names} - {FLASH}
    installation.remove()
    with attnjit.torch.install(masked=False, unmasked=True):
        assert kernel(FLASH) != before[FLASH] and kernel(EFFICIENT) == before[EFFICIENT]
    installation.remove()
    installation.remove()
    assert {name: kernel(name) for name in before} == before


def test_install_lasts_without_a_reference():
    before = kernel(EFFICIENT)
    attnjit.torch.install()
    gc.collect()
    assert kernel(EFFICIENT) != before
    for installation in list(attnjit.torch.Installation._in_place):
        installation.remove()
    assert kernel(EFFICIENT) == before


def test_the_registry_of_flash_attention():
    from torch.nn import attention

    before = kernel(FLASH)
    assert "attnjit" in attention.list_flash_attention_impls()
    assert attention.current_flash_attention_impl() is None
    attention.activate_flash_attention_impl("attnjit")
    assert kernel(FLASH) != before
    attention.restore_flash_attention_impl()
    assert kernel(FLASH) == before


def test_a_pytorch_without_get_kernel(monkeypatch):
    before = kernel(EFFICIENT)
    monkeypatch.delattr(torch.library, "get_kernel")
    with pytest.raises(RuntimeError, match="cannot override operators of PyTorch"):
        attnjit.torch.install()
    monkeypatch.undo()
    assert kernel(EFFICIENT) == before


@pytest.fixture
def no_kernels(monkeypatch):
    """Calls that allocate their results and compute nothing."""
    no_module = SimpleNamespace(enqueue_forward=lambda *_: None, enqueue_backward=lambda *_: None)
    monkeypatch.setattr(_described, "_native", no_module)
    monkeypatch.setattr(_call, "_calls", _described)
    monkeypatch.setattr(_call, "context", lambda: None)


def metadata(results):
    return [
        (t.shape, t.stride(), t.dtype) if isinstance(t, torch.Tensor) else t for t in results if t is not None
    ]


def random(*shape, order=(0, 1, 2, 3), dtype=torch.bfloat16):
    """Memory in this order of the axes."""
    inverse = [order.index(axis) for axis in range(4)]
    return torch.zeros([shape[axis] for axis in order], dtype=dtype).permute(inverse)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3)])
@pytest.mark.parametrize(("rows", "keys"), [(64, 64), (33, 70)])
def test_results_have_the_layout_that_pytorch_declares(no_kernels, order, rows, keys):
    q = random(2, 4, rows, 16, order=order)
    k, v = random(2, 4, keys, 16, order=order), random(2, 4, keys, 16, order=order)
    to_meta = lambda *tensors: [t.to("meta") if isinstance(t, torch.Tensor) else t for t in tensors]
    bias = torch.zeros(1, 1, rows, keys, dtype=torch.bfloat16).expand(2, 4, rows, keys)

    for arguments in ((q, k, v, bias, True), (q, k, v, None, False)):
        found = _efficient_operators._forward(*arguments)
        expected = aten._scaled_dot_product_efficient_attention(*to_meta(*arguments))
        assert metadata(found) == metadata(expected)
    out, lse, seed, offset = _efficient_operators._forward(q, k, v, bias, True)
    for wants_dbias in (True, False):
        arguments = (out, q, k, v, bias, out, lse, seed, offset, 0.0, [True, True, True, wants_dbias])
        found = _efficient_operators._backward(*arguments)
        expected = aten._scaled_dot_product_efficient_attention_backward(*to_meta(*arguments))
        assert metadata(found) == metadata(expected)

    found = _cudnn_operators._forward(q, k, v, bias, True)
    assert metadata(found) == metadata(
        aten._scaled_dot_product_cudnn_attention(*to_meta(q, k, v, bias, True))
    )
    out, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = found
    arguments = (out, q, k, v, out, lse, seed, offset, bias, cum_q, cum_k, max_q, max_k, 0.0, False)
    found = _cudnn_operators._backward(*arguments)
    expected = aten._scaled_dot_product_cudnn_attention_backward(*to_meta(*arguments))
    assert metadata(found) == metadata(expected)

    found = _flash_operators._sdpa_forward(q, k, v)
    assert metadata(found) == metadata(aten._scaled_dot_product_flash_attention(*to_meta(q, k, v)))
    out, lse, *_ = found
    seed, offset = found[6:8]
    arguments = (out, q, k, v, out, lse, None, None, rows, keys, 0.0, False, seed, offset)
    found = _flash_operators._sdpa_backward(*arguments)
    expected = (q, k, v)
    assert metadata(found) == metadata(torch.empty_like(t) for t in expected)

    bshd = tuple(t.transpose(1, 2) for t in (q, k, v))
    arguments = (*bshd, None, None, rows, keys, 0.0, False, False)
    found = _flash_operators._flash_forward(*arguments)
    assert metadata(found) == metadata(aten._flash_attention_forward(*to_meta(*arguments)))
    out, lse, seed, offset, _ = found
    arguments = (out, *bshd, out, lse, None, None, rows, keys, 0.0, False, seed, offset)
    found = _flash_operators._flash_backward(*arguments)
    assert metadata(found) == metadata(torch.empty_like(t) for t in bshd)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3)])
def test_cudnn_results_of_another_width(no_kernels, order):
    q, v = random(2, 4, 33, 16, order=order), random(2, 4, 33, 24, order=order)
    expected = aten._scaled_dot_product_cudnn_attention(*(t.to("meta") for t in (q, q, v)), None, True)
    assert metadata(_cudnn_operators._forward(q, q, v, None, True)) == metadata(expected)


@pytest.fixture
def pretend_gpu(monkeypatch, cpu_kernels):
    """CPU tensors that pass for those of a supported GPU where support is decided."""
    monkeypatch.setattr(_support, "_is_supported_device", lambda index: True)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    from attnjit import _dispatch

    monkeypatch.setattr(_dispatch, "_is_plain", lambda *_: False)


def test_sdpa_mode(pretend_gpu):
    torch.manual_seed(0)
    q = torch.randn(1, 4, 8, 16, dtype=torch.bfloat16)
    k, v = (torch.randn(1, 2, 8, 16, dtype=torch.bfloat16) for _ in range(2))
    mask = torch.rand(1, 1, 8, 8) < 0.7
    mask[..., 0] = True
    expected = scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
    before = attnjit.served().get("sdpa_mode", {})
    with attnjit.sdpa_mode():
        out = scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        scaled_dot_product_attention(q.float(), q.float(), q.float())
        scaled_dot_product_attention(q, q, q, dropout_p=0.5)
    scaled_dot_product_attention(q, q, q)
    torch.testing.assert_close(out, expected, rtol=2e-2, atol=2e-2)
    after = attnjit.served()["sdpa_mode"]
    assert {name: after[name] - before.get(name, 0) for name in after} == {
        "served": 1,
        "dtype": 1,
        "dropout": 1,
    }


def test_a_call_that_is_handed_on_is_noted_once(pretend_gpu):
    _notes._note.cache_clear()
    q = torch.randn(1, 4, 8, 16, dtype=torch.bfloat16)

    def run():
        with attnjit.sdpa_mode():
            scaled_dot_product_attention(q, q, q, dropout_p=0.5)

    with pytest.warns(UserWarning, match=r"calls of 'sdpa_mode' on to other kernels \(dropout\); set the dropout"):
        run()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run()


def test_sdpa_mode_compiles_once():
    """Counts do not make a compiler trace a call again."""
    torch._dynamo.reset()

    @torch.compile(fullgraph=True, backend="eager")
    def call(q):
        with attnjit.sdpa_mode():
            return scaled_dot_product_attention(q, q, q)

    q = torch.randn(1, 2, 4, 8)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for _ in range(2):
            torch.testing.assert_close(call(q), scaled_dot_product_attention(q, q, q))


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        (None, {}),
        ("dropout", {"dropout_p": 0.1}),
        ("dtype", {"dtype": torch.float32}),
        ("shape", {"keys_of_v": 3}),
        ("shape", {"heads_kv": 3}),
        ("head dim", {"width": 512}),
    ],
)
def test_reasons(pretend_gpu, reason, change):
    dtype, width = change.get("dtype", torch.float16), change.get("width", 16)
    heads_kv = change.get("heads_kv", 2)
    q = torch.zeros(1, 4, 8, width, dtype=dtype)
    k = torch.zeros(1, heads_kv, 8, width, dtype=dtype)
    v = torch.zeros(1, heads_kv, change.get("keys_of_v", 8), width, dtype=dtype)
    assert _support.why_unserved(q, k, v, change.get("dropout_p", 0.0)) == reason


def cudnn_reasons(**served):
    """Of a call without a mask and of one with it."""
    q = torch.zeros(1, 4, 8, 16, dtype=torch.float16)
    forward = _cudnn_operators.overrides(**served)["_scaled_dot_product_cudnn_attention"]
    return [forward.why_not(q, q, q, mask, True) for mask in (None, q[..., :8])]


def test_reasons_of_single_doors(pretend_gpu):
    q = torch.zeros(1, 4, 8, 16, dtype=torch.float16)
    bounds = torch.zeros(2, dtype=torch.int32)
    arguments = (None, None, 8, 8, 0.0, False, False)
    assert _flash_operators._why_not_flash_forward(q, q, q, *arguments) is None
    assert _flash_operators._why_not_flash_forward(q, q, q, bounds, *arguments[1:]) == "packed sequences"
    assert _flash_operators._why_not_flash_forward(q, q, q, *arguments, seqused_k=bounds) == "seqused_k"
    assert _flash_operators._why_not_sdpa_forward(q, q, q, 0.0, False, True) == "debug mask"
    assert _flash_operators._why_not_sdpa_forward(q, q[..., ::2, :].mT.mT, q[..., ::2, :]) is None
    assert _flash_operators._why_not_sdpa_forward(q, q[:, :1].expand(1, 4, 8, 16), q) == "strides"
    assert _efficient_operators._why_not(q, q, q, q.double(), 0.0) == "dtype of the bias"
    assert cudnn_reasons(masked=True, unmasked=True) == [None, None]
    assert cudnn_reasons(masked=True, unmasked=False) == ["no mask", None]
    assert cudnn_reasons(masked=False, unmasked=True) == [None, "mask"]
    assert _sdpa_mode._why_not(q, q, q, attn_mask=q, is_causal=True) == "arguments"
    assert _sdpa_mode._why_not(q, q[:, :2], q[:, :2]) == "arguments"
