"""attnjit.flex_attention on CPU tensors, against PyTorch's own."""

import inspect

import pytest
import torch
from torch.nn.attention import flex_attention as torchs
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, and_masks, create_block_mask

import attnjit
from attnjit.flex import _attention, _numbers

pytestmark = pytest.mark.usefixtures("cpu_kernels")

B, H, HKV, L, S, D, DV = 2, 4, 2, 20, 28, 8, 16
BLOCK = 8


def tensors(batch_kv=B, heads_kv=HKV):
    torch.manual_seed(0)
    shapes = (B, H, L, D), (batch_kv, heads_kv, S, D), (batch_kv, heads_kv, S, DV)
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def causal(b, h, q, k):
    return q + S - L >= k


REL = torch.randn(H, 9)
DOC = torch.randint(0, 3, (B, S)).sort(-1).values


def documents(b, h, q, k):
    return (DOC[b, q + S - L] == DOC[b, k]) & causal(b, h, q, k)


def relative(score, b, h, q, k):
    return score + REL[h, torch.clamp(q - k, -4, 4) + 4]


def capped(score, b, h, q, k):
    return 2 * torch.tanh(score / 2)


def block_mask(function, batch=B, heads=H):
    return create_block_mask(function, batch, heads, L, S, device="cpu", BLOCK_SIZE=BLOCK)


@pytest.fixture
def by_torch(monkeypatch):
    """PyTorch's function, from its formulas."""
    monkeypatch.setattr(torchs, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    return torchs.flex_attention


def grid():
    sizes = (B, H, L, S)
    along = lambda axis: torch.arange(sizes[axis]).reshape([-1 if a == axis else 1 for a in range(4)])
    return [along(axis) for axis in range(4)]


def dense(q, k, v, score_mod, mask, scale):
    """out, lse and the largest scores of rows with autograd, which PyTorch's function lacks on CPUs."""
    k, v = (t.repeat_interleave(H // HKV, 1) for t in (k, v))
    s = scale * (q @ k.transpose(-1, -2))
    if score_mod is not None:
        s = score_mod(s, *grid())
    if mask is not None:
        s = s.masked_fill(~mask.mask_mod(*grid()), -torch.inf)
    return s.softmax(-1) @ v, s.logsumexp(-1), s.detach().amax(-1)


def compare(by_torch, score_mod=None, mask=None, batch_kv=B):
    q, k, v = tensors(batch_kv)
    scale = 0.3
    options = {"scale": scale, "enable_gqa": True}
    out, aux = attnjit.flex_attention(
        q, k, v, score_mod, mask, **options, return_aux=AuxRequest(lse=True, max_scores=True)
    )
    torch.testing.assert_close(out, by_torch(*(t.detach() for t in (q, k, v)), score_mod, mask, **options))
    found, expected = (out, *aux), dense(q, k, v, score_mod, mask, scale)
    torch.testing.assert_close(found, expected)
    gradients = (
        torch.autograd.grad(out.square().sum() + lse.sin().sum(), (q, k, v))
        for out, lse, _ in (found, expected)
    )
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_the_signature_is_pytorchs():
    ours, theirs = (inspect.signature(f).parameters for f in (attnjit.flex_attention, torchs.flex_attention))
    assert [(p.name, p.kind, p.default) for p in ours.values()] == [
        (p.name, p.kind, p.default) for p in theirs.values()
    ]


@pytest.mark.parametrize("score_mod", [None, relative, capped])
@pytest.mark.parametrize("function", [None, causal, documents])
def test_functions_and_block_masks(by_torch, score_mod, function):
    compare(by_torch, score_mod, function and block_mask(function))


@pytest.mark.parametrize(("batch", "heads"), [(1, 1), (B, 1), (1, H), (None, None)])
def test_block_masks_of_one_batch_element_or_head(by_torch, batch, heads):
    compare(by_torch, relative, block_mask(causal, batch, heads))


def test_one_batch_element_of_keys_for_all(by_torch):
    compare(by_torch, None, block_mask(causal), batch_kv=1)


def lists_of(function=None, full=True):
    """A mask whose lists say more than its function; numbers behind a list name no block."""
    rows, columns = -(-L // BLOCK), -(-S // BLOCK)
    counts = torch.tensor([1, 2, 0], dtype=torch.int32).expand(B, H, rows).contiguous()
    indices = torch.tensor([3, 1, 99, -7], dtype=torch.int32).expand(B, H, rows, columns).contiguous()
    of_full = (counts.flip(-1), indices.roll(1, -1).clamp(0, 2)) if full else (None, None)
    return BlockMask.from_kv_blocks(
        counts,
        indices,
        *of_full,
        BLOCK_SIZE=BLOCK,
        mask_mod=function,
        seq_lengths=(L, S),
        compute_q_blocks=False,
    )


def dense_of(mask, function=None):
    keep = torch.zeros(B, H, L, S, dtype=torch.bool)
    inside = torch.ones(L, S, dtype=torch.bool)
    if function is not None:
        inside = function(0, 0, torch.arange(L)[:, None], torch.arange(S))
    lists = [(mask.kv_num_blocks, mask.kv_indices, inside)]
    if mask.full_kv_num_blocks is not None:
        lists.append((mask.full_kv_num_blocks, mask.full_kv_indices, torch.ones_like(inside)))
    for counts, indices, where in lists:
        for row in range(counts.shape[2]):
            for column in indices[0, 0, row, : counts[0, 0, row]].tolist():
                rows, keys = (slice(BLOCK * n, BLOCK * (n + 1)) for n in (row, column))
                keep[:, :, rows, keys] |= where[rows, keys]
    return keep


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("function", [None, causal])
def test_lists_hold_too(function, full):
    q, k, v = tensors()
    mask = lists_of(function, full)
    keep = dense_of(mask, function)
    assert keep.any() and not keep.all()
    found = attnjit.flex_attention(q, k, v, block_mask=mask, enable_gqa=True)
    torch.testing.assert_close(found, attnjit.attention(q, k, v, mask=keep))


def test_lists_are_read_by_each_call():
    q, k, v = tensors()
    mask = lists_of()
    assert attnjit.flex_attention(q, k, v, block_mask=mask, enable_gqa=True).any()
    mask.kv_num_blocks.zero_()
    mask.full_kv_num_blocks.zero_()
    assert not attnjit.flex_attention(q, k, v, block_mask=mask, enable_gqa=True).any()


def test_lists_of_fewer_columns_than_there_are_blocks():
    q, k, v = tensors()
    mask = lists_of()
    mask.kv_indices, mask.full_kv_indices = (
        mask.kv_indices[..., :2].contiguous(), mask.full_kv_indices[..., :2].contiguous(),
    )  # fmt: skip
    found = attnjit.flex_attention(q, k, v, block_mask=mask, enable_gqa=True)
    torch.testing.assert_close(found, attnjit.attention(q, k, v, mask=dense_of(mask)))


def test_a_function_in_the_place_of_a_block_mask():
    q, k, v = tensors()
    keep = documents(*grid())
    found = attnjit.flex_attention(q, k, v, block_mask=documents, enable_gqa=True)
    torch.testing.assert_close(found, attnjit.attention(q, k, v, mask=keep))


def capped_at(bound):
    return lambda s, b, h, q, k: bound * torch.tanh(s / bound)


def near(distance):
    return and_masks(causal, lambda b, h, q, k: (q - k).abs() <= distance)


def test_numbers_that_change_from_call_to_call(by_torch, monkeypatch):
    """The first value is a literal, all others share a text."""
    texts = []

    def attention(*tensors, **options):
        texts.append((options["score"], options["keep"]))
        return attnjit.attention(*tensors, **options)

    monkeypatch.setattr(_attention, "attention", attention)
    monkeypatch.setattr(_numbers, "_histories", {})
    for number in (3, 5, 2, 9, 3):
        compare(by_torch, capped_at(number / 2), block_mask(near(number)))
    assert "1.5 * tanh(s / 1.5)" == texts[0][0] != texts[1][0]
    assert len(set(texts[1:])) == 1


def test_what_it_returns():
    q, k, v = tensors()
    out = attnjit.flex_attention(q, k, v, enable_gqa=True, kernel_options={"BLOCK_M": 64})
    again, lse = attnjit.flex_attention(q, k, v, enable_gqa=True, return_lse=True)
    assert torch.equal(again, out) and lse.shape == (B, H, L)
    for request in (AuxRequest(), AuxRequest(lse=True), AuxRequest(max_scores=True)):
        again, aux = attnjit.flex_attention(q, k, v, enable_gqa=True, return_aux=request)
        assert torch.equal(again, out) and [t is not None for t in aux] == list(request)


def test_in_compiled_code():
    """The graph breaks where functions are traced."""
    torch._dynamo.reset()
    q, k, v = tensors()
    mask = block_mask(documents)
    expected = attnjit.flex_attention(q, k, v, relative, mask, enable_gqa=True)
    compiled = torch.compile(attnjit.flex_attention, backend="aot_eager")
    torch.testing.assert_close(compiled(q, k, v, relative, mask, enable_gqa=True), expected)
    step = torch.compile(
        lambda q, k, v: attnjit.flex_attention(q * 1, k, v, relative, mask, enable_gqa=True) * 1,
        backend="aot_eager",
    )
    found = step(q, k, v)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), q), torch.autograd.grad(expected.sum(), q))


def test_gradients_of_captured_tensors():
    q, k, v = tensors()
    rel, gate = torch.randn(H, 9, requires_grad=True), torch.randn(1, requires_grad=True)

    def score(s, b, h, q, k):
        return (s + rel[h, torch.clamp(q - k, -4, 4) + 4]) * torch.sigmoid(gate[0])

    out = attnjit.flex_attention(q, k, v, score_mod=score, enable_gqa=True)
    expected_out, *_ = dense(q, k, v, score, None, D**-0.5)
    leaves, dout = (q, k, v, rel, gate), torch.randn_like(out)
    found, expected = (torch.autograd.grad(t, leaves, dout) for t in (out, expected_out))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"enable_gqa": False}, ValueError, "key: it has 2 heads and query 4; enable_gqa=True"),
        (
            {"block_mask": create_block_mask(causal, 1, 1, S, S, "cpu")},
            ValueError,
            r"block_mask: it is for \(28, 28\)",
        ),
        ({"block_mask": block_mask(causal)[:1]}, RuntimeError, "sliced BlockMask"),
        (
            {"return_lse": True, "return_aux": AuxRequest()},
            ValueError,
            "return_lse: .* together with return_aux",
        ),
        ({"query": torch.zeros(H, L, D)}, ValueError, "query: it has 3 axes"),
        ({"score_mod": lambda s, b, h, q, k: torch.sin(s)}, NotImplementedError, "^score_mod: aten::sin"),
        (
            {"block_mask": lambda b, h, q, k: bool(q > k)},
            NotImplementedError,
            "^block_mask: a value",
        ),
        ({"score_mod": causal}, TypeError, "positional arguments"),
    ],
)
def test_what_is_refused(change, error, message):
    q, k, v = tensors()
    with pytest.raises(error, match=message):
        attnjit.flex_attention(**{"query": q, "key": k, "value": v, "enable_gqa": True} | change)
