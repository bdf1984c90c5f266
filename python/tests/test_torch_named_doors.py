"""Functions that have the signatures of flash-dmattn and cuEquivariance, and what flash_attn_func has beyond
FlashAttention's: on CPU tensors against formulas of PyTorch's operations, on a GPU against these libraries."""

import inspect
import random

import pytest
import torch

import attnjit

pytestmark = pytest.mark.usefixtures("cpu_kernels")

B, H, HKV, LQ, LK, D, DV = 2, 4, 2, 5, 7, 8, 16


def leaf(*shape):
    return torch.randn(shape, requires_grad=True)


def attend(q, k, v, mask=None, bias=None, scale=None, cap=None):
    """(out, lse, largest scores) of heads before rows; mask and bias have a plane for each head of k or of q, or one.
    Rows that keep no key give 0, -inf, -inf."""
    per_head = lambda t: t if t.shape[-3] == 1 else t.repeat_interleave(q.shape[-3] // t.shape[-3], -3)
    scores = (q.shape[-1] ** -0.5 if scale is None else scale) * (q @ per_head(k).transpose(-1, -2))
    if cap is not None:
        scores = cap * (scores / cap).tanh()
    if bias is not None:
        scores = scores + per_head(bias)
    keep = torch.ones_like(scores, dtype=torch.bool)
    if mask is not None:
        keep = keep & per_head(mask)
    alive = keep.any(-1)
    scores = scores.masked_fill(~keep & alive[..., None], -torch.inf)
    out = scores.softmax(-1) @ per_head(v) * alive[..., None]
    dead = lambda t: t.masked_fill(~alive, -torch.inf)
    return out, dead(scores.logsumexp(-1)), dead(scores.amax(-1))


def bottom_right(rows, keys):
    return torch.ones(rows, keys, dtype=torch.bool).tril(keys - rows)


def assert_same(found, expected, atol=1e-5):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=atol)


def assert_same_gradients(found, expected, leaves):
    """Of pairs of results, weighted at random; of an lse, the part that is finite."""
    losses = [0.0, 0.0]
    for pair in zip(found, expected, strict=True):
        weights = torch.randn_like(pair[0])
        for which, result in enumerate(pair):
            losses[which] = losses[which] + (torch.where(result.isfinite(), result, 0.0) * weights).sum()
    assert_same(*(torch.autograd.grad(loss, leaves) for loss in losses), atol=2e-4)


def sequence_major(*tensors):
    return [t.transpose(1, 2) for t in tensors]


def operands(seed):
    """A mask and a bias of random broadcasts, a dead row among them."""
    choose = random.Random(seed)
    shape = lambda: tuple(choose.choice(sizes) for sizes in ((B, 1), (H, HKV, 1), (LQ, 1), (LK, 1)))
    torch.manual_seed(seed)
    mask = torch.rand(shape()) > 0.3
    mask[0, 0, 0] = False
    return mask, leaf(*shape())


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_flash_dmattn_func(seed, is_causal):
    mask, bias = operands(seed)
    q, k, v = leaf(B, H, LQ, D), leaf(B, HKV, LK, D), leaf(B, HKV, LK, DV)
    out, lse, probabilities = attnjit.flash_dmattn_func(
        *sequence_major(q, k, v), mask, bias, 0.4, is_causal, return_attn_probs=True
    )
    keep = mask & bottom_right(LQ, LK) if is_causal else mask
    expected = attend(q, k, v, keep, bias, 0.4)[:2]
    found = out.transpose(1, 2), lse
    assert probabilities is None and out.shape == (B, LQ, H, DV)
    assert_same(found, expected)
    assert_same_gradients(found, expected, (q, k, v, bias))


def test_options_of_flash_dmattn_func():
    q, k, v = leaf(B, H, LQ, D), leaf(B, HKV, LK, D), leaf(B, HKV, LK, DV)
    tensors = sequence_major(q, k, v)
    call = lambda **options: attnjit.flash_dmattn_func(*tensors, **options).transpose(1, 2)
    assert_same(call(), attend(q, k, v)[0])
    assert_same(call(softmax_scale=0.3), attend(q, k, v, scale=0.3)[0])
    assert_same(call(scale=0.3), attend(q, k, v, scale=0.3)[0])
    assert_same(call(scale=0.3, softmax_scale=0.3), attend(q, k, v, scale=0.3)[0])
    bias = leaf(1, 1, LQ, LK)
    assert_same(call(softcap=0.5, attn_bias=bias), attend(q, k, v, bias=bias, cap=0.5)[0])
    mask = torch.rand(B, HKV, LQ, LK) > 0.3
    assert_same(call(attn_mask=attnjit.prepare_mask(mask, backward=True)), attend(q, k, v, mask)[0])
    with pytest.raises(ValueError, match="scale: it is 0.2 and softmax_scale 0.3"):
        call(scale=0.2, softmax_scale=0.3)


@pytest.mark.parametrize(("asked", "passed"), [(None, False), (False, False), (True, True)])
def test_flash_dmattn_func_obeys_its_own_deterministic(asked, passed, monkeypatch):
    from attnjit import _dispatch

    seen, backward = [], _dispatch.backward
    monkeypatch.setattr(_dispatch, "backward", lambda *a: seen.append(a[11]) or backward(*a))
    torch.use_deterministic_algorithms(True)
    try:
        q = leaf(B, LQ, H, D)
        attnjit.flash_dmattn_func(q, q, q, deterministic=asked).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert seen == [passed]


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_mask_and_bias_of_flash_attn_func(seed, is_causal):
    mask, bias = operands(seed)
    q, k, v = leaf(B, H, LQ, D), leaf(B, HKV, LK, D), leaf(B, HKV, LK, DV)
    out = attnjit.flash_attn_func(*sequence_major(q, k, v), causal=is_causal, mask=mask, bias=bias)
    keep = mask & bottom_right(LQ, LK) if is_causal else mask
    expected = attend(q, k, v, keep, bias)[:1]
    found = (out.transpose(1, 2),)
    assert_same(found, expected)
    assert_same_gradients(found, expected, (q, k, v, bias))


N = 3


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
    """Each function as one graph."""
    *tensors, mask = triangle(2)
    call = pair_bias_call(2, 2)
    q, k, v = (t.flatten(0, 1).transpose(1, 2) for t in tensors[:3])
    for function, arguments, named in (
        (attnjit.triangle_attention, (*tensors, mask), {"return_aux": True}),
        (attnjit.attention_pair_bias, (), call | {"mask": torch.ones(2, LQ), "return_z_proj": True}),
        (attnjit.flash_dmattn_func, (q, k, v, mask.flatten(0, 1)), {"return_attn_probs": True}),
    ):
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        found, expected = (f(*arguments, **named) for f in (compiled, function))
        assert_same([t for t in found if t is not None], [t for t in expected if t is not None])


def parameters(function):
    """Names, kinds and defaults, in order."""
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("name", ["triangle_attention", "attention_pair_bias"])
def test_signatures_of_cuequivariance(name):
    theirs = pytest.importorskip("cuequivariance_torch")
    assert parameters(getattr(attnjit, name)) == parameters(getattr(theirs, name))


def on_gpu(dtype, *tensors):
    return [t.detach().cuda().to(dtype).requires_grad_() for t in tensors]


def assert_close_in_norm(found, expected):
    """Of 16-bit arithmetic in another order."""
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert (found.float() - expected.float()).norm() <= 0.05 * expected.float().norm()


def compare(ours, theirs, leaves):
    """Outputs, and the gradients of both."""
    assert_close_in_norm(ours, theirs)
    weights = torch.randn_like(ours)
    gradients = (torch.autograd.grad(out, leaves, weights, retain_graph=True) for out in (ours, theirs))
    for found, expected in zip(*gradients, strict=True):
        assert_close_in_norm(found, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_flash_dmattn_func_agrees_with_flash_dmattn(heads, is_causal):
    theirs = pytest.importorskip("flash_dmattn")
    if not theirs.CUDA_AVAILABLE:
        pytest.skip("flash_dmattn has no kernels here")
    torch.manual_seed(0)
    q, k, v = on_gpu(torch.bfloat16, leaf(2, 130, 4, 64), leaf(2, 200, 2, 64), leaf(2, 200, 2, 64))
    (bias,) = on_gpu(torch.bfloat16, leaf(2, heads, 130, 200))
    mask = torch.rand(1, heads, 130, 200, device="cuda") > 0.3
    assert parameters(theirs.flash_dmattn_func) == parameters(attnjit.flash_dmattn_func)[:-1]
    ours, expected = (
        f(q, k, v, mask, bias, is_causal=is_causal)
        for f in (attnjit.flash_dmattn_func, theirs.flash_dmattn_func)
    )
    compare(ours, expected, (q, k, v, bias))


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
