"""attnjit.nn on CPU tensors, compared with torch.nn.MultiheadAttention."""

import copy
import warnings

import pytest
import torch
from torch import nn

import attnjit
import attnjit.nn
from attnjit import _notes
from attnjit.doors import _support
from attnjit.nn import _multihead_attention

pytestmark = pytest.mark.usefixtures("cpu_kernels")

B, H, L, S, E = 2, 4, 5, 7, 16
CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # lse is fp32
IN_BF16 = {"rtol": 3e-2, "atol": 3e-2}


@pytest.fixture
def served(monkeypatch):
    """CPU tensors of every dtype pass for those that have kernels. Returns how often these were reached."""
    monkeypatch.setattr(_multihead_attention, "why_no_kernel", lambda *_: None)
    return lambda: attnjit.served().get("nn", {}).get("served", 0)


def pair(dtype=torch.float64, **arguments):
    """PyTorch's module and attnjit's, with the same numbers."""
    torch.manual_seed(0)
    own = nn.MultiheadAttention(E, H, dtype=dtype, **arguments)
    for parameter in own.parameters():
        nn.init.normal_(parameter, std=0.5)
    ours = attnjit.nn.MultiheadAttention(E, H, dtype=dtype, **arguments)
    ours.load_state_dict(own.state_dict())
    return own, ours


def inputs(layout, dtype=torch.float64, kdim=E, vdim=E):
    shapes = {
        "batch first": lambda length, width: (B, length, width),
        "sequence first": lambda length, width: (length, B, width),
        "unbatched": lambda length, width: (length, width),
    }
    sizes = ((L, E), (S, kdim), (S, vdim))
    return [torch.randn(shapes[layout](*size), dtype=dtype, requires_grad=True) for size in sizes]


def padding(kind, batch=B):
    dropped = torch.arange(S) >= torch.tensor([S - 3, S - 1][:batch])[:, None]
    return as_kind(kind, dropped if batch == B else dropped[0])


def pairs(kind, planes=None, keys=S):
    """Of (query, key) or (planes, query, key), where each row keeps the first key at least."""
    dropped = torch.rand(*([] if planes is None else [planes]), L, keys) < 0.4
    dropped[..., 0] = False
    return as_kind(kind, dropped)


def as_kind(kind, dropped):
    if kind == "bool":
        return dropped
    return torch.randn(dropped.shape, dtype=torch.float64).masked_fill(dropped, -torch.inf).requires_grad_()


def call(module, arguments, masks, **options):
    """The output, and the gradients of parameters, inputs and masks of numbers."""
    out, weights = module(*arguments, need_weights=False, **masks, **options)
    assert weights is None
    torch.manual_seed(1)
    leaves = [t for t in (*module.parameters(), *arguments, *masks.values()) if t.requires_grad]
    return out, *torch.autograd.grad((out * torch.randn(out.shape)).sum(), leaves)


def check(own, ours, arguments, masks, close=CLOSE, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Support for mismatched")
        expected = call(own, arguments, masks, **options)
    for a, b in zip(call(ours, arguments, masks, **options), expected, strict=True):
        torch.testing.assert_close(a, b, **close)


@pytest.mark.parametrize("layout", ["batch first", "sequence first", "unbatched"])
@pytest.mark.parametrize("of_keys", [None, "bool", "numbers"])
@pytest.mark.parametrize("of_pairs", [None, "bool", "numbers", "bool of heads", "numbers of heads"])
def test_masks(served, layout, of_keys, of_pairs):
    batch = 1 if layout == "unbatched" else B
    own, ours = pair(batch_first=layout == "batch first")
    masks = {}
    if of_keys is not None:
        masks["key_padding_mask"] = padding(of_keys, batch)
    if of_pairs is not None:
        planes = batch * H if "heads" in of_pairs else None
        masks["attn_mask"] = pairs(of_pairs.split()[0], planes)
    before = served()
    check(own, ours, inputs(layout), masks)
    assert served() == before + 1


@pytest.mark.parametrize("layout", ["batch first", "sequence first"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"bias": False},
        {"kdim": 24, "vdim": 8},
        {"vdim": 8, "bias": False},
        {"add_bias_kv": True},
        {"add_zero_attn": True},
        {"add_bias_kv": True, "add_zero_attn": True, "kdim": 24},
    ],
)
def test_constructor_arguments(served, layout, arguments):
    own, ours = pair(batch_first=layout == "batch first", **arguments)
    widths = {name: arguments.get(name, E) for name in ("kdim", "vdim")}
    for of_pairs in ("bool", "numbers"):
        masks = {"key_padding_mask": padding("bool"), "attn_mask": pairs(of_pairs)}
        check(own, ours, inputs(layout, **widths), masks)
    check(own, ours, inputs(layout, **widths), {})


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("is_self", [True, False])
def test_dtypes(served, dtype, is_self):
    own, ours = pair(dtype, batch_first=True)
    query, key, _ = inputs("batch first", dtype)
    arguments = (query,) * 3 if is_self else (query, key, key)
    close = IN_BF16 if dtype == torch.bfloat16 else CLOSE
    with torch.no_grad():
        found, _ = ours(*arguments, need_weights=False)
    own.train()
    torch.testing.assert_close(found, own(*arguments, need_weights=False)[0], **close)
    assert found.is_contiguous()


@pytest.mark.parametrize("arguments", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}])
@pytest.mark.parametrize("of_keys", [None, "bool"])
def test_causal(served, arguments, of_keys):
    """The causal mask with and without the hint that it is one, which an absent mask cannot be."""
    own, ours = pair(batch_first=True, **arguments)
    causal = torch.arange(S) > torch.arange(L)[:, None]
    masks = {"attn_mask": causal}
    if of_keys is not None:
        masks["key_padding_mask"] = padding(of_keys)
    tensors = inputs("batch first")
    plain, hinted = (call(ours, tensors, masks, is_causal=hint) for hint in (False, True))
    check(own, ours, tensors, masks)
    for a, b in zip(hinted, plain, strict=True):
        torch.testing.assert_close(a, b, **CLOSE)
    with pytest.raises(ValueError, match="is_causal"):
        ours(*tensors, need_weights=False, is_causal=True)


def test_a_hint_beside_a_mask_of_keys(served):
    """PyTorch reads both masks then, whatever the hint says."""
    own, ours = pair(batch_first=True)
    masks = {"key_padding_mask": padding("numbers"), "attn_mask": pairs("numbers")}
    check(own, ours, inputs("batch first"), masks, is_causal=True)


def test_a_row_without_a_key_gives_the_bias(served):
    own, ours = pair(batch_first=True)
    dropped = torch.tensor([[False] * S, [True] * S])
    arguments = inputs("batch first")
    for need_weights in (True, False):
        expected, _ = own(*arguments, dropped, need_weights=need_weights)
        assert expected[1].isnan().all() == need_weights
    found, _ = ours(*arguments, dropped, need_weights=False)
    torch.testing.assert_close(found[0], expected[0], **CLOSE)
    torch.testing.assert_close(found[1], ours.out_proj.bias.expand(L, E))


def test_errors(served):
    _, ours = pair(batch_first=True)
    q, k, v = inputs("batch first")
    of_keys, of_pairs = (lambda mask: {"key_padding_mask": mask}), (lambda mask: {"attn_mask": mask})
    for arguments, masks, error, match in (
        ((q, k[0], v[0]), {}, ValueError, "expected 3 of all"),
        ((q, k, v), of_keys(padding("bool")[:1]), ValueError, r"key_padding_mask: .* expected \(2, 7\)"),
        ((q, k, v), of_keys(padding("bool").int()), TypeError, "key_padding_mask: dtype is torch.int32"),
        ((q, k, v), of_pairs(pairs("bool", B)), ValueError, r"attn_mask: .* \(5, 7\) or \(8, 5, 7\)"),
        ((q, k, v), of_pairs(pairs("bool").long()), TypeError, "attn_mask: dtype is torch.int64"),
    ):
        with pytest.raises(error, match=match):
            ours(*arguments, need_weights=False, **masks)


def seeded(module, *arguments, **options):
    """A call whose dropout is that of every other."""
    torch.manual_seed(3)
    return module(*arguments, **options)


@pytest.mark.parametrize("average", [True, False])
def test_weights_are_those_of_pytorch(served, average):
    own, ours = pair(dropout=0.5)
    arguments = inputs("sequence first")
    options = {"attn_mask": pairs("bool"), "average_attn_weights": average}
    expected, found = (seeded(m, *arguments, **options) for m in (own, ours))
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)


def test_what_pytorch_computes(monkeypatch, served):
    """The reasons, each with a warning, once."""
    _notes._note.cache_clear()
    own, ours = pair(dropout=0.5)
    arguments = inputs("sequence first")
    run = lambda module: seeded(module, *arguments, need_weights=False)[0]

    def check_reason(reason):
        before = attnjit.served().get("nn", {}).get(reason, 0)
        with pytest.warns(UserWarning, match=rf"calls of 'nn' on to other kernels \({reason}\)"):
            found = run(ours)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert torch.equal(run(ours), found) and torch.equal(run(own), found)
        assert attnjit.served()["nn"][reason] == before + 2

    check_reason("dropout")
    own.eval(), ours.eval()
    before = served()
    torch.testing.assert_close(run(ours), run(own), **CLOSE)
    assert served() == before + 1
    monkeypatch.setattr(_multihead_attention, "why_no_kernel", _support.why_no_kernel)
    check_reason("layout or device")
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    check_reason("dtype")


def test_kinds_of_calls(monkeypatch):
    """By device, by the dtype that projections will have, and by the head dim."""
    monkeypatch.setattr(_support, "_is_supported_device", lambda index: True)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    reason = lambda m, dtype: m._why_unserved(*(torch.zeros(L, B, 1, dtype=dtype),) * 3, False)
    _, ours = pair()
    assert reason(ours, torch.float32) == "dtype" and reason(ours, torch.float16) is None
    torch.set_autocast_enabled("cuda", True)  # torch.autocast refuses without a GPU
    try:
        assert reason(ours, torch.float32) is None
    finally:
        torch.set_autocast_enabled("cuda", False)
    assert reason(attnjit.nn.MultiheadAttention(514, 2), torch.float16) == "head dim"
    nested = torch.nested.nested_tensor([torch.zeros(3, E), torch.zeros(2, E)])
    assert ours._why_unserved(nested, nested, nested, False) == "nested tensors"


@pytest.mark.parametrize("arguments", [{}, {"kdim": 24, "add_bias_kv": True}, {"bias": False}])
def test_state_dicts(arguments):
    own, ours = pair(**arguments)
    torch.nn.init.ones_(ours.out_proj.weight)
    own.load_state_dict(ours.state_dict())
    assert list(own.state_dict()) == list(ours.state_dict())
    assert all(map(torch.equal, own.state_dict().values(), ours.state_dict().values()))


class Model(nn.Module):
    def __init__(self, **options):
        super().__init__()
        torch.manual_seed(0)
        options = {"dim_feedforward": 32, "dropout": 0.0, "dtype": torch.float64} | options
        layer = nn.TransformerEncoderLayer(E, H, batch_first=True, **options)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not options.get("norm_first"))
        self.decoder = nn.TransformerDecoderLayer(E, H, batch_first=True, **options)

    def forward(self, source, target, padding, causal):
        memory = self.encoder(source, src_key_padding_mask=padding)
        return self.decoder(
            target, memory, tgt_mask=causal, tgt_is_causal=True, memory_key_padding_mask=padding
        )


NAMES = (
    "encoder.layers.0.self_attn",
    "encoder.layers.1.self_attn",
    "decoder.self_attn",
    "decoder.multihead_attn",
)


def test_replace_and_remove():
    class Derived(nn.MultiheadAttention):
        pass

    model = Model()
    model.other = Derived(E, H)
    model.decoder.shared = model.decoder.self_attn
    modules = dict(model.named_modules())
    parameters = dict(model.named_parameters())
    model.decoder.self_attn.eval().register_forward_hook(lambda *_: None)
    with attnjit.nn.replace_modules(model) as replacement:
        assert replacement.names == NAMES and replacement.count == 4
        for name in NAMES:
            assert type(model.get_submodule(name)) is attnjit.nn.MultiheadAttention
        assert type(model.other) is Derived
        assert all(module is modules[name] for name, module in model.named_modules())
        assert all(parameter is parameters[name] for name, parameter in model.named_parameters())
        assert not model.decoder.self_attn.training and model.decoder.self_attn._forward_hooks
        assert attnjit.nn.replace_modules(model).count == 0
        clone = copy.deepcopy(model)
    replacement.remove()
    assert all(type(model.get_submodule(name)) is nn.MultiheadAttention for name in NAMES)
    assert type(clone.decoder.self_attn) is attnjit.nn.MultiheadAttention

    alone = nn.MultiheadAttention(E, H)
    replacement = attnjit.nn.replace_modules(alone)
    assert replacement.names == ("",) and type(alone) is attnjit.nn.MultiheadAttention
    replacement.remove()
    assert type(alone) is nn.MultiheadAttention


def model_inputs():
    torch.manual_seed(1)
    source, target = torch.randn(B, S, E, dtype=torch.float64), torch.randn(B, L, E, dtype=torch.float64)
    return source, target, padding("bool"), torch.ones(L, L, dtype=torch.bool).triu(1)


@pytest.mark.parametrize("norm_first", [True, False])
def test_layers_in_training(served, norm_first):
    model = Model(norm_first=norm_first)
    run = lambda: (
        out := model(*model_inputs()),
        *torch.autograd.grad(out.square().sum(), [*model.parameters()]),
    )
    expected, before = run(), served()
    with attnjit.nn.replace_modules(model):
        found = run()
    assert served() == before + 4
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, **CLOSE)


@pytest.mark.parametrize("fast_path", [True, False])
def test_layers_in_eval(served, fast_path):
    """PyTorch's fast path of encoder layers computes attention without the module."""
    model = Model().eval()
    with torch.no_grad():
        expected = model(*model_inputs())
        torch.backends.mha.set_fastpath_enabled(fast_path)
        try:
            with attnjit.nn.replace_modules(model):
                before = served()
                found = model(*model_inputs())
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
    assert served() == before + (2 if fast_path else 4)
    torch.testing.assert_close(found, expected, **CLOSE)


def test_compiled_in_full(served):
    torch._dynamo.reset()
    _, ours = pair(batch_first=True)
    masks = {"key_padding_mask": padding("bool"), "attn_mask": pairs("numbers")}
    arguments = inputs("batch first")
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    expected = call(ours, arguments, masks)
    for _ in range(2):
        with torch._dynamo.config.patch(error_on_recompile=True):
            found = call(compiled, arguments, masks)
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, **CLOSE)


def test_compiled_by_pytorch():
    """A call that attnjit does not serve, whose warning dynamo could not trace."""
    torch._dynamo.reset()
    own, ours = pair()
    arguments = inputs("sequence first")
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    for a, b in zip(compiled(*arguments), own(*arguments), strict=True):
        torch.testing.assert_close(a, b, **CLOSE)


def test_attention_keeps_options():
    torch.manual_seed(0)
    q = torch.randn(B, H, L, 8)
    k, v = (torch.randn(B, 2, L, 8) for _ in range(2))
    operands = {"bias": torch.randn(1, H, L, L), "sink": torch.randn(H), "operands": {"slope": torch.rand(H)}}
    options = {
        "window": (2, 0),
        "diagonal": "top-left",
        "scale": 0.0,
        "score": "s + slope[h]",
        "deterministic": False,
    }
    module = attnjit.nn.Attention(**options, return_lse=True)
    found = module(q, k, v, **operands)
    for a, b in zip(found, attnjit.attention(q, k, v, **operands, **options, return_lse=True), strict=True):
        assert torch.equal(a, b)
    assert repr(module) == (
        "Attention(window=(2, 0), diagonal='top-left', scale=0.0, score='s + slope[h]', return_lse=True,"
        " deterministic=False)"
    )
    assert repr(attnjit.nn.Attention()) == "Attention()" and not module.state_dict()
    with pytest.raises(TypeError, match="causal"):
        module(q, k, v, causal="top-left")
    with pytest.raises(ValueError, match="window: say diagonal"):
        attnjit.nn.Attention(window=(1, 0))
    with pytest.raises(TypeError, match="window"):
        attnjit.nn.Attention(window=3, diagonal="top-left")
