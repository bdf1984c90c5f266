"""bench/users.py on CPU tensors: its arguments, and the references that it measures errors against."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def users(monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.syspath_prepend(str(BENCH))
    import users

    return users


def random_operands(rows, heads_kv, mask_shape, bias_shape):
    """q, k, v, mask, bias and dout of rows (..., heads, seqlen, head dim)."""
    keys = (*rows[:-3], heads_kv, *rows[-2:])
    q, k, v, bias, dout = (
        torch.randn(shape, dtype=torch.bfloat16) for shape in (rows, keys, keys, bias_shape, rows)
    )
    mask = torch.rand(mask_shape) < 0.5
    mask[..., 0] = True
    return [q, k, v, mask, bias], dout


def by_autograd(operands, dout, causal):
    q, k, v, mask, bias = (t if t.dtype == torch.bool else t.double().requires_grad_() for t in operands)
    keys, values, kept, added = (
        t.repeat_interleave(q.shape[-3] // t.shape[-3], -3) if t.shape[-3] > 1 else t
        for t in (k, v, mask, bias)
    )
    kept = kept & torch.ones(kept.shape[-2:], dtype=torch.bool).tril() if causal else kept
    scores = q @ keys.mT * q.shape[-1] ** -0.5 + added
    out = scores.masked_fill(~kept, float("-inf")).softmax(-1) @ values
    return [out, *torch.autograd.grad(out, (q, k, v, bias), dout.double())]


@pytest.mark.parametrize("causal", ["", "top-left"])
@pytest.mark.parametrize(
    "operands",
    [
        ((2, 4, 9, 8), 4, (2, 1, 9, 9), (1, 4, 9, 9)),
        ((2, 4, 9, 8), 2, (2, 2, 9, 9), (2, 2, 9, 9)),
        ((1, 2, 9, 8), 1, (1, 1, 9, 9), (1, 1, 9, 9)),
        ((3, 2, 4, 9, 8), 4, (1, 2, 1, 9, 9), (1, 1, 4, 9, 9)),
    ],
    ids=["shared", "grouped", "one kv head", "windows"],
)
def test_references_of_users(users, operands, causal):
    operands, dout = random_operands(*operands)
    found = users.references(SimpleNamespace(causal=causal), operands, dout)
    torch.testing.assert_close(found, by_autograd(operands, dout, causal))


def test_users_refuses_a_wrong_result(users):
    q = torch.randn(4, 8, requires_grad=True)
    contestant = SimpleNamespace(out=2 * q)
    truth = [2 * q.detach(), torch.full_like(q, 2)]
    dout = torch.ones_like(q)
    assert users.errors_of(contestant, [q], dout, truth) == {"out": 0, "dq": 0}
    with pytest.raises(users.Refused, match="dq is wrong"):
        users.errors_of(contestant, [q], dout, [truth[0], 1.1 * truth[1]])


def test_arguments_of_users(users, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["users.py", "--filter", "no such row"])
    with pytest.raises(SystemExit):
        users.main()
    assert "no problem has any of ['no such row']" in capsys.readouterr().err
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["users.py", "--filter", "a:", "g:", "--flex"])
    assert users.main() == 7
