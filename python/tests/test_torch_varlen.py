"""Packed sequences on CPU tensors: attnjit.attention with cu_seqlens, and flash_attn_varlen_func."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

import attnjit

import formulas
from random_calls import Call, of_packed_sequences, random_kind, with_features

pytestmark = pytest.mark.usefixtures("cpu_kernels")

H, HKV, D, DV = 4, 2, 8, 16
ROWS, KEYS = [0, 5, 5, 6, 13], [0, 4, 9, 9, 16]  # the last number but one: a sequence without keys
LONGEST = 7


def tensors():
    torch.manual_seed(0)
    sizes = (ROWS[-1] + 2, H, D), (KEYS[-1] + 1, HKV, D), (KEYS[-1] + 1, HKV, DV)
    return [torch.randn(size, dtype=torch.float32, requires_grad=True) for size in sizes]


def begins():
    return [torch.tensor(numbers, dtype=torch.int32) for numbers in (ROWS, KEYS)]


def each_sequence(q, k, v, bias=None, slopes=None, **options):
    """What the calls for each sequence return, one after another, and zeros behind."""
    outs = []
    for b, (row, end, key, last) in enumerate(zip(ROWS, ROWS[1:], KEYS, KEYS[1:])):
        of_heads = [t[None].transpose(1, 2) for t in (q[row:end], k[key:last], v[key:last])]
        own = None if bias is None else bias[b : b + 1, :, : end - row, : last - key]
        own_slopes = slopes if slopes is None or slopes.dim() == 1 else slopes[b]
        out = attnjit.attention(*of_heads, bias=own, alibi_slopes=own_slopes, **options)
        outs.append(out[0].transpose(0, 1))
    return torch.cat([*outs, q.new_zeros(q.shape[0] - ROWS[-1], H, DV)])


def packed(q, k, v, **options):
    cu_seqlens_q, cu_seqlens_kv = begins()
    of_heads = (t.transpose(0, 1)[None] for t in (q, k, v))
    out = attnjit.attention(*of_heads, cu_seqlens_q=cu_seqlens_q, cu_seqlens_kv=cu_seqlens_kv, **options)
    return out[0].transpose(0, 1)


def assert_same(found, expected, leaves):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    weights = torch.randn_like(found)
    gradients = [torch.autograd.grad((out * weights).sum(), leaves) for out in (found, expected)]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_attention_is_that_of_each_sequence():
    leaves = tensors()
    bias = torch.randn(4, H, LONGEST, LONGEST, requires_grad=True)
    options = {"causal": "bottom-right", "softcap": 2.0}
    found = packed(*leaves, bias=bias, **options)
    assert_same(found, each_sequence(*leaves, bias, **options), [*leaves, bias])
    assert found[ROWS[-1] :].abs().max() == 0


def test_one_row_of_the_keys_of_all():
    leaves = tensors()
    bias = torch.randn(1, H, 1, KEYS[-1] + 1, requires_grad=True)
    by_sequence = torch.nn.utils.rnn.pad_sequence(
        [bias[0, :, 0, key:end].T for key, end in pairwise(KEYS)], batch_first=True
    )
    expected = each_sequence(*leaves, by_sequence.transpose(1, 2)[:, :, None].expand(-1, -1, LONGEST, -1))
    assert_same(packed(*leaves, bias=bias), expected, [*leaves, bias])


def test_flash_attn_varlen_func():
    q, k, v = leaves = tensors()
    out = attnjit.flash_attn_varlen_func(
        q, k, v, *begins(), LONGEST, LONGEST, causal=True, window_size=(2, 0), softcap=3.0
    )
    expected = each_sequence(*leaves, causal="bottom-right", window=(2, 0), softcap=3.0)
    assert out.shape == (q.shape[0], H, DV) and out.is_contiguous()
    assert_same(out, expected, leaves)


@pytest.mark.parametrize("shape", [(H,), (len(ROWS) - 1, H)])
@pytest.mark.parametrize("causal", [False, True])
def test_slopes_of_flash_attn_varlen_func(shape, causal):
    leaves, slopes = tensors(), torch.rand(shape)
    out = attnjit.flash_attn_varlen_func(*leaves, *begins(), causal=causal, alibi_slopes=slopes)
    options = {"causal": "bottom-right"} if causal else {"diagonal": "bottom-right"}
    assert_same(out, each_sequence(*leaves, slopes=slopes, **options), leaves)


@pytest.mark.parametrize("seed", range(30))
def test_random_problems_beside_the_derivatives_of_formulas(seed):
    rng = random.Random(seed)
    kind = replace(random_kind(rng), dtype=torch.float32, bias_dtype=torch.float32)
    kind = of_packed_sequences(with_features(kind, rng), rng)
    for index in range(4):
        call = Call(kind, 100 * seed + index, "cpu")
        found = attnjit.attention(
            call.q, call.k, call.v, **call.options, return_lse=True, return_row_max=True,
            return_max_logits=True,
        )  # fmt: skip
        expected = formulas.attend(*call.problem)
        of = (call.q, call.k, *call.problem[3:])
        largest = formulas.row_max(*of), formulas.max_logits(*of)
        weights = [torch.randn_like(t).masked_fill(t.isinf(), 0) for t in found[:2]]
        gradients = call.gradients(found[:2], weights)
        theirs = call.gradients(expected, weights)
        names = ("out", "lse", "row_max", "max_logits", "dq", "dk", "dv", "dbias", "dsink")
        for name, ours, exact in zip(
            names, (*found, *gradients), (*expected, *largest, *theirs), strict=True
        ):
            if ours is not None:
                describe = lambda text, name=name, index=index: f"call {index}, {name}: {text}"
                torch.testing.assert_close(ours.double(), exact.double(), rtol=2e-4, atol=2e-4, msg=describe)


@pytest.mark.parametrize(("rows", "keys"), [(0, 5), (6, 0), (0, 0)])
def test_tensors_without_rows_or_keys(rows, keys):
    shapes = (1, H, rows, D), (1, HKV, keys, D), (1, HKV, keys, DV)
    leaves = [torch.randn(shape, requires_grad=True) for shape in shapes]
    begins = {
        f"cu_seqlens_{n}": torch.tensor([0, 0, e], dtype=torch.int32) for n, e in (("q", rows), ("kv", keys))
    }
    out, lse, row_max, max_logits = attnjit.attention(
        *leaves, return_lse=True, return_row_max=True, return_max_logits=True, **begins
    )
    assert out.shape == (1, H, rows, DV) and lse.shape == row_max.shape == (1, H, rows)
    assert out.abs().sum() == 0 and (lse == -torch.inf).all() and (max_logits == -torch.inf).all()
    found = torch.autograd.grad(out.sum() + lse.sum(), leaves)
    assert [g.shape for g in found] == [*shapes] and not sum(g.abs().sum() for g in found)
    rows_first = [t[0].transpose(0, 1) for t in leaves]
    assert attnjit.flash_attn_varlen_func(*rows_first, *begins.values()).shape == (rows, H, DV)


def test_compiled_code_is_the_same():
    leaves = tensors()
    compiled = torch.compile(attnjit.flash_attn_varlen_func, backend="aot_eager", fullgraph=True)
    assert_same(
        compiled(*leaves, *begins(), causal=True), each_sequence(*leaves, causal="bottom-right"), leaves
    )


def test_what_is_refused():
    q, k, v = tensors()
    with pytest.raises(NotImplementedError, match="dropout_p"):
        attnjit.flash_attn_varlen_func(q, k, v, *begins(), dropout_p=0.1)
    with pytest.raises(ValueError, match="q: it has 3 axes; packed sequences"):
        attnjit.attention(q, k, v, cu_seqlens_q=begins()[0], cu_seqlens_kv=begins()[1])
    with pytest.raises(TypeError, match="cu_seqlens_q: dtype is torch.float32"):
        attnjit.flash_attn_varlen_func(q, k, v, begins()[0].float(), begins()[1])
