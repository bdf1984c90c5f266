"""The library of the operators without the package, on a GPU: the bits of calls through the package; and a program that
AOTInductor has compiled."""

import os
import random
import subprocess
import sys

import pytest
import torch
from test_torch_export import Layer
from torch.utils._python_dispatch import TorchDispatchMode

import attnjit
from attnjit import _nvrtc, _schemas

from random_calls import Call, of_packed_sequences, random_kind, with_features

pytestmark = pytest.mark.gpu

# Runs recorded calls by what the library alone defines and implements.
REPLAYS = """
import sys, torch
torch.ops.load_library(sys.argv[1])
calls = torch.load(sys.argv[2])
for number, (arguments, expected) in enumerate(calls):
    found = torch.ops.attnjit.forward(*arguments)
    for name, a, b in zip(("out", "lse", "row_max", "max_logits"), found, expected, strict=True):
        assert a.shape == b.shape and a.stride() == b.stride() and a.dtype == b.dtype, (number, name)
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True, msg=f"{number} {name}")
assert "attnjit" not in sys.modules
print(len(calls))
"""


class Recorder(TorchDispatchMode):
    """Keeps arguments and results of torch.ops.attnjit.forward."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        results = function(*arguments, **(options or {}))
        if function is torch.ops.attnjit.forward.default:
            self.calls.append((arguments, results))
        return results


def normal(*shape):
    return torch.randn(shape, dtype=torch.bfloat16, device="cuda")


def calls_of_each_argument():
    """One call at least that gives each argument of the operator."""
    maxima = {"return_lse": True, "return_row_max": True, "return_max_logits": True}
    for seed in range(16):
        rng = random.Random(seed)
        kind = with_features(random_kind(rng), rng)
        call = Call(of_packed_sequences(kind, rng) if seed % 3 == 0 else kind, seed, "cuda")
        attnjit.attention(call.q, call.k, call.v, **call.options, **(maxima if seed % 2 else {}))
    q, k, v = normal(2, 4, 65, 64), normal(2, 2, 90, 64), normal(2, 2, 90, 64)
    rel, doc = (
        torch.randn(4, 129, device="cuda"),
        torch.randint(0, 3, (2, 90), dtype=torch.int32, device="cuda"),
    )
    attnjit.attention(
        q, k, v, score="s + rel[h, clamp(j - i, -64, 64) + 64]", keep="doc[b, i] == doc[b, j]",
        operands={"rel": rel, "doc": doc}, row_offset=3, key_offset=-2,
    )  # fmt: skip
    mask = attnjit.prepare_mask(torch.rand(2, 1, 65, 90, device="cuda") < 0.7)
    attnjit.attention(q, k, v, mask=mask)
    attnjit.attention(normal(2, 3, 4, 33, 64), *normal(2, 2, 3, 4, 40, 64), bias=normal(1, 3, 4, 33, 40))
    attnjit.attention(q.transpose(2, 3).contiguous().transpose(2, 3), k, v)  # the elements of a row are apart
    table = torch.tensor([[3, 1, -1], [0, 2, 4]], dtype=torch.int32, device="cuda")
    lengths = torch.tensor([20, 45], dtype=torch.int32, device="cuda")
    tail = torch.rand(2, 1, 5, 5, device="cuda") < 0.7
    pages = normal(2, 5, 2, 16, 64)
    attnjit.attention(q[:, :, :5], *pages, block_table=table, seqlens_kv=lengths, tail_mask=tail)
    lists, counts = (torch.tensor(n, dtype=torch.int32, device="cuda") for n in ([[[[1], [0]]]], [[[1, 1]]]))
    attnjit.attention(q, k, v, blocks=attnjit.BlockLists(lists, counts, (64, 64), lists, counts))
    selected = torch.randint(-1, 90, (2, 2, 40), device="cuda")
    attnjit.attention(q, k, v, key_indices=selected)


@pytest.mark.skipif(not _schemas.LIBRARY.is_file(), reason="libattnjit_torch was not built")
def test_the_library_alone_gives_the_same_bits(tmp_path):
    with Recorder() as recorder, torch.no_grad():
        calls_of_each_argument()
    given = lambda value: torch.is_tensor(value) or value not in (None, [])
    for index, argument in enumerate(torch.ops.attnjit.forward.default._schema.arguments):
        assert any(given(arguments[index]) for arguments, _ in recorder.calls), argument.name
    torch.save(recorder.calls, tmp_path / "calls.pt")
    nvrtc = _nvrtc.find()
    child = subprocess.run(
        [sys.executable, "-c", REPLAYS, _schemas.LIBRARY, tmp_path / "calls.pt"],
        env=os.environ | ({"ATTNJIT_NVRTC": nvrtc} if nvrtc else {}),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert child.stdout.strip() == str(len(recorder.calls)), child.stderr


def test_aot_inductor(tmp_path):
    torch.manual_seed(0)
    layer = Layer().to("cuda", torch.bfloat16)
    inputs = lambda length: (normal(2, length, 32), torch.rand(2, 1, 1, length, device="cuda") > 0.3)
    length = torch.export.Dim("length", min=2, max=512)
    with torch.no_grad():
        program = torch.export.export(
            layer, inputs(40), dynamic_shapes={"x": {1: length}, "mask": {3: length}}
        )
        path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "layer.pt2"))
        compiled = torch._inductor.aoti_load_package(path)
        for length in (40, 129):
            given = inputs(length)
            torch.testing.assert_close(tuple(compiled(*given)), layer(*given), rtol=0.02, atol=0.02)
