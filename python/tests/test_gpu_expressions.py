"""Masks and scores that are said, on a GPU against the formulas in fp64, forward and gradients."""

import pytest
import torch

import attnjit
from attnjit._call import Operands
from attnjit._scalars import NO_DIAGONAL, TOP_LEFT, Scalars

import accuracy
import formulas

pytestmark = pytest.mark.gpu

B, H, HKV, L, D = 2, 4, 2, 300, 64
RELATIVE = "s + rel[h, clamp(j - i, -128, 128) + 128]"


def make(*shape, dtype=torch.bfloat16, requires_grad=True):
    return torch.randn(shape, dtype=dtype, device="cuda", requires_grad=requires_grad)


def qkv(batch=B, dtype=torch.bfloat16):
    return make(batch, H, L, D, dtype=dtype), *(make(batch, HKV, L, D, dtype=dtype) for _ in range(2))


def lengths(*values):
    return torch.tensor(values, dtype=torch.int32, device="cuda")


def documents():
    return (torch.arange(L, device="cuda") // lengths(70, 111)[:, None]).int()


def check(q, k, v, score=None, keep=None, read=None, diagonal=None, **tensors):
    """One call and its gradients."""
    read = read or {}
    names = {"score": score, "keep": keep}
    out, lse = attnjit.attention(
        q, k, v, **names, operands=read, diagonal=diagonal, return_lse=True, **tensors
    )
    dout, dlse = torch.randn_like(out), torch.randn_like(lse)
    leaves = [t for t in (q, k, v, tensors.get("bias")) if t is not None]
    found = torch.autograd.grad((out, lse), leaves, (dout, dlse))
    gradients = [*found, *[None] * (5 - len(found))]
    where = NO_DIAGONAL if diagonal is None else TOP_LEFT
    scalars = Scalars(diagonal=where, **names, operand_names=tuple(read))
    problem = (q, k, v, Operands(**tensors, read=tuple(read.values())), scalars)
    accuracy.check(problem, out, lse, gradients, dout, dlse)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rel_dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_relative_positions_within_documents(dtype, rel_dtype):
    torch.manual_seed(0)
    rel = make(H, 257, dtype=rel_dtype, requires_grad=False)
    read = {"rel": rel, "doc": documents()}
    check(*qkv(dtype=dtype), RELATIVE, "doc[b, i] == doc[b, j] && j <= i", read)


@pytest.mark.parametrize(
    ("score", "keep", "names"),
    [
        ("5.0 * tanh(s / 5.0)", None, []),
        ("s * sigmoid(gate[h])", "j <= i + 7", ["gate"]),
        (None, "j <= i && (i - j) % 4 == 0 && i - j < 50", []),
        (None, "some[b, (i + j) % 5]", ["some"]),
        ("(i + j) % n == 0 ? s : s / 2 - float(abs(i - j)) * 0.01", "j < n * 90", ["n"]),
    ],
)
def test_masks_and_scores(score, keep, names):
    torch.manual_seed(0)
    read = {
        "gate": make(H, dtype=torch.float32, requires_grad=False),
        "some": torch.tensor([[1, 1, 0, 1, 1], [0, 1, 0, 1, 1]], dtype=torch.bool, device="cuda"),
        "n": torch.tensor(3, dtype=torch.int32, device="cuda"),
    }
    check(*qkv(), score, keep, {name: read[name] for name in names})


def test_beside_masks_biases_and_lengths():
    torch.manual_seed(0)
    mask = torch.rand(B, 1, L, L, device="cuda") < 0.8
    bias = make(1, H, L, L)
    tensors = {"mask": mask, "bias": bias, "seqlens_q": lengths(300, 131), "seqlens_kv": lengths(77, 300)}
    check(*qkv(), "s * 0.5 + float(g)", "j < Lk - 3 || i + off == j", diagonal="top-left", **tensors)


def test_packed_sequences():
    torch.manual_seed(0)
    begins = lengths(0, 100, 101, 300)
    read = {"prefix": lengths(20, 0, 64)}
    tensors = {"cu_seqlens_q": begins, "cu_seqlens_kv": begins}
    check(*qkv(1), None, "j <= i || j < prefix[b]", read, **tensors)


def test_a_number_makes_no_other_kernel():
    q, k, v = (t.detach() for t in qkv())
    attnjit.attention(q, k, v, keep="j <= i + n", operands={"n": 1})
    from attnjit._call import _native, context

    compiles = _native.counters(context())["compiles"]
    for n in (2, 50):
        found = attnjit.attention(q, k, v, keep="j <= i + n", operands={"n": n})
        mask = torch.ones(L, L, dtype=torch.bool, device="cuda").tril(n)
        torch.testing.assert_close(found, attnjit.attention(q, k, v, mask=mask), rtol=2e-2, atol=2e-2)
    assert _native.counters(context())["compiles"] <= compiles + 2  # those of the calls with a mask


def test_graphs_and_compiled_code():
    torch.manual_seed(0)
    q, k, v = (t.detach() for t in qkv())
    rel = make(H, 257, dtype=torch.float32, requires_grad=False)
    call = lambda: attnjit.attention(q, k, v, score=RELATIVE, operands={"rel": rel})
    expected = call()
    assert torch.equal(torch.compile(call, fullgraph=True)(), expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = call()
    rel.zero_()
    graph.replay()
    torch.testing.assert_close(found, attnjit.attention(q, k, v), rtol=2e-2, atol=2e-2)


def test_faults_of_texts_and_operands():
    q, k, v = (t.detach() for t in qkv())
    with pytest.raises(ValueError, match=r"dog is no index.*\n  dog\[b, i\] == 1\n  \^"):
        attnjit.attention(q, k, v, keep="dog[b, i] == 1", operands={"doc": documents()})
    with pytest.raises(TypeError, match="doc: dtype is int64; expected .*, int32 or bool"):
        attnjit.attention(q, k, v, keep="doc[b, i] == 1", operands={"doc": documents().long()})
    with pytest.raises(ValueError, match="doc: it is not on a CUDA device"):
        attnjit.attention(q, k, v, keep="doc[b, i] == 1", operands={"doc": documents().cpu()})


@pytest.mark.parametrize(
    ("score", "shapes", "deterministic"),
    [
        (RELATIVE, {"rel": (H, 257)}, True),
        ("s * sigmoid(gate) + shift[g] * float(j % 3)", {"gate": (), "shift": (HKV,)}, True),
        ("s + row[b, i] * key[h, j]", {"row": (B, L), "key": (H, L)}, True),
        ("s + pair[h, i, j] * 0.5", {"pair": (H, L, L)}, True),
        ("s + block[b, i // 64, j // 64]", {"block": (B, 5, 5)}, False),
    ],
)
def test_gradients_of_operands(score, shapes, deterministic):
    torch.manual_seed(0)
    q, k, v = qkv()
    read = {name: make(*shape, dtype=torch.float32) for name, shape in shapes.items()}
    leaves = q, k, v, *read.values()
    call = lambda: attnjit.attention(q, k, v, score=score, operands=read, deterministic=deterministic)
    out = call()
    dout = torch.randn_like(out)
    found = torch.autograd.grad(out, leaves, dout)
    scalars = Scalars(diagonal=NO_DIAGONAL, score=score, operand_names=tuple(read))
    exact, _ = formulas.attend(q, k, v, Operands(read=tuple(read.values())), scalars)
    for gradient, wanted in zip(found, torch.autograd.grad(exact, leaves, dout.double())):
        error = (gradient.double() - wanted).abs().max().item()
        assert error <= 0.02 * wanted.abs().max().item() + 0.02
    if deterministic:
        again = torch.autograd.grad(call(), leaves, dout)
        assert all(torch.equal(a, b) for a, b in zip(found, again))


def test_atomics_are_refused_where_gradients_are_to_be_the_same_bits():
    block = make(5, 5, dtype=torch.float32)
    out = attnjit.attention(
        *qkv(), score="s + block[i // 64, j // 64]", operands={"block": block}, deterministic=True
    )
    with pytest.raises(ValueError, match="block is added up by atomics, which is not deterministic"):
        out.sum().backward()
