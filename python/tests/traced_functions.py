"""Functions of FlexAttention beside the expressions that they are traced to, over all pairs of a small problem."""

import inspect

import torch
from test_native import FakeTensor, context, merged, without_rows
from torch.nn.attention.flex_attention import create_mask

from attnjit import _native
from attnjit._described import _CODES
from attnjit._expressions import _tensor
from attnjit.flex._numbers import settled
from attnjit.flex._tracing import Tracing
from attnjit.flex._value import FLOAT, INT, Value
from attnjit.reference._expressions import evaluate

SIZES = {"b": 2, "h": 4, "i": 24, "j": 24}


def _is_mask(function):
    parameters = inspect.signature(function).parameters.values()
    return sum(p.default is p.empty for p in parameters) == 4


def trace(function):
    """(text, operands) of a mask_mod or score_mod, numbers among these as tensors."""
    arguments = [Value(name, INT, 0, size - 1) for name, size in SIZES.items()]
    if not _is_mask(function):
        arguments.insert(0, Value("s", FLOAT))
    device = torch.device("cpu")
    tracing = Tracing(device)
    value, operands = tracing.trace("mod", function, *arguments), tracing.captured.operands
    text = settled(function, value.text, operands)
    return text, {name: _tensor(name, operand, device) for name, operand in operands.items()}


def _check_types(member, text, operands):
    """The library takes the text, in a call without rows."""
    read = [FakeTensor(0x1000, tensor.shape, _CODES[tensor.dtype]) for tensor in operands.values()]
    inputs = without_rows(0, 16) | {"read": read}
    results = {
        "out": FakeTensor(0, (0, 8, 16, 32)),
        "lse": None,
        "row_max": None,
        "max_logits": None,
        "stream": 0,
    }
    _native.enqueue_forward(context(), *merged(inputs, results, **{member: text}, names=tuple(operands)))


def check(function):
    """The text of a function, whose values are those of the function itself."""
    text, operands = trace(function)
    _check_types("keep" if _is_mask(function) else "score", text, operands)
    sizes = tuple(SIZES.values())
    along = lambda axis: torch.arange(sizes[axis]).reshape([-1 if a == axis else 1 for a in range(4)])
    grid = [along(axis) for axis in range(4)]
    s = torch.randn(sizes, dtype=torch.float64)
    found = evaluate(text, dict(zip(SIZES, grid)), operands, s=s).expand(sizes)
    if _is_mask(function):
        assert torch.equal(found, create_mask(function, *sizes, device="cpu"))
    else:
        expected = torch.as_tensor(function(s, *grid)).double().expand(sizes)
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)
    return text
