"""triangle_attention and attention_pair_bias: on CPU tensors against formulas of PyTorch's operations, on a GPU against
cuEquivariance."""

import pytest
import torch

import attnjit

from named_doors import (
    assert_close_in_norm,
    assert_same,
    assert_same_compiled,
    assert_same_gradients,
    attend,
    compare,
    leaf,
    on_gpu,
    parameters,
)

pytestmark = pytest.mark.usefixtures("cpu_kernels")

H, LQ, LK, D, N = 4, 5, 7, 8, 3


def triangle(batch):
    torch.manual_seed(batch)
    q, k, v = leaf(batch, N, H, LQ, D), leaf(batch, N, H, LK, D), leaf(batch, N, H, LK, D)
    mask = torch.rand(batch, N, 1, 1, LK) > 0.4
    mask[0, 1] = False  # a row of pairs without a key
    return q, k, v, leaf(batch, 1, H, LQ, LK), mask


@pytest.mark.parametrize("has_mask", [False, True])
@pytest.mark.parametrize("batch", [1, 2])
def test_triangle_attention(batch, has_mask):
    *leaves, mask = triangle(batch)
    mask = mask if has_mask else None
    found = attnjit.triangle_attention(*leaves, mask, 0.3, return_aux=True)
    q, k, v, bias = leaves
    expected = attend(q, k, v, mask, bias, 0.3)
    assert [t.shape[:4] for t in found] == [(batch, N, H, LQ)] * 3
    assert all(t.dtype == torch.float32 and t.is_contiguous() for t in found[1:])
    assert_same(found, expected)
    assert_same_gradients(found[:2], expected[:2], leaves)
    assert not has_mask or (found[0][0, 1].abs().max() == 0 and found[2][0, 1].max() == -torch.inf)
    assert_same(attnjit.triangle_attention(*leaves, mask), attend(q, k, v, mask, bias)[0])


def test_triangle_attention_of_four_axes():
    *tensors, mask = triangle(1)
    expected = attnjit.triangle_attention(*tensors, mask)
    assert_same(attnjit.triangle_attention(*(t[0] for t in tensors), mask[0]), expected)


def test_masks_and_biases_of_other_dtypes_in_triangle_attention():
    q, k, v, bias, mask = triangle(2)
    expected = attnjit.triangle_attention(q, k, v, bias, mask)
    assert_same(attnjit.triangle_attention(q, k, v, bias.double(), mask.float()), expected)


def test_lengths_of_triangle_attention():
    q, k, v, bias, _ = triangle(2)
    lengths = torch.tensor([[0, 1, LK], [3, LK + 2, 2]], dtype=torch.int32)[..., None, None, None]
    found = attnjit.triangle_attention(q, k, v, bias, return_aux=True, kv_lengths=lengths)
    expected = attend(q, k, v, torch.arange(LK) < lengths, bias)
    assert_same(found, expected)
    assert_same_gradients(found[:2], expected[:2], (q, k, v, bias))


def test_what_triangle_attention_refuses():
    *tensors, mask = triangle(2)
    lengths = torch.ones(2, N, 1, 1, 1, dtype=torch.int32)
    with pytest.raises(ValueError, match="kv_lengths: it cannot be given together with mask"):
        attnjit.triangle_attention(*tensors, mask, kv_lengths=lengths)
    with pytest.raises(ValueError, match="kv_lengths: its shape is .2, 3.; expected .2, 3, 1, 1, 1."):
        attnjit.triangle_attention(*tensors, kv_lengths=lengths.reshape(2, N))


C, CZ = 12, 6


def pair_bias_call(batch, multiplicity, optional=True):
    """Arguments of attention_pair_bias, by name; without `optional` only those that it needs."""
    torch.manual_seed(0)
    width = H * D
    call = {
        "single_repr": leaf(batch * multiplicity, LQ, C),
        "pair_repr": leaf(batch, LQ, LQ, CZ),
        "mask": None,
        "num_heads": H,
        "w_ln_a": leaf(C),
        "b_ln_a": None,
        "w_proj_q": leaf(width, C),
        "b_proj_q": None,
        "w_proj_k": leaf(width, C),
        "w_proj_v": leaf(width, C),
        "w_proj_g": leaf(width, C),
        "w_proj_o": leaf(C, width),
        "w_proj_z": leaf(H, CZ),
    }
    if optional:
        sizes = {"b_ln_a": C, "b_proj_q": width, "b_proj_k": width, "b_proj_v": width, "b_proj_g": width}
        sizes |= {"b_proj_o": C, "b_proj_z": H, "w_ln_z": CZ, "b_ln_z": CZ}
        sizes |= dict.fromkeys(("w_ln_q", "b_ln_q", "w_ln_k", "b_ln_k"), width)
        call |= {name: leaf(size) for name, size in sizes.items()}
    return call


def norm(x, weight, bias, eps, kind):
    if kind == "layer_norm":
        x = x - x.mean(-1, keepdim=True)
    x = x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def expected_pair_bias(call, eps=1e-5, kind="layer_norm", scale=None):
    """(out, z_proj), every plane of the bias written out."""
    get = call.get
    project = lambda x, weight, bias: x @ call[weight].T + (0 if get(bias) is None else get(bias))
    a = norm(call["single_repr"], call["w_ln_a"], get("b_ln_a"), eps, kind)
    q, k, v, gate = (project(a, f"w_proj_{name}", f"b_proj_{name}") for name in "qkvg")
    if get("w_ln_q") is not None:
        q = norm(q, call["w_ln_q"], get("b_ln_q"), eps, kind)
    if get("w_ln_k") is not None:
        k = norm(k, call["w_ln_k"], get("b_ln_k"), eps, kind)
    z = norm(call["pair_repr"], get("w_ln_z"), get("b_ln_z"), eps, kind)
    z_proj = project(z, "w_proj_z", "b_proj_z").movedim(-1, 1)
    each = lambda planes: planes.repeat_interleave(len(a) // len(planes), 0)
    mask = None if call["mask"] is None else each(call["mask"])[:, None, None] != 0
    heads = lambda t: t.unflatten(-1, (H, D)).transpose(1, 2)
    out, *_ = attend(heads(q), heads(k), heads(v), mask, each(z_proj), scale)
    return project(gate.sigmoid() * out.transpose(1, 2).flatten(2), "w_proj_o", "b_proj_o"), z_proj


def leaves_of(call):
    return [t for t in call.values() if isinstance(t, torch.Tensor) and t.requires_grad]


@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize("masks", [None, "of pairs", "of elements"])
@pytest.mark.parametrize(("batch", "multiplicity"), [(1, 1), (1, 3), (2, 1), (2, 3)])
def test_attention_pair_bias(batch, multiplicity, masks, optional):
    call = pair_bias_call(batch, multiplicity, optional)
    if masks is not None:
        call["mask"] = (torch.rand(batch * (multiplicity if masks == "of elements" else 1), LQ) > 0.4).float()
        call["mask"][:, 1] = 1
    found = attnjit.attention_pair_bias(**call, return_z_proj=True)
    expected = expected_pair_bias(call)
    assert found[0].shape == (batch * multiplicity, LQ, C) and found[1].shape == (batch, H, LQ, LQ)
    assert_same(found, expected)
    assert_same_gradients(found, expected, leaves_of(call))


def test_planes_of_pairs_are_not_copied(monkeypatch):
    from attnjit import _dispatch

    biases, forward = [], _dispatch.forward
    monkeypatch.setattr(_dispatch, "forward", lambda *a: biases.append(a[3].bias) or forward(*a))
    _, z_proj = attnjit.attention_pair_bias(**pair_bias_call(2, 3), return_z_proj=True)
    assert biases[0].shape == (2, H, LQ, LQ) and biases[0].data_ptr() == z_proj.data_ptr()


def test_options_of_attention_pair_bias():
    call = pair_bias_call(2, 2, optional=False)
    without_mask = attnjit.attention_pair_bias(**call)
    assert without_mask[1] is None
    found = attnjit.attention_pair_bias(**call, attn_scale=0.2, eps=0.1, inf=1.0)[0]
    assert_same(found, expected_pair_bias(call, eps=0.1, scale=0.2)[0])
    scaled = {"w_ln_q": leaf(H * D), "w_ln_k": leaf(H * D), "w_ln_z": leaf(CZ)}
    found = attnjit.attention_pair_bias(**call, **scaled, norm_kind="rms_norm")[0]
    expected = expected_pair_bias(call | scaled, kind="rms_norm")[0]
    assert_same(found, expected)
    assert_same_gradients((found,), (expected,), leaves_of(call | scaled))

    z_proj = attnjit.attention_pair_bias(**call, return_z_proj=True)[1].detach().requires_grad_()
    cached = call | {"pair_repr": z_proj, "w_proj_z": None, "is_cached_z_proj": True}
    found, again = attnjit.attention_pair_bias(**cached, return_z_proj=True)
    assert again is z_proj
    assert_same(found, without_mask[0])
    (dz,) = torch.autograd.grad(found.square().sum(), z_proj)
    assert dz.shape == (2, H, LQ, LQ) and dz.abs().max() > 0


def test_parameters_of_another_dtype_are_converted():
    call = pair_bias_call(1, 2)
    expected = attnjit.attention_pair_bias(**call)[0]
    activations = ("single_repr", "pair_repr")
    double = lambda t: t.double() if isinstance(t, torch.Tensor) else t
    found = attnjit.attention_pair_bias(
        **{name: value if name in activations else double(value) for name, value in call.items()}
    )[0]
    assert_same(found, expected)


def test_an_element_without_keys_gives_the_bias_of_the_projection():
    call = pair_bias_call(1, 2)
    call["mask"] = torch.ones(2, LQ)
    call["mask"][1] = 0
    out, _ = attnjit.attention_pair_bias(**call)
    assert_same(out[1], call["b_proj_o"].expand(LQ, C))
    assert_same(out, expected_pair_bias(call)[0])


def test_what_attention_pair_bias_refuses():
    call = pair_bias_call(2, 1)
    with pytest.raises(ValueError, match="w_proj_z: it is needed"):
        attnjit.attention_pair_bias(**call | {"w_proj_z": None})
    with pytest.raises(ValueError, match="norm_kind: 'batch_norm'; expected 'layer_norm' or 'rms_norm'"):
        attnjit.attention_pair_bias(**call, norm_kind="batch_norm")
    with pytest.raises(ValueError, match="b_ln_a: rms_norm has no bias"):
        attnjit.attention_pair_bias(**call, norm_kind="rms_norm")
    for single, pair in ((3, 2), (2, 0)):
        tensors = {"single_repr": leaf(single, LQ, C), "pair_repr": leaf(pair, LQ, LQ, CZ)}
        with pytest.raises(
            ValueError, match="single_repr: its batch is .; expected a multiple of pair_repr's, ."
        ):
            attnjit.attention_pair_bias(**call | tensors)


def test_compiled_code():
    *tensors, mask = triangle(2)
    assert_same_compiled(attnjit.triangle_attention, (*tensors, mask), {"return_aux": True})
    call = pair_bias_call(2, 2) | {"mask": torch.ones(2, LQ), "return_z_proj": True}
    assert_same_compiled(attnjit.attention_pair_bias, (), call)


@pytest.mark.parametrize("name", ["triangle_attention", "attention_pair_bias"])
def test_signatures_of_cuequivariance(name):
    theirs = pytest.importorskip("cuequivariance_torch")
    assert parameters(getattr(attnjit, name)) == parameters(getattr(theirs, name))


@pytest.mark.gpu
@pytest.mark.parametrize("length", [96, 256])  # their formulas in PyTorch, and their kernels
def test_triangle_attention_agrees_with_cuequivariance(length):
    theirs = pytest.importorskip("cuequivariance_torch")
    pytest.importorskip("cuequivariance_ops_torch")
    torch.manual_seed(0)
    q, k, v = on_gpu(torch.bfloat16, *(leaf(2, 5, 4, length, 32) for _ in range(3)))
    (bias,) = on_gpu(torch.float32, leaf(2, 1, 4, length, length))
    mask = torch.rand(2, 5, 1, 1, length, device="cuda") > 0.3
    lengths = torch.randint(1, length + 1, (2, 5, 1, 1, 1), device="cuda", dtype=torch.int32)
    for options in ({"mask": mask}, {"kv_lengths": lengths}):
        by_kernels = length > 100
        ours, expected = (
            f(q, k, v, bias, return_aux=by_kernels, **options)
            for f in (attnjit.triangle_attention, theirs.triangle_attention)
        )
        if by_kernels:
            ours, *ours_auxiliary = ours
            expected, *their_auxiliary = expected
            torch.testing.assert_close(ours_auxiliary, their_auxiliary, rtol=1e-2, atol=1e-2)
        compare(ours, expected, (q, k, v, bias))


@pytest.mark.gpu
@pytest.mark.parametrize("multiplicity", [1, 3])
def test_attention_pair_bias_agrees_with_cuequivariance(multiplicity):
    theirs = pytest.importorskip("cuequivariance_torch")
    pytest.importorskip("cuequivariance_ops_torch")
    call = pair_bias_call(2, multiplicity)
    call = {
        name: on_gpu(torch.bfloat16, value)[0] if isinstance(value, torch.Tensor) else value
        for name, value in call.items()
    }
    call["mask"] = torch.ones(2, LQ, device="cuda")
    call["mask"][:, 3:] = 0
    ours, expected = (
        f(**call, return_z_proj=True) for f in (attnjit.attention_pair_bias, theirs.attention_pair_bias)
    )
    assert_close_in_norm(ours[1], expected[1])
    # These shift all scores of a row alike, or nearly so: their gradients are noise.
    for name in ("b_proj_k", "b_ln_k", "b_ln_z", "b_proj_z"):
        del call[name]
    compare(ours[0], expected[0], leaves_of(call))
