"""torch.export of a module that calls attention, on CPU tensors, and the schemas of torch.ops.attnjit."""

import io
import subprocess
import sys

import pytest
import torch

import attnjit
from attnjit import _call, _scalars, _schemas

pytestmark = pytest.mark.usefixtures("cpu_kernels")


class Layer(torch.nn.Module):
    """Self attention with grouped heads, a mask, a sink, a softcap and a score with an operand."""

    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(32, 64)
        self.sink = torch.nn.Parameter(torch.randn(4))
        self.slope = torch.nn.Parameter(torch.randn(4))

    def forward(self, x, mask):
        parts = self.project(x).unflatten(-1, (8, 8)).transpose(1, 2).split((4, 2, 2), dim=1)
        out, lse = attnjit.attention(
            *parts, mask=mask, causal="top-left", sink=self.sink, softcap=20.0, score="s + slope[h]",
            operands={"slope": self.slope}, return_lse=True,
        )  # fmt: skip
        return out.transpose(1, 2).flatten(2), lse


def inputs(length):
    torch.manual_seed(0)
    return torch.randn(2, length, 32), torch.rand(2, 1, 1, length) > 0.3


def calls(program):
    return [node for node in program.graph.nodes if node.target == torch.ops.attnjit.forward.default]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_an_exported_program_after_a_file(dynamic, grad):
    layer = Layer()
    length = torch.export.Dim("length", min=2, max=64)
    shapes = {"x": {1: length}, "mask": {3: length}} if dynamic else None
    with torch.set_grad_enabled(grad):
        program = torch.export.export(layer, inputs(10), dynamic_shapes=shapes)
    assert len(calls(program)) == 1
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    for length in (10, 17) if dynamic else (10,):
        torch.testing.assert_close(loaded(*inputs(length)), layer(*inputs(length)))


def test_strict_export():
    layer = Layer()
    with torch.no_grad():
        program = torch.export.export(layer, inputs(10), strict=True)
    assert len(calls(program)) == 1
    torch.testing.assert_close(program.module()(*inputs(10)), layer(*inputs(10)))


def names(arguments):
    return tuple(argument.name for argument in arguments)


def test_schemas_have_the_arguments_of_calls():
    common = (*_call.Operands._fields, *_scalars.Scalars._fields)
    forward, backward = (getattr(torch.ops.attnjit, name).default._schema for name in ("forward", "backward"))
    assert names(forward.arguments) == (
        "q", "k", "v", *common, "need_lse", "need_row_max", "need_max_logits", "sequence_major",
    )  # fmt: skip
    assert names(backward.arguments) == (
        "dout", "dlse", "q", "k", "v", "out", "lse", *common, "need_dbias", "need_dsink", "deterministic",
        "need_read",
    )  # fmt: skip


def test_the_operators_have_the_schemas_of_the_file():
    assert set(_schemas.schemas()) == {"forward", "backward", "merge_lse", "prepare_mask"}
    for name, schema in _schemas.schemas().items():
        defined = getattr(torch.ops.attnjit, name).default._schema
        assert str(defined) == str(torch._C.parse_schema(f"attnjit::{name}{schema}"))


# A call by the library alone, with every kind of argument, of tensors that no implementation takes.
CALLS = """
import sys, torch
torch.ops.load_library(sys.argv[1])
q = torch.randn(1, 2, 4, 8)
try:
    torch.ops.attnjit.forward(
        q, q, q, q, *[None] * 14, [q], 0.5, True, 1, -1, 3, 2.0, 0, [1, 1, 4, 4, 0], [1, 1, 1, 1], "s + x[i]", None,
        ["x"], 0, 0, None, True, False, False, True,
    )
except RuntimeError as error:
    print(error)
assert "attnjit" not in sys.modules
"""


@pytest.mark.skipif(not _schemas.LIBRARY.is_file(), reason="libattnjit_torch was not built")
def test_the_library_without_the_package():
    child = subprocess.run([sys.executable, "-c", CALLS, _schemas.LIBRARY], capture_output=True, text=True)
    assert child.stdout == "q: it is not on a CUDA device; attnjit computes on these\n", child.stderr
