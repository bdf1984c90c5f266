"""The tensors that traced functions read."""

import torch
from torch import Tensor

from ._kept import kept
from ._operations import type_of
from ._value import INT

_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.bool)


class Captured:
    """Names tensors in the order in which they are first read; `operands` are these, as kernels read them, and
    numbers that have become some."""

    def __init__(self, device: torch.device):
        self.operands: dict[str, Tensor | float] = {}
        self._device = device
        self._names: dict[int, str] = {}
        self._tensors: list[Tensor] = []  # so that no other has the id of one

    def name(self, tensor: Tensor) -> str:
        """Raises ValueError for a tensor on another device, TypeError for float64 and complex numbers."""
        known = self._names.get(id(tensor))
        if known is not None:
            return known
        name = f"t{len(self.operands)}"
        self.operands[name] = self._readable(tensor)
        self._names[id(tensor)] = name
        self._tensors.append(tensor)
        return name

    def _readable(self, tensor: Tensor) -> Tensor:
        what = f"it reads a tensor of shape {tuple(tensor.shape)}"
        if tensor.dim() == 0:
            tensor = tensor.to(self._device)
        elif tensor.device != self._device:
            raise ValueError(f"{what} on {tensor.device}; query is on {self._device}")
        if tensor.dtype in _DTYPES:
            return tensor
        if type_of(tensor.dtype) != INT:
            raise TypeError(f"{what} of {tensor.dtype}; expected float32, float16 or bfloat16")
        return kept(tensor, (tensor,), tensor.int)
