"""Counts of the calls that callers of other interfaces made."""

from collections import Counter

import torch

# Counts per door (the name of an interface) and outcome: "served", or why a call was passed on.
_counts: Counter[tuple[str, str]] = Counter()

SERVED = "served"


def count(door: str, reason: str | None) -> None:
    """Counts a call as passed on for `reason`, or as served if that is None. A compiler that traces a caller of this
    counts nothing: it would guard on the number, and compile again at each call."""
    if not torch.compiler.is_compiling():
        _counts[door, reason or SERVED] += 1


def served() -> dict[str, dict[str, int]]:
    """Calls so far in this process, per door: how many attnjit served, and how many it passed on to PyTorch, by
    reason: {"efficient": {"served": 12, "dropout": 1}}.

    Doors: "flash" (torch.nn.attention.activate_flash_attention_impl("attnjit") and attnjit.torch.install), "efficient"
    and "cudnn" (attnjit.torch.install), "sdpa_mode", "hf" and "nn" (attnjit.nn.MultiheadAttention). What a compiled
    graph calls counts as it runs, but for the last three, which do not count there.
    """
    doors: dict[str, dict[str, int]] = {}
    for (door, outcome), number in sorted(_counts.items()):
        doors.setdefault(door, {})[outcome] = number
    return doors
