"""Shares of a sequence: rank r of N has chunks r and 2N - 1 - r of 2N, so that each has early and late rows."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """Neighbouring indices of a sequence: `length` from `start` on of the whole, from `local` on of what is at
    hand."""

    local: int
    start: int
    length: int


def chunk_bounds(length: int, ranks: int) -> list[int]:
    """Starts of the 2 * `ranks` chunks, and the end. The first length % (2 * ranks) of them are one longer."""
    size, longer = divmod(length, 2 * ranks)
    return [size * i + min(i, longer) for i in range(2 * ranks + 1)]


def share(length: int, ranks: int, rank: int) -> tuple[Span, ...]:
    """The spans of `rank`, in local order: one where its chunks are neighbours, and none of them empty."""
    bounds = chunk_bounds(length, ranks)
    spans: list[Span] = []
    local = 0
    for chunk in (rank, 2 * ranks - 1 - rank):
        start, size = bounds[chunk], bounds[chunk + 1] - bounds[chunk]
        if size and spans and spans[-1].start + spans[-1].length == start:
            spans[-1] = Span(spans[-1].local, spans[-1].start, spans[-1].length + size)
        elif size:
            spans.append(Span(local, start, size))
        local += size
    return tuple(spans)


def share_length(length: int, ranks: int, rank: int) -> int:
    """The part of a sequence of `length` that `rank` has."""
    return sum(span.length for span in share(length, ranks, rank))


def whole_length(name: str, local: int, given: int | None, ranks: int, rank: int) -> int:
    """The length of the sequence of which `rank` holds `local`. Raises ValueError where they contradict."""
    if given is None:
        if local % 2 and ranks > 1:
            raise ValueError(
                f"{name}: this rank has {local} of the sequence, and equal shares are even; name the length of"
                f" the whole, {name}=..., on every rank"
            )
        return local * ranks
    expected = share_length(given, ranks, rank)
    if local != expected:
        raise ValueError(
            f"{name}: this rank has {local} of {given}; its share as rank {rank} of {ranks} is {expected}"
            " (context_parallel.shard makes it)"
        )
    return given
