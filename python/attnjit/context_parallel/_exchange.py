"""The ways of keys, values and their gradients between ranks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.distributed as dist
from torch import Tensor

from ._shares import Span, chunk_bounds, share, share_length

# Adds to dk and dv: (first key, end, dk, dv) of keys at hand.
Part = tuple[int, int, Tensor, Tensor]
Contribute = Callable[[tuple[Span, ...], Tensor, Tensor], list[Part]]


@dataclass(frozen=True)
class Members:
    """A process group and this rank's place in it."""

    group: dist.ProcessGroup | None
    ranks: int
    rank: int


def members(group) -> Members:
    """Of a process group, of a device mesh of one dimension, or of all ranks (None)."""
    if isinstance(group, dist.DeviceMesh):
        if group.ndim != 1:
            raise ValueError(f"group: the mesh has {group.ndim} dimensions; expected 1, as mesh['cp'] has")
        group = group.get_group()
    rank = dist.get_rank(group)
    if rank < 0:
        raise ValueError("group: this rank is not in it")
    return Members(group, dist.get_world_size(group), rank)


def _add(sums: tuple[Tensor, Tensor], parts: list[Part]) -> None:
    for first, end, *gradients in parts:
        for total, gradient in zip(sums, gradients):
            total[:, :, first:end].add_(gradient)


def _sums_like(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.zeros(t.shape, dtype=torch.float32, device=t.device) for t in tensors)


class Ring:
    """Shares go from rank to rank, each step beside the calls for the share at hand."""

    def __init__(self, who: Members, seqlen_kv: int):
        self._who, self._seqlen_kv = who, seqlen_kv

    def keys(self, k: Tensor, v: Tensor) -> Iterator[tuple[tuple[Span, ...], Tensor, Tensor]]:
        """Every share once, this rank's first. The next one is on its way meanwhile."""
        ranks = self._who.ranks
        for step in range(ranks):
            pending = self._pass_on((k, v), self._owner(step + 1)) if step + 1 < ranks else None
            yield self._spans(step), k, v
            if pending is not None:
                k, v = pending()

    def gradients(self, k: Tensor, v: Tensor, contribute: Contribute) -> tuple[Tensor, Tensor]:
        """fp32 dk and dv of this rank's share: the sums of what all ranks contribute. The sums of a share follow
        it by one step."""
        sums, pending = _sums_like(k, v), None
        for step, (spans, k_held, v_held) in enumerate(self.keys(k, v)):
            if step > 0:
                pending = self._pass_on(sums, self._owner(step))
            parts = contribute(spans, k_held, v_held)
            if pending is not None:
                sums = pending()
            _add(sums, parts)
        return self._pass_on(sums, self._who.rank)()

    def all_spans(self) -> list[tuple[Span, ...]]:
        """The spans that keys() will have at hand, one item after another."""
        return [self._spans(step) for step in range(self._who.ranks)]

    def _owner(self, step: int) -> int:
        return (self._who.rank - step) % self._who.ranks

    def _spans(self, step: int) -> tuple[Span, ...]:
        return share(self._seqlen_kv, self._who.ranks, self._owner(step))

    def _pass_on(self, tensors, owner: int) -> Callable[[], tuple[Tensor, ...]]:
        """Sends `tensors` to the next rank and begins to receive those of `owner`'s share from the one before; a
        call of the result waits, on the stream, and returns them."""
        who = self._who
        length = share_length(self._seqlen_kv, who.ranks, owner)
        received = tuple(t.new_empty((*t.shape[:2], length, t.shape[3])) for t in tensors)
        following, before = (who.rank + 1) % who.ranks, (who.rank - 1) % who.ranks
        operations = [dist.P2POp(dist.isend, t, group=who.group, group_peer=following) for t in tensors]
        operations += [dist.P2POp(dist.irecv, t, group=who.group, group_peer=before) for t in received]
        operations = [operation for operation in operations if operation.tensor.numel()]
        works = dist.batch_isend_irecv(operations) if operations else []

        def wait():
            for work in works:
                work.wait()
            return received

        return wait


class Gather:
    """Each rank gets all keys, in the order of the whole sequence, and then hands out gradients of all."""

    def __init__(self, who: Members, seqlen_kv: int):
        self._who, self._seqlen_kv = who, seqlen_kv
        self._longest = max(share_length(seqlen_kv, who.ranks, rank) for rank in range(who.ranks))
        bounds = chunk_bounds(seqlen_kv, who.ranks)
        sizes = [end - start for start, end in pairwise(bounds)]
        chunks = range(2 * who.ranks)
        # (rank, first of its share, length) of each chunk.
        self._places = [
            (c, 0, sizes[c]) if c < who.ranks else (chunks[-1 - c], sizes[chunks[-1 - c]], sizes[c])
            for c in chunks
        ]

    def keys(self, k: Tensor, v: Tensor) -> Iterator[tuple[tuple[Span, ...], Tensor, Tensor]]:
        """All keys at once."""
        yield self.all_spans()[0], self.whole(k), self.whole(v)

    def gradients(self, k: Tensor, v: Tensor, contribute: Contribute) -> tuple[Tensor, Tensor]:
        """fp32 dk and dv of this rank's share: the sums of what all ranks contribute."""
        (spans, k_all, v_all), *_ = self.keys(k, v)
        sums = _sums_like(k_all, v_all)
        _add(sums, contribute(spans, k_all, v_all))
        return self._own(sums[0], k.shape[2]), self._own(sums[1], k.shape[2])

    def all_spans(self) -> list[tuple[Span, ...]]:
        """The spans that keys() will have at hand."""
        return [(Span(0, 0, self._seqlen_kv),) if self._seqlen_kv else ()]

    def whole(self, local: Tensor) -> Tensor:
        """The shares of all ranks, (batch, head, sequence, feature), as one sequence."""
        padded = local.new_zeros((*local.shape[:2], self._longest, local.shape[3]))
        padded[:, :, : local.shape[2]] = local
        gathered = padded.new_empty((self._who.ranks, *padded.shape))
        dist.all_gather_into_tensor(gathered.flatten(0, 1), padded, group=self._who.group)
        return torch.cat([gathered[rank, :, :, at : at + size] for rank, at, size in self._places], dim=2)

    def _own(self, sums: Tensor, length: int) -> Tensor:
        """This rank's share of the sums over all ranks."""
        shares = sums.new_zeros((self._who.ranks, *sums.shape[:2], self._longest, sums.shape[3]))
        first = 0
        for rank, at, size in self._places:
            shares[rank, :, :, at : at + size] = sums[:, :, first : first + size]
            first += size
        own = sums.new_empty(shares.shape[1:])
        dist.reduce_scatter_tensor(own, shares.flatten(0, 1), group=self._who.group)
        return own[:, :, :length]
