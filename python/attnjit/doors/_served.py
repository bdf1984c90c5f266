"""Counts of the calls that callers of other interfaces made."""

from collections import Counter

import torch

from .._notes import note

# Counts per door (the name of an interface) and outcome: "served", or why a call was passed on.
_counts: Counter[tuple[str, str]] = Counter()

SERVED = "served"

# Remedies of a caller, by the reason for which a call is handed on.
_HELP = {
    "dropout": "set the dropout of attention to 0",
    "dtype": "use fp16 or bf16, by autocast for instance",
    "head dim": "head dims up to 256 are served",
    "layout or device": "move dense tensors to a CUDA device",
}


def count(door: str, reason: str | None) -> None:
    """Counts a call as passed on for `reason`, or as served if that is None. A compiler that traces a caller of this
    counts nothing: it would guard on the number, and compile again at each call. The first call of a reason is noted."""
    if torch.compiler.is_compiling():
        return
    _counts[door, reason or SERVED] += 1
    if reason is not None:
        help_text = f"; {_HELP[reason]}" if reason in _HELP else ""
        note(
            f"attnjit hands calls of {door!r} on to other kernels ({reason}){help_text}; attnjit.served() counts them"
        )


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
