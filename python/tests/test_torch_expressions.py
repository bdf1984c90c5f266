"""Masks and scores that attnjit.attention is told as texts, on CPU tensors."""

import pytest
import torch

import attnjit
from attnjit._call import Operands
from attnjit._scalars import BOTTOM_RIGHT, TOP_LEFT, Scalars
from attnjit.reference._expressions import evaluate

import formulas

pytestmark = pytest.mark.usefixtures("cpu_kernels")

B, H, HKV, LQ, LK, D, DV = 2, 4, 2, 5, 7, 8, 16
RELATIVE = "s + rel[h, clamp(j - i, -2, 2) + 2]"


def tensors(requires_grad=True):
    torch.manual_seed(0)
    shapes = (B, H, LQ, D), (B, HKV, LK, D), (B, HKV, LK, DV)
    return [torch.randn(shape, requires_grad=requires_grad) for shape in shapes]


def dense(q, k, v, score=None, keep=None, capped=None):
    """out and lse by PyTorch's own operations: `score` of the scaled scores, and the kept pairs."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    s = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    s = s if score is None else score(s)
    s = s if capped is None else capped * (s / capped).tanh()
    s = s if keep is None else s.masked_fill(~keep, -torch.inf)
    return s.softmax(-1).nan_to_num(0) @ v, s.logsumexp(-1)


def same_with_gradients(found, expected, leaves):
    torch.testing.assert_close(found, expected)
    weights = [torch.randn_like(t) for t in found]
    pairs = (
        torch.autograd.grad([t.nan_to_num(0, 0, 0) for t in each], leaves, weights)
        for each in (found, expected)
    )
    torch.testing.assert_close(*pairs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_score_and_a_rule_with_their_operands(dtype):
    q, k, v = tensors()
    rel = torch.randn(H, 5).to(dtype)
    doc = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 2, 2, 2]], dtype=torch.int32)
    found = attnjit.attention(
        q, k, v, score=RELATIVE, keep="doc[b, i] == doc[b, j]", operands={"rel": rel, "doc": doc}, softcap=2.0,
        return_lse=True,
    )  # fmt: skip
    distance = (torch.arange(LK) - torch.arange(LQ)[:, None]).clamp(-2, 2) + 2
    keep = (doc[:, :LQ, None] == doc[:, None])[:, None]
    expected = dense(q, k, v, lambda s: s + rel[:, distance].float(), keep, capped=2.0)
    same_with_gradients(found, expected, (q, k, v))


def test_a_score_that_scales_has_its_slopes_in_the_gradients():
    q, k, v = tensors()
    gate = torch.randn(H)
    found = attnjit.attention(
        q, k, v, score="tanh(s) * sigmoid(gate[h]) + s / 4", operands={"gate": gate}, return_lse=True
    )
    expected = dense(q, k, v, lambda s: s.tanh() * gate.sigmoid()[:, None, None] + s / 4)
    same_with_gradients(found, expected, (q, k, v))


def test_numbers_are_operands_without_axes():
    q, k, v = tensors()
    operands = {"cap": 3.0, "n": 4, "some": True}
    found = attnjit.attention(
        q, k, v, score="cap * tanh(s / cap)", keep="j < n && some", operands=operands, return_lse=True
    )
    expected = dense(q, k, v, lambda s: 3 * (s / 3).tanh(), (torch.arange(LK) < 4).expand(LQ, LK))
    same_with_gradients(found, expected, (q, k, v))
    read = {name: torch.tensor(value) for name, value in operands.items()}
    again = attnjit.attention(q, k, v, score="cap * tanh(s / cap)", keep="j < n && some", operands=read)
    torch.testing.assert_close(again, found[0])


def test_beside_all_else_that_enters_scores():
    q, k, v = tensors()
    mask, bias = torch.rand(B, 1, LQ, LK) > 0.3, torch.randn(1, H, LQ, LK, requires_grad=True)
    rows, keys = (torch.tensor(lengths, dtype=torch.int32) for lengths in ([3, 5], [7, 4]))
    texts = {
        "score": "s * (1 + g) - 0.5 * float(i + off - j)",
        "keep": "j != skip[b] && j < Lk - 1 && i < Lq",
    }
    skip = torch.tensor([1, 2], dtype=torch.int32)
    found = attnjit.attention(
        q, k, v, mask=mask, bias=bias, seqlens_q=rows, seqlens_kv=keys, causal="bottom-right", softcap=9.0,
        operands={"skip": skip}, return_lse=True, **texts,
    )  # fmt: skip
    i, j = torch.arange(LQ)[:, None], torch.arange(LK)
    rows, keys, skip = (t.reshape(-1, 1, 1, 1) for t in (rows, keys, skip))
    place = i + keys - rows - j
    keep = mask & (place >= 0) & (i < rows) & (j < keys - 1) & (j != skip)
    scale = torch.tensor([1, 1, 2, 2]).reshape(-1, 1, 1)

    def score(s):
        return 9 * ((s * scale - 0.5 * place) / 9).tanh() + bias

    same_with_gradients(found, dense(q, k, v, score, keep), (q, k, v, bias))


def test_packed_sequences_count_from_their_own_first_row():
    q, k, v = torch.randn(3, 1, 2, 9, D, requires_grad=True).unbind()
    begins = torch.tensor([0, 4, 9], dtype=torch.int32)
    prefix = torch.tensor([2, 3], dtype=torch.int32)
    found = attnjit.attention(
        q, k, v, cu_seqlens_q=begins, cu_seqlens_kv=begins, keep="j <= i || j < prefix[b]", score="s + float(b)",
        operands={"prefix": prefix}, return_lse=True,
    )  # fmt: skip
    place = torch.arange(9)
    of = (place >= 4).long()
    own = place - begins[of]
    keep = (of[:, None] == of) & ((own <= own[:, None]) | (own < prefix[of]))
    same_with_gradients(found, dense(q, k, v, lambda s: s + of.float(), keep), (q, k, v))


def test_paged_keys():
    q = torch.randn(B, H, 3, D)
    pools = torch.randn(5, HKV, 4, D), torch.randn(5, HKV, 4, DV)
    table = torch.tensor([[4, 1], [2, 0]], dtype=torch.int32)
    keys = torch.tensor([6, 8], dtype=torch.int32)
    options = {"keep": "(i + j) % n == 0", "operands": {"n": 2}, "diagonal": "bottom-right"}
    found = attnjit.attention(q, *pools, block_table=table, seqlens_kv=keys, **options)
    k, v = (pool[table.long()].transpose(1, 2).flatten(2, 3) for pool in pools)
    torch.testing.assert_close(found, attnjit.attention(q, k, v, seqlens_kv=keys, **options))


def test_prepared_masks_and_the_largest_scores():
    q, k, v = tensors()
    mask = torch.rand(B, 1, LQ, LK) > 0.3
    texts = {"score": "s - float(j)", "keep": "j != 2"}
    results = [
        attnjit.attention(q, k, v, mask=given, return_row_max=True, return_max_logits=True, **texts)
        for given in (mask, attnjit.prepare_mask(mask, backward=True))
    ]
    torch.testing.assert_close(*results)
    scores = (q @ k.repeat_interleave(2, 1).transpose(-1, -2) / D**0.5 - torch.arange(LK)).detach()
    scores = scores.masked_fill(~mask | (torch.arange(LK) == 2), -torch.inf)
    torch.testing.assert_close(results[0][1], scores.amax(-1))


def test_several_batch_axes_count_as_one():
    q, k, v = torch.randn(3, 2, 3, HKV, LQ, D, requires_grad=True).unbind()
    shift = torch.randn(2)
    texts = {"score": "s + shift[b // 3] * float(j)", "keep": "j <= i || b % 3 == 1"}
    found = attnjit.attention(q, k, v, operands={"shift": shift}, return_lse=True, **texts)
    i, j = torch.arange(LQ)[:, None], torch.arange(LQ)
    keep = (j <= i) | (torch.arange(3) == 1).reshape(3, 1, 1, 1)
    expected = dense(q, k, v, lambda s: s + shift.reshape(2, 1, 1, 1, 1) * j, keep)
    same_with_gradients(found, expected, (q, k, v))


@pytest.mark.parametrize("dynamic", [False, True])
def test_in_compiled_code(dynamic):
    torch._dynamo.reset()

    def step(q, k, v, rel, n):
        out = attnjit.attention(
            q, k, v, score=RELATIVE, keep="j <= i + n", operands={"rel": rel, "n": n}, causal=None
        )
        return out.square().sum()

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    rel = torch.randn(H, 5)
    for n in (1, 3):
        leaves = tensors()
        found, expected = compiled(*leaves, rel, n), step(*leaves, rel, n)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(torch.autograd.grad(found, leaves), torch.autograd.grad(expected, leaves))


def test_a_part_has_the_results_of_the_whole():
    q, k, v = tensors(requires_grad=False)
    operands = {"rel": torch.randn(H, 5)}
    said = {"score": RELATIVE, "keep": "j <= i + 2", "operands": operands}
    whole = attnjit.attention(q, k, v, **said)
    for first in (0, 3):
        part = attnjit.attention(q[:, :, first:], k, v, **said, row_offset=first)
        torch.testing.assert_close(part, whole[:, :, first:])
    part = attnjit.attention(
        q, k[:, :, 2:], v[:, :, 2:], score="s", keep="j >= 2 && j <= i + 2", key_offset=2
    )
    torch.testing.assert_close(part, attnjit.attention(q, k, v, keep="j >= 2 && j <= i + 2"))


def test_opcheck():
    q, k, v = tensors(requires_grad=False)
    operands = Operands(read=(torch.randn(H, 5), torch.tensor(3, dtype=torch.int32)))
    scalars = Scalars(
        diagonal=TOP_LEFT, score=RELATIVE, keep="j < n + off", operand_names=("rel", "n"), row_offset=3
    )
    inputs = (*operands, *scalars)
    torch.library.opcheck(torch.ops.attnjit.forward.default, (q, k, v, *inputs, True, False, False, False))
    out, lse, *_ = torch.ops.attnjit.forward(q, k, v, *inputs, True, False, False, False)
    backward = (torch.randn_like(out), None, q, k, v, out, lse, *inputs, False, False, True, (True, False))
    torch.library.opcheck(torch.ops.attnjit.backward.default, backward)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"score": lambda s: s},
            TypeError,
            "score: expected a text, not function; flex_attention takes functions",
        ),
        ({"keep": torch.ones(1)}, TypeError, "keep: expected a text, not Tensor"),
        (
            {"keep": "j < n", "operands": {"n": [3]}},
            TypeError,
            "operands: n is of type list; expected a tensor or",
        ),
        ({"keep": "j < n", "operands": {"n": None}}, TypeError, "operands: n is of type NoneType"),
        ({"keep": "j < n", "operands": [3]}, TypeError, "operands: expected a dict, not list"),
    ],
)
def test_what_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        attnjit.attention(*tensors(), **options)


def test_gradients_of_operands():
    q, k, v = tensors()
    rel, gate = torch.randn(H, 5, requires_grad=True), torch.randn((), requires_grad=True)
    still = torch.randn(LK)
    found = attnjit.attention(
        q, k, v, score="(s + rel[h, clamp(j - i, -2, 2) + 2]) * sigmoid(gate) + still[j]",
        operands={"rel": rel, "still": still, "gate": gate}, return_lse=True,
    )  # fmt: skip
    distance = (torch.arange(LK) - torch.arange(LQ)[:, None]).clamp(-2, 2) + 2
    expected = dense(q, k, v, lambda s: (s + rel[:, distance]) * gate.sigmoid() + still)
    same_with_gradients(found, expected, (q, k, v, rel, gate))


def test_gradients_of_operands_alone():
    q, k, v = tensors(requires_grad=False)
    bias = torch.randn(H, LQ, LK, dtype=torch.bfloat16, requires_grad=True)
    out = attnjit.attention(q, k, v, score="s + x[h, i, j]", operands={"x": bias})
    expected, _ = dense(q, k, v, lambda s: s + bias)
    dout = torch.randn_like(out)
    (found,), (wanted,) = (torch.autograd.grad(t, bias, dout) for t in (out, expected))
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, wanted, rtol=2e-2, atol=1e-3)


def test_an_operand_of_a_rule_alone_has_a_gradient_of_zeros():
    q, k, v = tensors()
    x = torch.randn(LK, requires_grad=True)
    out = attnjit.attention(q, k, v, keep="x[j] > -0.5", operands={"x": x})
    assert not torch.autograd.grad(out.sum(), x)[0].any()


def test_an_operand_may_require_a_gradient_where_none_is_computed():
    slope = torch.zeros((), requires_grad=True)
    with torch.no_grad():
        attnjit.attention(*tensors(), score="s + x", operands={"x": slope})


def test_values_of_texts():
    """Of the evaluation that the other tests stand on."""
    i, j = torch.arange(4)[:, None], torch.arange(-2, 3)
    f, wide = torch.tensor([1.5, -0.5]), torch.tensor([[1, 2], [3, 4]], dtype=torch.int32)
    value = lambda text: evaluate(
        text, {"i": i, "j": j}, {"f": f, "wide": wide}, s=torch.tensor(2.0).double()
    )
    for text, expected in (
        ("i & 3", i & 3),
        ("-j // 2 + j % 3 * 2", -j // 2 + j % 3 * 2),
        ("j // (i - i)", torch.zeros(4, 5, dtype=torch.int64)),
        ("1 + 2 << 1", torch.tensor(6)),
        ("i < 2 && !(j == 0) || false", (i < 2) & (j != 0)),
        ("i < j ? i : j < 0 ? -1 : 7", torch.where(i < j, i, torch.where(j < 0, -1, 7))),
        ("wide[i, j]", wide[i.clamp(max=1), j.clamp(0, 1)].long()),
        ("f[0] / 2 + s", torch.tensor(2.75).double()),
        ("0.1", torch.tensor(0.1).double()),
        ("int(-1.5) + int(true)", torch.tensor(0)),
        ("min(i, j) * 1.0", torch.minimum(i, j).double()),
    ):
        torch.testing.assert_close(value(text), expected)


def test_formulas_that_kernels_are_held_against():
    """The gradients that formulas write out, against autograd through the same."""
    q, k, v = tensors()
    scalars = Scalars(
        softcap=3.0, diagonal=BOTTOM_RIGHT, score="abs(s) * 2.0 + float(off)", keep="j <= i + off + g"
    )
    out, _ = formulas.attend(q, k, v, Operands(), scalars)
    dout = torch.randn_like(out)
    found = formulas.gradients(
        out.detach(), dout, None, q.detach(), k.detach(), v.detach(), Operands(), scalars
    )
    expected = torch.autograd.grad(out, (q, k, v), dout)
    torch.testing.assert_close([g.float() for g in found[:3]], list(expected))
