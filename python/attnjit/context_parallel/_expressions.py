"""Expressions of a call over a group: each rank reads whole operands, and gets the gradient of its share."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from .._expressions import said
from .._scalars import NO_DIAGONAL, Scalars
from ._exchange import Gather, Members
from ._shares import share

# The axis of an operand that ranks share, and its length in the whole; None where each has all of it.
Shared = tuple[int, int] | None


def _reads(text: str, name: str) -> Iterator[list[str]]:
    """The indices of each read of an operand."""
    for match in re.finditer(rf"\b{name}\s*\[", text):
        depth, indices = 1, [""]
        for character in text[match.end() :]:
            depth += (character in "[(") - (character in "])")
            if depth == 0:
                break
            if character == "," and depth == 1:
                indices.append("")
            else:
                indices[-1] += character
        yield [index.strip() for index in indices]


@dataclass(frozen=True)
class Lengths:
    """Of a sequence, in the whole and on this rank, by the index of expressions that counts it."""

    whole: dict[str, int]
    here: dict[str, int]


def _shared(name: str, shape: torch.Size, texts: list[str], lengths: Lengths) -> Shared:
    """The axis that is read by i or j alone."""
    found = {
        (axis, index)
        for text in texts
        for indices in _reads(text, name)
        for axis, index in enumerate(indices)
        if index in lengths.whole and axis < len(shape) and shape[axis] != 1
    }
    wholes = {(axis, lengths.whole[index]) for axis, index in found}
    if len(wholes) > 1:
        raise NotImplementedError(
            f"operands: {name} is read by rows and by keys; context_parallel.attention shares out one axis of an"
            " operand: pass a mask or a bias"
        )
    for axis, index in found:
        if shape[axis] != lengths.here[index]:
            meaning = {"i": "rows", "j": "keys"}[index]
            raise ValueError(
                f"operands: axis {axis} of {name} is {shape[axis]}; expected 1 or {lengths.here[index]}, the {meaning}"
                " of this rank (context_parallel.shard makes its share)"
            )
    return wholes.pop() if wholes else None


def whole(tensor: Tensor, shared: Shared, who: Members) -> Tensor:
    """An operand from the shares of all ranks."""
    if shared is None:
        return tensor
    axis, length = shared
    moved = tensor.detach().movedim(axis, 0)
    bytes_of_bools = moved.view(torch.uint8) if moved.dtype == torch.bool else moved
    lines = bytes_of_bools.reshape(1, 1, moved.shape[0], -1)
    gathered = Gather(who, length).whole(lines).reshape(length, *moved.shape[1:])
    return gathered.view(moved.dtype).movedim(0, axis)


def said_of_whole(
    scalars: Scalars,
    score: str | None,
    keep: str | None,
    operands: Mapping | None,
    device: torch.device,
    lengths: Lengths,
) -> tuple[Scalars, tuple[Tensor, ...], tuple[Shared, ...]]:
    """The scalars of a call, the operands that its expressions read, and what ranks share of each. Numbers of the
    whole that a call for a part has not, Lq and Lk, become operands.

    Raises:
        NotImplementedError: an operand is read by rows and by keys.
        ValueError: a share of an operand has another length than this rank's rows or keys.
        TypeError: as `said`.
    """
    scalars, read = said(scalars, score, keep, operands, device)
    texts = {name: text for name, text in (("score", score), ("keep", keep)) if text is not None}
    named = " ".join(texts.values())
    differ = lengths.whole["i"] != lengths.whole["j"]
    if scalars.diagonal == NO_DIAGONAL and differ and re.search(r"\boff\b", named):
        raise ValueError('diagonal: unspecified with off; expected "top-left" or "bottom-right" (they differ)')
    names, read = list(scalars.operand_names), list(read)
    shared = [_shared(name, t.shape, list(texts.values()), lengths) for name, t in zip(names, read)]
    for word, index in (("Lq", "i"), ("Lk", "j")):
        if re.search(rf"\b{word}\b", named):
            texts = {kind: re.sub(rf"\b{word}\b", f"whole_{word}", text) for kind, text in texts.items()}
            names.append(f"whole_{word}")
            read.append(torch.full((), lengths.whole[index], dtype=torch.int32, device=device))
            shared.append(None)
    return scalars._replace(**texts, operand_names=tuple(names)), tuple(read), tuple(shared)


class ReadGradients:
    """The gradients of operands, from the calls of a backward, in fp32."""

    def __init__(self, read: tuple[Tensor, ...], need: tuple[bool, ...], shared: tuple[Shared, ...]):
        self.need, self._shared, self._dtypes = need, shared, [t.dtype for t in read]
        self._sums = [
            torch.zeros(t.shape, dtype=torch.float32, device=t.device) if wanted else None
            for t, wanted in zip(read, need)
        ]

    def add(self, gradients: tuple[Tensor | None, ...]) -> None:
        for total, gradient in zip(self._sums, gradients):
            if total is not None:
                total.add_(gradient)

    def result(self, who: Members) -> tuple[Tensor | None, ...]:
        """The sums over all ranks, of which this one takes its share."""
        return tuple(
            None if total is None else self._own(total, shared, who).to(dtype)
            for total, shared, dtype in zip(self._sums, self._shared, self._dtypes)
        )

    def _own(self, total: Tensor, shared: Shared, who: Members) -> Tensor:
        dist.all_reduce(total, group=who.group)
        if shared is None:
            return total
        axis, length = shared
        spans = share(length, who.ranks, who.rank)
        parts = [total.narrow(axis, span.start, span.length) for span in spans]
        return torch.cat(parts, axis) if parts else total.narrow(axis, 0, 0)
