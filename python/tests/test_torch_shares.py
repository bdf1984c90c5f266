"""Shares, schedules and the cost rule of attnjit.context_parallel: pure functions, no group, no kernels."""

import random
from itertools import pairwise

import pytest
import torch

from attnjit._scalars import BOTTOM_RIGHT, TOP_LEFT, Scalars
from attnjit.context_parallel._cost import Machine, Sizes, choose, gather_seconds, ring_seconds
from attnjit.context_parallel._schedule import OPEN, band_of, calls_for, count_parts, kept_pairs
from attnjit.context_parallel._shares import Span, share, share_length, whole_length

CAUSAL = (None, 0)


def indices(spans):
    return [i for span in spans for i in range(span.start, span.start + span.length)]


def ring_spans(length, ranks, rank):
    """The spans that a rank has at hand, step after step."""
    return [share(length, ranks, (rank - step) % ranks) for step in range(ranks)]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7, 8, 64])
def test_shares_are_a_partition(ranks):
    for length in (0, 1, 5, 2 * ranks - 1, 2 * ranks, 1000, 1001):
        shares = [share(length, ranks, rank) for rank in range(ranks)]
        assert sorted(i for spans in shares for i in indices(spans)) == list(range(length))
        chunks = torch.tensor_split(torch.arange(length), 2 * ranks)
        for rank, spans in enumerate(shares):
            assert indices(spans) == [*chunks[rank].tolist(), *chunks[2 * ranks - 1 - rank].tolist()]
            assert all(a.local + a.length == b.local for a, b in pairwise(spans))


def test_a_length_that_ranks_do_not_share_evenly_is_noticed():
    assert whole_length("seqlen_q", 6, None, 4, 1) == 24
    assert whole_length("seqlen_q", 3, 7, 2, 0) == 7
    assert whole_length("seqlen_q", 5, None, 1, 0) == 5
    for ranks in range(2, 9):
        for length in range(100):
            shares = [share_length(length, ranks, rank) for rank in range(ranks)]
            if length % (2 * ranks):
                assert any(own % 2 for own in shares)
            else:
                assert {whole_length("n", own, None, ranks, r) for r, own in enumerate(shares)} == {length}
    with pytest.raises(ValueError, match="name the length of the whole, seqlen_kv=..., on every rank"):
        whole_length("seqlen_kv", 3, None, 2, 0)
    with pytest.raises(ValueError, match="this rank has 3 of 8; its share as rank 0 of 2 is 4"):
        whole_length("seqlen_kv", 3, 8, 2, 0)


@pytest.mark.parametrize("ranks", range(2, 65))
def test_causal_work_is_balanced_at_every_step(ranks):
    length = 2048 * ranks + 3
    work = [
        [
            sum(
                kept_pairs(call.rows[1] - call.rows[0], call.keys[1] - call.keys[0], call.band)
                for call in calls_for(share(length, ranks, rank), keys, CAUSAL, True)
            )
            for keys in ring_spans(length, ranks, rank)
        ]
        for rank in range(ranks)
    ]
    for step in range(ranks):
        at_once = [work[rank][step] for rank in range(ranks)]
        assert max(at_once) <= 1.02 * min(at_once)
    assert sum(map(sum, work)) == kept_pairs(length, length, CAUSAL)


@pytest.mark.parametrize("ranks", [2, 5, 16])
def test_a_causal_step_is_one_call(ranks):
    for rank in range(ranks):
        steps = [
            calls_for(share(64 * ranks, ranks, rank), keys, CAUSAL, True)
            for keys in ring_spans(64 * ranks, ranks, rank)
        ]
        assert [len(calls) for calls in steps] == [1] * ranks
        assert [calls[0].band for calls in steps[1:]] == [OPEN] * (ranks - 1)
        assert count_parts([call for calls in steps for call in calls]) == ranks


def allowed(i, j, band):
    low, high = band
    return (low is None or j - i >= low) and (high is None or j - i <= high)


def test_calls_cover_each_kept_pair_once():
    """Random bands, lengths and ways of holding the keys, pair by pair."""
    rng = random.Random(0)
    for _ in range(400):
        ranks, rows, keys = rng.randint(1, 5), rng.randint(0, 24), rng.randint(0, 24)
        low, high = (rng.choice((None, rng.randint(-26, 26))) for _ in range(2))
        band, join = (low, high), rng.random() < 0.5
        for rank in range(ranks):
            mine = share(rows, ranks, rank)
            found, calls = [], []
            at_hand = (
                ring_spans(keys, ranks, rank)
                if rng.random() < 0.7
                else [(Span(0, 0, keys),) if keys else ()]
            )
            for spans in at_hand:
                for call in calls_for(mine, spans, band, join):
                    calls.append(call)
                    where = indices(spans)
                    assert join or where[slice(*call.keys)] == list(
                        range(call.start, call.start + call.keys[1] - call.keys[0])
                    )
                    pairs = [
                        (indices(mine)[i], where[j])
                        for i in range(*call.rows)
                        for j in range(*call.keys)
                        if allowed(i - call.rows[0], j - call.keys[0], call.band)
                    ]
                    assert pairs
                    assert len(pairs) == kept_pairs(
                        call.rows[1] - call.rows[0], call.keys[1] - call.keys[0], call.band
                    )
                    found += pairs
            expected = [(i, j) for i in indices(mine) for j in range(keys) if allowed(i, j, band)]
            assert sorted(found) == sorted(expected)
            assert count_parts(calls) <= len(calls)


def test_bands_of_options():
    assert band_of(Scalars(), 10, 20) == OPEN
    assert band_of(Scalars(None, True, TOP_LEFT), 10, 20) == (None, 0)
    assert band_of(Scalars(None, True, BOTTOM_RIGHT, 5, 9, diagonal_offset=3), 10, 20) == (8, 13)
    assert band_of(Scalars(None, False, TOP_LEFT, 5, 9), 10, 20) == (-5, 9)


def test_scalars_of_a_call_keep_what_its_band_keeps():
    for band in ((None, None), (None, 3), (-2, None), (-4, 2), (1, 5), (-5, -1)):
        (call,) = calls_for((Span(0, 0, 12),), (Span(0, 0, 12),), band, True)
        assert band_of(call.scalars(Scalars()), 12, 12) == band


def sizes(length, heads_kv=8, backward=False):
    return Sizes(1, 32, heads_kv, length, length, 128, 128, 2, CAUSAL, backward)


def test_calls_with_slopes_take_one_span_and_its_diagonal():
    rng = random.Random(0)
    for _ in range(200):
        ranks, rows, keys = rng.randint(1, 4), rng.randint(1, 24), rng.randint(1, 24)
        diagonal, causal = rng.randint(-9, 9), rng.random() < 0.5
        left, right = rng.choice((-1, 0, 5)), rng.choice((-1, 0, 4))
        scalars = Scalars(None, causal, TOP_LEFT, left, right, diagonal_offset=diagonal)
        band = band_of(scalars, rows, keys)
        for rank in range(ranks):
            mine = share(rows, ranks, rank)
            for spans in ring_spans(keys, ranks, rank):
                for call in calls_for(mine, spans, band, False, diagonal):
                    first_row, first_key = (
                        indices(p)[i] for p, i in ((mine, call.rows[0]), (spans, call.keys[0]))
                    )
                    own = call.scalars(Scalars())
                    assert band_of(own, 1, 1) == call.band
                    assert own.diagonal_offset == diagonal + first_row - first_key
                    for at, there in ((call.rows, mine), (call.keys, spans)):
                        places = indices(there)[slice(*at)]
                        assert places == list(range(places[0], places[0] + len(places)))


def test_the_cost_rule_gathers_short_sequences_and_passes_on_long_ones():
    assert choose(sizes(1024), 8) == "gather"
    assert choose(sizes(131072), 2) == choose(sizes(131072, backward=True), 8) == "ring"
    assert choose(sizes(1 << 24, heads_kv=1), 512) == "ring"  # the keys would not fit


def test_modelled_times_fall_with_ranks_until_the_link_is_what_counts():
    machine = Machine()
    times = [ring_seconds(sizes(131072), ranks, machine) for ranks in (1, 2, 4, 8)]
    assert times == sorted(times, reverse=True)
    assert times[0] / times[1] > 1.8
    assert ring_seconds(sizes(4096), 64, machine) > gather_seconds(sizes(4096), 8, machine)
