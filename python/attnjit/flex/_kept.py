"""What is made of tensors once, and kept for as long as these are."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

_Made = TypeVar("_Made")
_kept = WeakIdKeyDictionary()


def _is_to_be_made_anew(tensors: tuple[Tensor, ...]) -> bool:
    """Tensors of inference mode do not count their writes, and a graph that is captured makes its own each time that
    it is replayed."""
    if any(t.is_inference() for t in tensors):
        return True
    return tensors[0].is_cuda and torch.cuda.is_current_stream_capturing()


def kept(owner, tensors: tuple[Tensor, ...], make: Callable[[], _Made]) -> _Made:
    """What `make` makes of the tensors, once until they are others or are written to; it lives as long as `owner`."""
    if _is_to_be_made_anew(tensors):
        return make()
    state = [(id(t), t._version) for t in tensors]
    known = _kept.get(owner)
    if known is None or known[0] != state:
        known = _kept[owner] = state, make()
    return known[1]
