"""The calls of a rank for the keys at hand: pure functions of lengths."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from .._scalars import BOTTOM_RIGHT, NO_DIAGONAL, TOP_LEFT, Scalars
from ._shares import Span

# Keys that a row keeps: those with low <= key - row <= high, where None is no bound.
Band = tuple[int | None, int | None]
OPEN: Band = (None, None)


def diagonal_of(scalars: Scalars, seqlen_q: int, seqlen_kv: int) -> int:
    """The key on the diagonal of row 0 in the whole problem."""
    return scalars.diagonal_offset + (seqlen_kv - seqlen_q if scalars.diagonal == BOTTOM_RIGHT else 0)


def band_of(scalars: Scalars, seqlen_q: int, seqlen_kv: int) -> Band:
    """The band of the whole problem."""
    left, right = scalars.window_left, 0 if scalars.causal else scalars.window_right
    offset = diagonal_of(scalars, seqlen_q, seqlen_kv)
    return (offset - left if left >= 0 else None), (offset + right if right >= 0 else None)


def _pairs_up_to(high: int, rows: int, keys: int) -> int:
    """Pairs with key - row <= high."""
    first = min(max(-high, 0), rows)  # row that keeps a key
    full = min(max(keys - 1 - high, first), rows)  # row that keeps all
    return (full - first) * (first + full - 1 + 2 * (high + 1)) // 2 + (rows - full) * keys


def kept_pairs(rows: int, keys: int, band: Band) -> int:
    """Pairs of row and key that `band` keeps."""
    low, high = band
    most = _pairs_up_to(keys if high is None else high, rows, keys)
    return max(0, most - (0 if low is None else _pairs_up_to(low - 1, rows, keys)))


@dataclass(frozen=True)
class Call:
    """One call of the kernels: local rows and keys at hand as (first, end), the place of the keys in the whole
    sequence (None where they are several), and the band, and the diagonal that slopes count from, counted from the
    first row and key; and the place of the first row in the whole sequence."""

    rows: tuple[int, int]
    keys: tuple[int, int]
    start: int | None
    band: Band
    diagonal: int | None = None
    row_start: int = 0

    def scalars(self, whole: Scalars) -> Scalars:
        """Those of the whole problem, with the band of this call."""
        low, high = self.band

        def banded(causal: bool, left: int, right: int, offset: int) -> Scalars:
            return whole._replace(
                causal=causal, diagonal=TOP_LEFT, window_left=left, window_right=right, diagonal_offset=offset
            )

        if self.diagonal is not None:
            left = -1 if low is None else self.diagonal - low
            right = -1 if high is None else high - self.diagonal
            return banded(False, left, right, self.diagonal)
        if high is not None:
            return banded(True, -1 if low is None else high - low, -1, high)
        if low is not None:
            return banded(False, 0, -1, low)
        return banded(False, -1, -1, 0)._replace(diagonal=NO_DIAGONAL)


def _local_band(rows: Span, keys: Span, band: Band) -> Band:
    """`band` between indices at hand, where those are shifted against the whole's."""
    shift = (keys.start - keys.local) - (rows.start - rows.local)
    low, high = band
    return (None if low is None else low - shift), (None if high is None else high - shift)


def _kept(rows: Span, keys: Span, band: Band) -> tuple[int, int] | None:
    """The smallest and the largest kept difference of key and row at hand; None where none is."""
    least = keys.local - (rows.local + rows.length - 1)
    most = keys.local + keys.length - 1 - rows.local
    low, high = band
    low = least if low is None else max(low, least)
    high = most if high is None else min(high, most)
    return (low, high) if low <= high else None


def _common_band(rows: Sequence[Span], keys: Sequence[Span], band: Band) -> Band | None:
    """One band between indices at hand that keeps what `band` keeps in every pair of spans, if there is one."""
    wanted = {pair: _local_band(*pair, band) for pair in product(rows, keys)}
    kept = {pair: _kept(*pair, own) for pair, own in wanted.items()}
    lows = [None, *dict.fromkeys(low for low, _ in wanted.values() if low is not None)]
    highs = [None, *dict.fromkeys(high for _, high in wanted.values() if high is not None)]
    for candidate in product(lows, highs):
        if all(_kept(*pair, candidate) == kept[pair] for pair in wanted):
            return candidate
    return None


def _cover(
    rows: Sequence[Span], keys: Sequence[Span], band: Band, join_keys: bool, diagonal: int | None
) -> list[Call]:
    live = [(r, k) for r, k in product(rows, keys) if _kept(r, k, _local_band(r, k, band)) is not None]
    rows = [r for r in rows if any(r is row for row, _ in live)]
    keys = [k for k in keys if any(k is key for _, key in live)]
    if not live:
        return []
    may_join = join_keys or (len(keys) == 1 and (diagonal is None or len(rows) == 1))
    common = _common_band(rows, keys, band) if may_join else None
    if common is not None:
        first_row, first_key = rows[0].local, keys[0].local
        low, high = (None if bound is None else bound + first_row - first_key for bound in common)
        return [
            Call(
                (first_row, rows[-1].local + rows[-1].length),
                (first_key, keys[-1].local + keys[-1].length),
                keys[0].start if len(keys) == 1 else None,
                (low, high),
                None if diagonal is None else diagonal + rows[0].start - keys[0].start,
                rows[0].start,
            )
        ]
    # Calls for different rows share a part of the result.
    if len(rows) > 1 and join_keys:
        return [call for row in rows for call in _cover([row], keys, band, join_keys, diagonal)]
    if len(keys) > 1:
        return [call for key in keys for call in _cover(rows, [key], band, join_keys, diagonal)]
    return [call for row in rows for call in _cover([row], keys, band, join_keys, diagonal)]


def calls_for(
    rows: tuple[Span, ...],
    keys: tuple[Span, ...],
    band: Band,
    join_keys: bool,
    diagonal: int | None = None,
) -> tuple[Call, ...]:
    """The fewest calls found that compute `rows` by `keys` under `band`, none of them without a kept pair.
    `join_keys`: one call may take several spans of the keys, as a mask or bias over the keys forbids, and slopes.
    `diagonal`: where slopes and expressions of the whole problem count from, which makes a call take one span of
    the rows as well. Spans are two at most of each, and lie at hand one behind the other."""
    return tuple(_cover(rows, keys, band, join_keys, diagonal))


def count_parts(calls: Sequence[Call]) -> int:
    """Into how many partial results `calls` write, each as far as its rows are not written yet."""
    parts, written = 0, []
    for call in calls:
        if not parts or overlaps(call.rows, written):
            parts, written = parts + 1, []
        written.append(call.rows)
    return parts


def overlaps(rows: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    return any(rows[0] < end and first < rows[1] for first, end in others)
