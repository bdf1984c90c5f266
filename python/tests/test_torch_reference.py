"""attnjit.reference.attention against a loop over the formulas, pair by pair."""

import inspect
import math
from itertools import pairwise

import pytest
import torch

import attnjit

from reference_calls import DV, HKV, LK, LQ, WIDE, B, D, H, lengths, tensors


def element(operand, *place):
    """That of an operand which broadcasts, or has planes that neighbours or heads of a group share."""
    sizes = (B, H, LQ, LK)
    operand = operand[(None,) * (4 - operand.dim())]
    of = zip(operand.shape, place, sizes)
    return operand[tuple(index * has // size if has > 1 else 0 for has, index, size in of)].item()


def loop(
    q, k, v, mask=None, bias=None, sink=None, slope=None, scale=D**-0.5, softcap=None, keep=lambda b, h, i, j: True,
    score=lambda s, b, h, i, j: s, off=lambda b: 0, rows=lambda b: LQ,
):  # fmt: skip
    """(out, lse, largest score of each row) by one formula for each pair."""
    out = q.new_zeros(*q.shape[:3], v.shape[3])
    lse, largest = (q.new_full(q.shape[:3], -math.inf) for _ in "lm")
    for b, h, i in torch.cartesian_prod(*map(torch.arange, q.shape[:3])).tolist():
        terms = {}
        for j in range(k.shape[2]) if i < rows(b) else ():
            if not keep(b, h, i, j) or (mask is not None and not element(mask, b, h, i, j)):
                continue
            s = score(scale * torch.dot(q[b, h, i], k[b, h * HKV // H, j]).item(), b, h, i, j)
            s = softcap * math.tanh(s / softcap) if softcap else s
            s += element(bias, b, h, i, j) if bias is not None else 0
            s -= slope(b, h) * abs(i + off(b) - j) if slope is not None else 0
            if s > -1e38:
                terms[j] = s
        largest[b, h, i] = max(terms.values(), default=-math.inf)
        all_scores = [*terms.values()]
        if sink is not None and i < rows(b) and sink[h] > -1e38:
            all_scores.append(sink[h].item())
        if all_scores:
            top = max(all_scores)
            lse[b, h, i] = top + math.log(sum(math.exp(s - top) for s in all_scores))
        for j, s in terms.items():
            out[b, h, i] += math.exp(s - lse[b, h, i]) * v[b, h * HKV // H, j]
    return out, lse, largest


def check(options, q=None, **of_loop):
    """Every result of a call."""
    own_q, k, v = tensors()
    q = own_q if q is None else q
    found = attnjit.reference.attention(
        q, k, v, **options, return_lse=True, return_row_max=True, return_max_logits=True
    )
    expected = loop(q, k, v, **of_loop)
    of_heads = expected[2].transpose(0, 1).flatten(1).amax(1)
    torch.testing.assert_close(found, (*expected, of_heads))


def test_the_arguments_are_those_of_attention():
    ours, theirs = (inspect.signature(f.attention).parameters for f in (attnjit.reference, attnjit))
    assert list(ours) == list(theirs)
    assert [(p.kind, p.default) for p in ours.values()] == [(p.kind, p.default) for p in theirs.values()]


def test_no_options():
    check({})
    check({"scale": -0.7, "softcap": 0.5}, scale=-0.7, softcap=0.5)


@pytest.mark.parametrize(
    "shape",
    [(LK,), (LQ, LK), (B, 1, 1, LK), (1, H, LQ, LK), (B, HKV, LQ, LK), (1, 1, LQ, 1), (B, H, 1, 1)],
    ids=str,
)
def test_masks_and_biases_of_each_shape(shape):
    torch.manual_seed(1)
    mask, bias = torch.rand(shape) < 0.6, torch.randn(shape, dtype=WIDE)
    check({"mask": mask, "bias": bias}, mask=mask, bias=bias)
    check({"mask": mask.byte(), "bias": bias.float()}, mask=mask, bias=bias.float())


def test_planes_that_neighbours_share():
    """Of four elements, of which the loop knows the planes by its own count."""
    q, k, v = (t.repeat(2, 1, 1, 1) for t in tensors())
    bias = torch.randn(2, HKV, LQ, LK, dtype=WIDE)
    found = attnjit.reference.attention(q, k, v, bias=bias, return_lse=True)
    for b in range(4):
        one = bias[b // 2 : b // 2 + 1]
        expected = loop(*(t[b : b + 1] for t in (q, k, v)), bias=one)
        torch.testing.assert_close([t[b : b + 1] for t in found], list(expected[:2]))


def test_biases_that_are_no_mask():
    bias = torch.zeros(LQ, LK, dtype=WIDE)
    bias[0], bias[1, 2], bias[2, 1] = -math.inf, torch.finfo(torch.float32).min, -1e30
    check({"bias": bias}, bias=bias)


def test_sinks():
    sink = torch.tensor([0.5, -math.inf, 80.0, -1e30], dtype=WIDE)
    mask = torch.ones(B, 1, LQ, LK, dtype=torch.bool)
    mask[0, 0, 1] = False
    options = {"mask": mask, "sink": sink, "seqlens_q": lengths(2, 3)}
    check(options, mask=mask, sink=sink, rows=lambda b: (2, 3)[b])


@pytest.mark.parametrize(
    ("options", "keep"),
    [
        ({"causal": "top-left"}, lambda i, j: j <= i),
        ({"causal": "bottom-right"}, lambda i, j: j <= i + LK - LQ),
        ({"causal": "bottom-right", "diagonal_offset": -3}, lambda i, j: j <= i + LK - LQ - 3),
        ({"window": (1, 0), "diagonal": "top-left"}, lambda i, j: i - 1 <= j <= i),
        ({"window": (1, -1), "diagonal": "bottom-right", "diagonal_offset": 1}, lambda i, j: i + 2 <= j),
        ({"window": (1, 2), "causal": "top-left"}, lambda i, j: i - 1 <= j <= i),
    ],
)
def test_diagonals(options, keep):
    check(options, keep=lambda b, h, i, j: keep(i, j))


@pytest.mark.parametrize("shape", [(H,), (B, H)])
def test_slopes_and_lengths(shape):
    slopes, rows, keys = torch.randn(shape), (2, 3), (5, 1)
    options = {"seqlens_q": lengths(*rows), "seqlens_kv": lengths(*keys).long(), "diagonal": "bottom-right"}
    check(
        options | {"alibi_slopes": slopes, "diagonal_offset": 1},
        slope=lambda b, h: slopes.expand(B, H)[b, h].item(),
        off=lambda b: keys[b] - rows[b] + 1,
        rows=lambda b: rows[b],
        keep=lambda b, h, i, j: j < keys[b],
    )
    q, k, v = (t[:, :, :LQ] for t in tensors())
    attnjit.reference.attention(q, k, v, alibi_slopes=slopes)  # of as many rows as keys, without a diagonal


def test_expressions():
    rel, doc = torch.randn(H, 5), torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 2, 2]], dtype=torch.int32)
    options = {
        "score": "s * (1 + g) + rel[h, clamp(j - i, -2, 2) + 2] * gain",
        "keep": "doc[b, i] == doc[b, j] || j == off",
        "operands": {"rel": rel, "doc": doc, "gain": 0.5},
        "softcap": 3.0,
        "diagonal": "bottom-right",
    }
    check(
        options,
        softcap=3.0,
        score=lambda s, b, h, i, j: s * (1 + h // 2) + rel[h, min(max(j - i, -2), 2) + 2].item() * 0.5,
        keep=lambda b, h, i, j: doc[b, i] == doc[b, j] or j == LK - LQ,
    )
    check(
        {
            "keep": "j <= i + off",
            "score": "s + float(i - j)",
            "row_offset": 7,
            "key_offset": 5,
            "causal": "top-left",
        },
        score=lambda s, b, h, i, j: s + i + 7 - (j + 5),
        keep=lambda b, h, i, j: j <= i,
    )


def test_paged_keys_and_drafts():
    """Of pages whose other rows, and whose entries past the keys in use, are rubbish."""
    q, _, _ = tensors()
    torch.manual_seed(2)
    pools = torch.randn(6, HKV, 2, D, dtype=WIDE), torch.randn(6, HKV, 2, DV, dtype=WIDE)
    table, keys = lengths(4, 1, 2, 0, -9, 77).reshape(B, 3), (5, 2)
    k, v = (t[table.long().clamp(0, 5)].transpose(1, 2).flatten(2, 3)[:, :, :LK].clone() for t in pools)
    pools[0][2, :, 1] = pools[1][2, :, 1] = math.nan
    tree = torch.eye(LQ, dtype=torch.bool) | (torch.rand(B, 1, LQ, LQ) < 0.5)
    used = {"seqlens_kv": lengths(*keys)}

    def keep(b, h, i, j):
        column = j - keys[b] + LQ
        return j < keys[b] and (column < 0 or bool(tree[b, 0, i, column]))

    expected = loop(q, k, v, keep=keep)
    for keys_of, more in ((pools, {"block_table": table}), ((k, v), {})):
        found = attnjit.reference.attention(q, *keys_of, **used, **more, tail_mask=tree, return_lse=True)
        torch.testing.assert_close(found, expected[:2])


def packed(q, k, v, **options):
    results = attnjit.reference.attention(q, k, v, **options, return_lse=True, return_row_max=True)
    return [t.detach() for t in results]


def test_packed_sequences():
    """With a mask and a bias of fewer rows and keys than a sequence has, and numbers out of range."""
    torch.manual_seed(3)
    q, k, v = (torch.randn(1, heads, 9, n, dtype=WIDE) for heads, n in ((H, D), (HKV, D), (HKV, DV)))
    rows, keys = (0, 3, 3, 4, 7), (0, 4, 6, 6, 9)
    begins = {"cu_seqlens_q": lengths(5, *rows[1:]), "cu_seqlens_kv": lengths(*keys[:-1], 99)}
    mask, bias = torch.rand(2, 1, 2, 3) < 0.8, torch.randn(4, HKV, 3, 2, dtype=WIDE)
    slopes = torch.rand(4, H)
    found = packed(
        q, k, v, **begins, mask=mask, bias=bias, alibi_slopes=slopes, causal="bottom-right", sink=torch.zeros(H).double(),
        keep="i + j != n[b]", operands={"n": lengths(1, 9, 9, 2)},
    )  # fmt: skip
    for b, (row, end) in enumerate(pairwise(rows)):
        own_keys = slice(keys[b], keys[b + 1])
        count, off = keys[b + 1] - keys[b], (keys[b + 1] - keys[b]) - (end - row)
        inside = torch.zeros(1, 1, LQ, LK, dtype=torch.bool)
        inside[..., :2, :2] = mask[b // 2, :, :2, :2]
        wide = torch.zeros(1, H, LQ, LK, dtype=WIDE)
        wide[..., :2] = bias[b].repeat_interleave(2, 0)
        expected = loop(
            q[:, :, row:end], k[:, :, own_keys], v[:, :, own_keys], sink=torch.zeros(H),
            slope=lambda _, h, b=b: slopes[b, h].item(), off=lambda _, off=off: off,
            keep=lambda _, h, i, j, b=b, off=off, inside=inside: (
                j <= i + off and bool(inside[0, 0, i, j]) and i + j != (1, 9, 9, 2)[b]
            ),
            score=lambda s, _, h, i, j, wide=wide: s + wide[0, h, i, j].item(),
        )  # fmt: skip
        assert count == own_keys.stop - own_keys.start
        torch.testing.assert_close([t[:, :, row:end] for t in found], list(expected))
    assert not found[0][:, :, 7:].any() and (found[1][:, :, 7:] == -math.inf).all()


def test_packed_queries_with_paged_keys():
    torch.manual_seed(4)
    q = torch.randn(1, H, 6, D, dtype=WIDE)
    pools = torch.randn(6, HKV, 2, D, dtype=WIDE), torch.randn(6, HKV, 2, DV, dtype=WIDE)
    table, keys, begins = lengths(4, 1, 2, 0, 3, 5).reshape(2, 3), (5, 2), (0, 2, 5)
    bias = torch.randn(1, H, 1, 6, dtype=WIDE)
    found = packed(
        q, *pools, cu_seqlens_q=lengths(*begins), seqlens_kv=lengths(*keys), block_table=table, bias=bias, causal="bottom-right",
    )  # fmt: skip
    for b, (row, end) in enumerate(pairwise(begins)):
        k, v = (t[table[b].long()].transpose(0, 1).flatten(1, 2)[None, :, : keys[b]] for t in pools)
        expected = loop(
            q[:, :, row:end], k, v, score=lambda s, _, h, i, j: s + bias[0, h, 0, j].item(),
            keep=lambda _, h, i, j, b=b, row=row, end=end: j <= i + keys[b] - (end - row),
        )  # fmt: skip
        torch.testing.assert_close([t[:, :, row:end] for t in found], list(expected))


@pytest.mark.parametrize("shape", [(1, 3, 1, LQ, LK), (B, 1, H, 1, LK), (3, 1, LQ, LK)], ids=str)
def test_more_batch_axes(shape):
    q, k, v = (torch.stack([t, 2 * t, -t], 1) for t in tensors())
    bias, mask = torch.randn(shape, dtype=WIDE), torch.rand(B, 3, 1, 1, LK) < 0.7
    found = attnjit.reference.attention(
        q, k, v, bias=bias, mask=mask, score="s + float(b)", return_lse=True, return_max_logits=True
    )
    wide = bias.expand(B, 3, -1, LQ, LK)
    most = torch.full((H,), -math.inf, dtype=WIDE)
    for a in range(3):
        expected = loop(
            q[:, a], k[:, a], v[:, a], bias=wide[:, a], mask=mask[:, a],
            score=lambda s, b, h, i, j, a=a: s + 3 * b + a,
        )  # fmt: skip
        torch.testing.assert_close([t[:, a] for t in found[:2]], list(expected[:2]))
        most = torch.maximum(most, expected[2].transpose(0, 1).flatten(1).amax(1))
    torch.testing.assert_close(found[2], most)


def test_prepared_masks(cpu_kernels):
    q, k, v = tensors()
    mask = torch.rand(B, HKV, LQ, LK) < 0.6
    expected = attnjit.reference.attention(q, k, v, mask=mask)
    prepared = attnjit.prepare_mask(mask)
    assert torch.equal(attnjit.reference.attention(q, k, v, mask=prepared), expected)
    more = [t[:, None].expand(-1, 3, -1, -1, -1) for t in (q, k, v)]
    prepared = attnjit.prepare_mask(mask[:, None])
    assert torch.equal(attnjit.reference.attention(*more, mask=prepared)[:, 2], expected)
    begins = lengths(0, 1, LQ)
    of_rows = {"cu_seqlens_q": begins, "cu_seqlens_kv": lengths(0, 2, LK)}
    one = [t[:1] for t in (q, k, v)]
    found = [attnjit.reference.attention(*one, **of_rows, mask=m) for m in (mask, attnjit.prepare_mask(mask))]
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_results_are_rounded_once(dtype):
    """And lie in memory as q does."""
    q, k, v = (t.to(dtype).transpose(1, 2).contiguous().transpose(1, 2) for t in tensors())
    bias = torch.randn(H, LQ, LK)
    out, lse = attnjit.reference.attention(q, k, v, bias=bias, return_lse=True)
    exact, exact_lse = attnjit.reference.attention(
        *(t.float() for t in (q, k, v)), bias=bias, return_lse=True
    )
    assert torch.equal(out, exact.to(dtype)) and torch.equal(lse, exact_lse) and lse.dtype == torch.float32
    assert out.transpose(1, 2).is_contiguous()


@pytest.mark.parametrize(("batch", "rows", "keys"), [(0, LQ, LK), (B, 0, LK), (B, LQ, 0), (B, 0, 0)])
def test_empty_axes(batch, rows, keys):
    shapes = (batch, H, rows, D), (batch, HKV, keys, D), (batch, HKV, keys, DV)
    leaves = [torch.randn(shape, requires_grad=True) for shape in shapes]
    bias, x = torch.randn(1, H, 1, keys, requires_grad=True), torch.randn(keys, requires_grad=True)
    out, lse, row_max, max_logits = attnjit.reference.attention(
        *leaves, bias=bias, score="s + x[j]", operands={"x": x}, return_lse=True, return_row_max=True,
        return_max_logits=True,
    )  # fmt: skip
    assert out.shape == (batch, H, rows, DV) and lse.shape == row_max.shape == (batch, H, rows)
    assert not out.any() and (lse == -math.inf).all() and (max_logits == -math.inf).all()
    for found, leaf in zip(
        torch.autograd.grad(out.sum() + lse.sum(), (*leaves, bias, x)), (*leaves, bias, x)
    ):
        assert found.shape == leaf.shape and not found.any()
