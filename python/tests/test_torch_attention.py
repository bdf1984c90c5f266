"""attnjit.attention, sdpa and flash_attn_func on CPU tensors: arguments, gradients, layouts."""

import warnings

import pytest
import torch

import attnjit
from attnjit import _call, _dispatch, _native
from attnjit._attention import scalars_of
from attnjit._call import Operands
from attnjit._scalars import BOTTOM_RIGHT, TOP_LEFT, Scalars

import formulas

pytestmark = pytest.mark.usefixtures("cpu_kernels")

B, H, HKV, LQ, LK, D, DV = 2, 4, 2, 5, 7, 8, 16
OPEN = Scalars()


def tensors(dtype=torch.float32, requires_grad=True):
    torch.manual_seed(0)
    shapes = (B, H, LQ, D), (B, HKV, LK, D), (B, HKV, LK, DV)
    return [torch.randn(shape, dtype=dtype, requires_grad=requires_grad) for shape in shapes]


def gradients(loss, *leaves):
    return torch.autograd.grad(loss, leaves)


def assert_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.double(), b.double(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("heads", [1, HKV, H])
def test_mask_and_bias_with_grouped_heads(heads):
    q, k, v = tensors()
    mask = torch.rand(B, 1, LQ, LK) > 0.3
    mask[0, 0, 2] = False  # a dead row
    bias = torch.randn(1, heads, LQ, LK, requires_grad=True)
    out, lse = attnjit.attention(q, k, v, mask=mask, bias=bias, causal="bottom-right", return_lse=True)
    expected = formulas.attend(q, k, v, Operands(mask, bias), Scalars(None, True, BOTTOM_RIGHT))
    assert_same((out, lse), expected)
    assert out[0, :, 2].abs().max() == 0 and lse[0, :, 2].max() == -torch.inf

    weights = torch.randn_like(out)
    loss, loss_expected = (
        (o * weights).sum() + torch.where(s.isfinite(), s, 0).sin().sum() for o, s in ((out, lse), expected)
    )
    assert_same(gradients(loss, q, k, v, bias), gradients(loss_expected, q, k, v, bias))


def test_only_the_bias_requires_grad():
    q, k, v = tensors(requires_grad=False)
    bias = torch.randn(LQ, LK, requires_grad=True)
    out = attnjit.attention(q, k, v, bias=bias)
    expected, _ = formulas.attend(q, k, v, Operands(bias=bias), OPEN)
    weights = torch.randn_like(out)
    assert_same(gradients((out * weights).sum(), bias), gradients((expected * weights).sum(), bias))


def test_only_lse_is_used():
    q, k, v = tensors()
    _, lse = attnjit.attention(q, k, v, return_lse=True)
    _, expected = formulas.attend(q, k, v, Operands(), OPEN)
    assert_same(gradients(lse.sum(), q, k), gradients(expected.sum(), q, k))


@pytest.mark.parametrize("need_lse", [False, True])
@pytest.mark.parametrize("asked", [("row_max",), ("max_logits",), ("row_max", "max_logits")])
def test_largest_scores_of_rows_and_heads(asked, need_lse):
    """Beside a sink, which is no key's, a dead row and a dead head; without a gradient, and in nobody's way."""
    q, k, v = tensors()
    mask = torch.rand(B, H, LQ, LK) > 0.3
    mask[0, :, 2] = mask[:, 1] = False
    bias = torch.randn(1, H, LQ, LK, requires_grad=True)
    sink = torch.full((H,), 90.0)
    operands, scalars = Operands(mask, bias, sink), Scalars(-0.7, softcap=2.0)
    wanted = {f"return_{name}": True for name in asked}
    out, *more = attnjit.attention(
        q, k, v, mask=mask, bias=bias, sink=sink, scale=-0.7, softcap=2.0, return_lse=need_lse, **wanted
    )
    found = dict(zip(asked, more[need_lse:], strict=True))
    for name, largest in found.items():
        assert largest.dtype == torch.float32 and not largest.requires_grad
        assert_same((largest,), (getattr(formulas, name)(q, k, operands, scalars),))
    if "row_max" in found:
        of_rows = found["row_max"]
        assert of_rows.shape == (B, H, LQ) and of_rows[0, :, 2].max() == of_rows[:, 1].max() == -torch.inf
    if "max_logits" in found:
        assert found["max_logits"].shape == (H,) and found["max_logits"][1] == -torch.inf
    expected, _ = formulas.attend(q, k, v, operands, scalars)
    assert_same(
        gradients(out.square().sum(), q, k, v, bias), gradients(expected.square().sum(), q, k, v, bias)
    )
    with torch.no_grad():
        _, *again = attnjit.attention(q, k, v, mask=mask, bias=bias, scale=-0.7, softcap=2.0, **wanted)
    assert all(map(torch.equal, again, found.values())) and len(again) == len(found)


def test_expanded_bias_and_expanded_dout():
    q, k, v = tensors()
    bias = torch.randn(1, 1, LQ, LK, requires_grad=True)
    out = attnjit.attention(q, k, v, bias=bias.expand(B, H, LQ, LK))
    expected, _ = formulas.attend(q, k, v, Operands(bias=bias), OPEN)
    assert_same(gradients(out.sum(), q, k, v, bias), gradients(expected.sum(), q, k, v, bias))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sinks(dtype):
    """Of any size, where rows keep nothing and where rows are not in use."""
    q, k, v = tensors()
    mask = torch.rand(B, 1, LQ, LK) > 0.3
    mask[0, 0, 2] = False
    rows = torch.tensor([4, 5], dtype=torch.int32)
    bias = torch.randn(1, H, LQ, 1, requires_grad=True)
    sink = torch.tensor([0.5, -torch.inf, 80.0, -1e30], dtype=dtype, requires_grad=True)
    out, lse = attnjit.attention(q, k, v, mask=mask, bias=bias, sink=sink, seqlens_q=rows, return_lse=True)
    expected = formulas.attend(q, k, v, Operands(mask, bias, sink, seqlens_q=rows), OPEN)
    assert_same((out, lse), expected)
    assert out[0, :, 2].abs().max() == 0 and torch.equal(lse[0, :, 2], sink.float())
    assert lse[0, :, 4].max() == -torch.inf

    weights = torch.randn_like(out)
    loss, loss_expected = (
        (o * weights).sum() + torch.where(s.abs() < 1e3, s, 0).sin().sum() for o, s in ((out, lse), expected)
    )
    found = gradients(loss, q, k, v, bias, sink)
    assert found[4].dtype == dtype
    close = 1e-2 if dtype == torch.bfloat16 else 1e-5
    expected = gradients(loss_expected, q, k, v, bias, sink)
    assert_same(found[:4], expected[:4])
    torch.testing.assert_close(found[4], expected[4], rtol=close, atol=close)


@pytest.mark.parametrize("shape", [(H,), (B, H)])
def test_slopes(shape):
    q, k, v = tensors()
    slopes = torch.randn(shape)
    mask = torch.rand(B, 1, LQ, LK) > 0.3
    out = attnjit.attention(
        q, k, v, mask=mask, alibi_slopes=slopes, diagonal="bottom-right", diagonal_offset=1
    )
    scalars = Scalars(diagonal=BOTTOM_RIGHT, diagonal_offset=1)
    expected, _ = formulas.attend(q, k, v, Operands(mask, alibi_slopes=slopes), scalars)
    assert_same((out,), (expected,))
    assert_same(gradients(out.square().sum(), q, k, v), gradients(expected.square().sum(), q, k, v))


def test_slopes_of_a_causal_row_are_a_bias_of_its_keys():
    q, k, v = tensors(requires_grad=False)
    slopes = 0.5 ** torch.arange(1, H + 1)
    bias = slopes[:, None, None] * torch.arange(LK)
    expected = attnjit.attention(q, k, v, bias=bias, causal="bottom-right")
    assert_same((attnjit.attention(q, k, v, alibi_slopes=slopes, causal="bottom-right"),), (expected,))
    flash = attnjit.flash_attn_func(*(t.transpose(1, 2) for t in (q, k, v)), causal=True, alibi_slopes=slopes)
    assert_same((flash.transpose(1, 2),), (expected,))


def test_only_the_sink_requires_grad():
    q, k, v = tensors(requires_grad=False)
    sink = torch.randn(H, requires_grad=True)
    expected, _ = formulas.attend(q, k, v, Operands(sink=sink), OPEN)
    out = attnjit.attention(q, k, v, sink=sink)
    assert_same(gradients(out.square().sum(), sink), gradients(expected.square().sum(), sink))


@pytest.mark.parametrize(
    ("options", "scalars"),
    [
        ({"window": (1, 2), "diagonal": "top-left"}, Scalars(None, False, TOP_LEFT, 1, 2)),
        ({"window": (1, -1), "causal": "bottom-right"}, Scalars(None, True, BOTTOM_RIGHT, 1)),
        (
            {"causal": "top-left", "diagonal": "top-left", "scale": 0.3},
            Scalars(0.3, True, TOP_LEFT),
        ),
        (
            {"causal": "bottom-right", "diagonal_offset": -2},
            Scalars(None, True, BOTTOM_RIGHT, diagonal_offset=-2),
        ),
        ({"softcap": 0.5, "scale": 2.0}, Scalars(2.0, softcap=0.5)),
    ],
)
def test_windows_and_scale(options, scalars):
    q, k, v = tensors(requires_grad=False)
    expected, _ = formulas.attend(q, k, v, Operands(), scalars)
    assert_same((attnjit.attention(q, k, v, **options),), (expected,))


@pytest.mark.parametrize(
    "window",
    [torch.tensor([1, 2]), (torch.tensor(1, dtype=torch.int32), torch.tensor(2)), [True, torch.tensor(2)]],
)
def test_windows_of_tensors(window):
    """As FlashAttention's tests pass them."""
    check_window(window)


def test_windows_of_numpy():
    numpy = pytest.importorskip("numpy")
    check_window((numpy.int64(1), numpy.uint8(2)))
    check_window(numpy.array([1, 2], dtype=numpy.int32))
    q, k, v = tensors(requires_grad=False)
    for floats in ((numpy.float32(1), 2), numpy.array([1.0, 2.0])):
        with pytest.raises(TypeError, match="window: .*; expected .left, right., two integers"):
            attnjit.attention(q, k, v, window=floats, diagonal="top-left")


def check_window(window):
    """Every door takes it for (1, 2)."""
    scalars = scalars_of(None, None, window, "top-left")
    assert (scalars.window_left, scalars.window_right) == (1, 2)
    assert all(isinstance(side, int) for side in scalars[3:5])
    q, k, v = tensors(requires_grad=False)
    expected = attnjit.attention(q, k, v, window=(1, 2), diagonal="bottom-right")
    assert_same((attnjit.attention(q, k, v, window=window, diagonal="bottom-right"),), (expected,))
    sequence_major = [t.transpose(1, 2) for t in (q, k, v)]
    doors = (attnjit.flash_attn_func, attnjit.flash_attn_with_kvcache)
    for found in (door(*sequence_major, window_size=window) for door in doors):
        assert_same((found.transpose(1, 2),), (expected,))
    one = [t[:1] for t in (q, k, v)]
    packed = [t[0].transpose(0, 1) for t in one]
    begins = (torch.tensor([0, length], dtype=torch.int32) for length in (LQ, LK))
    found = attnjit.flash_attn_varlen_func(*packed, *begins, window_size=window)
    assert_same((found.transpose(0, 1),), (expected[0],))


def test_a_window_of_tensors_that_is_open():
    q, k, v = tensors(requires_grad=False)
    sequence_major = [t.transpose(1, 2) for t in (q, k, v)]
    found = attnjit.flash_attn_func(*sequence_major, window_size=torch.tensor([-1, -1]))
    assert_same((found,), (attnjit.flash_attn_func(*sequence_major),))
    with pytest.raises(TypeError, match="window_size: .0.5, 1.; expected .left, right., two integers"):
        attnjit.flash_attn_func(*sequence_major, window_size=(0.5, 1))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_lengths(dtype):
    q, k, v = tensors(requires_grad=False)
    rows, keys = torch.tensor([3, 5], dtype=dtype), torch.tensor([7, 2], dtype=dtype)
    out = attnjit.attention(q, k, v, seqlens_q=rows, seqlens_kv=keys)
    assert_same((out,), (formulas.attend(q, k, v, Operands(seqlens_q=rows, seqlens_kv=keys), OPEN)[0],))
    assert out[0, :, 3:].abs().max() == 0


def test_rows_whose_elements_are_apart():
    q, k, v = tensors(requires_grad=False)
    apart = q.transpose(-1, -2).contiguous().transpose(-1, -2).requires_grad_()
    assert apart.stride(-1) != 1
    out = attnjit.attention(apart, k, v)
    assert_same((out,), (attnjit.attention(q, k, v),))
    (dq,) = gradients(out.square().sum(), apart)
    assert dq.shape == q.shape


def test_results_are_in_the_order_of_q_and_of_each_input():
    q, k, v = (t.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for t in tensors())
    out = attnjit.attention(q, k, v)
    assert out.transpose(1, 2).is_contiguous()
    for gradient in gradients(out.sum(), q, k, v):
        assert gradient.transpose(1, 2).is_contiguous()


def test_autocast_makes_16_bit_of_fp32_and_leaves_the_bias():
    q, k, v = tensors()
    bias = torch.randn(LQ, LK, requires_grad=True)
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    torch.set_autocast_enabled("cuda", True)  # torch.autocast refuses without a GPU
    try:
        out = attnjit.attention(q, k, v, bias=bias)
    finally:
        torch.set_autocast_enabled("cuda", False)
    assert out.dtype == torch.bfloat16
    dtypes = [g.dtype for g in gradients(out.float().sum(), q, k, v, bias)]
    assert dtypes == [torch.float32] * 4


@pytest.mark.parametrize(("warn_only", "own"), [(False, None), (True, None), (True, False)])
def test_deterministic_algorithms(warn_only, own, monkeypatch):
    """The kernels are told and nothing warns, also where PyTorch's would."""
    asked = []
    backward = _dispatch.backward
    monkeypatch.setattr(_dispatch, "backward", lambda *a: asked.append(a[-2]) or backward(*a))
    q, k, v = tensors()
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            attnjit.attention(q, k, v, deterministic=own).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert asked == [own is None]


def test_double_backward_raises():
    q, k, v = tensors()
    (dq,) = torch.autograd.grad(attnjit.attention(q, k, v).square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dq.sum().backward()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"causal": True}, "causal: True; expected None"),
        ({"causal": "top_left"}, "causal: 'top_left'; expected None"),
        ({"window": (1, 1)}, "window: say diagonal"),
        ({"window": (-2, 1), "diagonal": "top-left"}, "window: .-2, 1.; expected sides"),
        ({"causal": "top-left", "diagonal": "bottom-right"}, "name one, or the same"),
    ],
)
def test_options_that_are_refused(options, message):
    q, k, v = tensors(requires_grad=False)
    with pytest.raises(ValueError, match=message):
        attnjit.attention(q, k, v, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": [1]}, "q: expected a tensor, not list"),
        ({"k": None}, "k: expected a tensor, not NoneType"),
        ({"mask": [True]}, "mask: expected a tensor, not list"),
        ({"sink": 0.5}, "sink: expected a tensor, not float"),
        ({"alibi_slopes": [0.5]}, "alibi_slopes: expected a tensor, not list"),
        ({"bias": 0.5}, "bias: expected a tensor, not float"),
        ({"seqlens_kv": [1, 2]}, "seqlens_kv: expected a tensor, not list"),
        ({"window": 3, "diagonal": "top-left"}, "window: 3; expected .left, right., two integers"),
        ({"window": (1.5, 2), "diagonal": "top-left"}, "window: .1.5, 2.; expected"),
        ({"window": torch.tensor([1.0, 2.0]), "diagonal": "top-left"}, "window: tensor.*; expected"),
        ({"window": (1, torch.ones(2, dtype=int)), "diagonal": "top-left"}, "window: .1, tensor.*; expected"),
        ({"window": (1, 2, 3), "diagonal": "top-left"}, "window: .1, 2, 3.; expected"),
        ({"window": torch.tensor([1, 2, 3]), "diagonal": "top-left"}, "window: tensor.*; expected"),
        ({"window": torch.tensor(3), "diagonal": "top-left"}, "window: tensor.3.; expected"),
        ({"window": "12", "diagonal": "top-left"}, "window: '12'; expected"),
        ({"window": {1, 2}, "diagonal": "top-left"}, "window: {1, 2}; expected"),
        ({"window": {"left": 1, "right": 2}, "diagonal": "top-left"}, "window: {'left': 1.*; expected"),
    ],
)
def test_what_has_a_wrong_type(change, message):
    q, k, v = tensors(requires_grad=False)
    with pytest.raises(TypeError, match=message):
        attnjit.attention(**{"q": q, "k": k, "v": v} | change)


def test_the_module_reads_pytorchs_tensors():
    """By PyTorch's own exchange API, as far as a device that is none of a GPU."""
    assert type(torch.Tensor.__dlpack_c_exchange_api__).__name__ == "PyCapsule"
    q, k, v = tensors(torch.bfloat16)
    context = _native.create_context(None, None, None, _call._DTYPES)
    with pytest.raises(ValueError, match="q: it is not on a CUDA device"):
        _native.forward(context, q, k, v, *Operands(), OPEN, *_call.OUTPUT_ALONE, None)


def test_lengths_of_a_wrong_dtype_are_refused():
    q, k, v = tensors(requires_grad=False)
    with pytest.raises(TypeError, match="seqlens_kv: dtype is torch.float32; expected int32"):
        attnjit.attention(q, k, v, seqlens_kv=torch.ones(B))


def test_transforms_of_torch_func_are_refused():
    q, k, v = tensors(requires_grad=False)
    with pytest.raises(NotImplementedError, match="torch.func"):
        torch.func.vmap(attnjit.attention)(q[None], k[None], v[None])
    with pytest.raises(NotImplementedError, match="torch.func"):
        torch.func.grad(lambda x: attnjit.attention(x, k, v).sum())(q)


def test_sdpa_agrees_with_torch():
    q, k, v = tensors()
    mask = torch.rand(B, 1, LQ, LK) > 0.3
    mask[..., 0] = True
    bias = torch.randn(1, H, LQ, LK)
    for options in ({"attn_mask": mask}, {"attn_mask": bias}, {"is_causal": True}, {"scale": 0.2}):
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)
        assert_same((attnjit.sdpa(q, k, v, enable_gqa=True, **options),), (expected,))
    q, k, v = q[:, 0], k[:, 0], v[:, 0]
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask[:, 0])
    assert_same((attnjit.sdpa(q, k, v, mask[:, 0]),), (expected,))


def test_sdpa_of_ranks_that_differ():
    q, k, v = torch.randn(4, LQ, D), torch.randn(B, 4, LK, D), torch.randn(4, LK, D)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(attnjit.sdpa(q, k, v, is_causal=True), expected)


def test_what_sdpa_refuses():
    q, k, v = tensors(requires_grad=False)
    with pytest.raises(ValueError, match="key: it has 2 heads and query 4; enable_gqa"):
        attnjit.sdpa(q, k, v)
    with pytest.raises(NotImplementedError, match="dropout_p"):
        attnjit.sdpa(q, q, q, dropout_p=0.1)
    with pytest.raises(ValueError, match="together with is_causal"):
        attnjit.sdpa(q, q, q, torch.ones(LQ, LQ, dtype=torch.bool), is_causal=True)


def test_flash_attn_func_starts_at_the_bottom_right():
    q, k, v = tensors()
    expected, _ = formulas.attend(q, k, v, Operands(), Scalars(None, True, BOTTOM_RIGHT, 2, softcap=5.0))
    out = attnjit.flash_attn_func(
        *(t.transpose(1, 2) for t in (q, k, v)), causal=True, window_size=(2, -1), softcap=5.0
    )
    assert out.shape == (B, LQ, H, DV)
    assert_same((out,), (expected.transpose(1, 2),))
    q, k, v = (t.detach().transpose(1, 2).contiguous() for t in (q, k, v))
    assert attnjit.flash_attn_func(q, k, v).is_contiguous()
    for feature in ({"dropout_p": 0.1}, {"return_attn_probs": True}):
        with pytest.raises(NotImplementedError, match=next(iter(feature))):
            attnjit.flash_attn_func(q, k, v, **feature)


def results_of_all(q, k, v, **options):
    """out, lse and the largest scores of rows and of heads."""
    return attnjit.attention(q, k, v, return_lse=True, return_row_max=True, return_max_logits=True, **options)


@pytest.mark.parametrize(("batch", "rows", "keys"), [(0, LQ, LK), (B, 0, LK), (B, LQ, 0), (B, 0, 0)])
def test_empty_axes(batch, rows, keys):
    """Of every result of every function, forward and backward."""
    shapes = (batch, H, rows, D), (batch, HKV, keys, D), (batch, HKV, keys, DV)
    leaves = [torch.randn(shape, requires_grad=True) for shape in shapes]
    bias = torch.randn(1, H, 1, keys, requires_grad=True)
    out, lse, row_max, max_logits = results_of_all(*leaves, bias=bias)
    assert out.shape == (batch, H, rows, DV) and lse.shape == row_max.shape == (batch, H, rows)
    assert out.abs().sum() == 0 and (lse == -torch.inf).all() and (row_max == -torch.inf).all()
    assert (max_logits == -torch.inf).all() and max_logits.shape == (H,)
    for found, leaf in zip(gradients(out.sum() + lse.sum(), *leaves, bias), (*leaves, bias), strict=True):
        assert found.shape == leaf.shape and found.abs().sum() == 0

    outs = [attnjit.sdpa(*leaves, enable_gqa=True), attnjit.attention(*leaves)]
    sequence_major = [t.transpose(1, 2) for t in leaves]
    found, of_rows = attnjit.flash_attn_with_kvcache(*sequence_major, return_softmax_lse=True)
    assert of_rows.shape == (batch, H, rows)
    outs += [t.transpose(1, 2) for t in (found, attnjit.flash_attn_func(*sequence_major))]
    for found in outs:
        assert found.shape == out.shape and found.abs().sum() == 0
        assert all(not g.abs().sum() for g in gradients(found.sum(), *leaves))


def test_a_merge_of_no_rows():
    for batch, rows in ((0, LQ), (B, 0)):
        parts = torch.zeros(3, batch, rows, H, DV).transpose(2, 3)
        carry = torch.zeros(batch, H, rows, DV), torch.zeros(batch, H, rows)
        out, lse = attnjit.merge_lse(parts, torch.zeros(3, batch, H, rows), carry=carry)
        assert out.shape == (batch, H, rows, DV) and lse.shape == (batch, H, rows)
