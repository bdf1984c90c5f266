"""Notes on calls that are slower than they could be, or are computed by others."""

import warnings
from functools import cache

import torch


@cache
def _note(text: str) -> None:
    warnings.warn(text, stacklevel=4)


def note(text: str) -> None:
    """Warns with a text, once in a process. A compiler that traces the caller does not: it cannot trace a warning."""
    if not torch.compiler.is_compiling():
        _note(text)
