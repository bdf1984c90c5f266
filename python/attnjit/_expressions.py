"""Masks and scores that a call says instead of storing them (docs/reference/expressions.md)."""

from collections.abc import Mapping

import torch
from torch import Tensor

from ._scalars import Scalars

# The dtype of a number of Python, by its type; of bool before int, which it is too.
_DTYPES = (
    (bool, torch.bool),
    ((int, torch.SymInt), torch.int32),
    ((float, torch.SymFloat), torch.float32),
)


def _tensor(name: str, value, device: torch.device) -> Tensor:
    if isinstance(value, Tensor):
        return value
    for types, dtype in _DTYPES:
        if isinstance(value, types):
            return torch.full((), value, dtype=dtype, device=device)
    raise TypeError(f"operands: {name} is of type {type(value).__name__}; expected a tensor or a number")


def said(
    scalars: Scalars,
    score: str | None,
    keep: str | None,
    operands: Mapping | None,
    device: torch.device,
    row_offset: int = 0,
    key_offset: int = 0,
) -> tuple[Scalars, tuple[Tensor, ...]]:
    """The scalars with the expressions of a call, and the tensors that these read; numbers become tensors of rank 0.

    Raises:
        TypeError: a text that is no str, an operand that is neither a tensor nor a number.
    """
    for name, text in (("score", score), ("keep", keep)):
        if text is not None and not isinstance(text, str):
            raise TypeError(
                f"{name}: expected a text, not {type(text).__name__}; flex_attention takes functions"
            )
    if operands is not None and not isinstance(operands, Mapping):
        raise TypeError(f"operands: expected a dict, not {type(operands).__name__}")
    operands = operands or {}
    read = tuple(_tensor(name, value, device) for name, value in operands.items())
    texts = {"score": score, "keep": keep, "operand_names": tuple(operands)}
    return scalars._replace(**texts, row_offset=row_offset, key_offset=key_offset), read
