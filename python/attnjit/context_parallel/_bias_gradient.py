"""The gradient of a rank's slices of a bias."""

import torch
import torch.distributed as dist
from torch import Tensor

from ._exchange import Members
from ._schedule import Call


class BiasGradient:
    """dbias in the form of `bias` (4 axes), from the calls of a backward. What is broadcast over the rows is
    summed over the group in fp32."""

    def __init__(self, bias: Tensor, seqlen_kv: int):
        self._bias = bias
        self._over_keys = bias.shape[3] == 1
        self._over_rows = bias.shape[2] == 1
        # Regions that no call has stay zero.
        dtype = torch.float32 if self._over_rows or self._over_keys else bias.dtype
        self._sums = torch.zeros(bias.shape, dtype=dtype, device=bias.device)

    def target(self, call: Call) -> Tensor | None:
        """The memory that `call` writes its share to; None where dbias does not come from scores."""
        if self._over_keys:
            return None
        columns = self._columns(call)
        if self._over_rows:
            return torch.empty_like(columns)
        return columns[:, :, slice(*call.rows)]

    def add(self, call: Call, target: Tensor | None) -> None:
        """Takes what the call has left in its target."""
        if target is not None and self._over_rows:
            self._columns(call).add_(target)

    def _columns(self, call: Call) -> Tensor:
        return self._sums[..., call.start : call.start + call.keys[1] - call.keys[0]]

    def result(self, of_rows: Tensor | None, who: Members) -> Tensor:
        """dbias; `of_rows` is the gradient of a score that all keys of a row share, unless it is 0."""
        if self._over_keys and of_rows is not None:
            self._sums = _sum_to(of_rows.unsqueeze(-1), self._bias.shape)
        if self._over_rows:
            dist.all_reduce(self._sums, group=who.group)
        return self._sums.to(self._bias.dtype)


def _sum_to(rows: Tensor, shape: torch.Size) -> Tensor:
    """Sums (B, H, L, 1) over the axes where `shape` has 1, and over those that share planes."""
    for axis in (0, 1):
        if shape[axis] not in (1, rows.shape[axis]):
            rows = rows.unflatten(axis, (shape[axis], -1)).sum(axis + 1)
    return rows.sum_to_size(shape).contiguous()
