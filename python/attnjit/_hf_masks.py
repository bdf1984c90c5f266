"""Masks of transformers 5 for attnjit: those of SDPA, but for packed sequences."""

from collections.abc import Callable
from types import FunctionType
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import masking_utils
from transformers.masking_utils import (
    causal_mask_function,
    packed_sequence_mask_function,
    sliding_window_overlay,
)

# Makers of what keeps the pairs that all of some functions keep. Positions are mapped to those within a sequence by
# later versions; differences of positions are the same.
_JOINS = {
    masking_utils.and_masks: "mask_functions",
    getattr(masking_utils, "remap_positions_for_packed_sequence", None): "mask_function",
}


class PackedMask(NamedTuple):
    """The mask of sequences that are packed into one row of the batch and attend causally."""

    cu_seqlens: Tensor  # (sequences + 1,) int32: the first token of each, and last the number of tokens
    window: int | None  # keys of a row, itself included; None for all before it


def make_mask(
    *, batch_size: int, mask_function: Callable = causal_mask_function, **arguments
) -> Tensor | PackedMask | None:
    """A mask, as transformers asks for one: what its sdpa_mask makes, but a PackedMask where that says the same,
    for a mask would take the square of the tokens in memory."""
    no_padding = arguments.get("attention_mask") is None
    if batch_size == 1 and no_padding and not torch.compiler.is_compiling():
        packed = packed_mask(mask_function)
        if packed is not None:
            return packed
    return masking_utils.sdpa_mask(batch_size=batch_size, mask_function=mask_function, **arguments)


def packed_mask(mask_function: Callable) -> PackedMask | None:
    """What the function says of a batch of one, if it keeps the pairs of one packed sequence that are causal, or
    within a causal window; else None."""
    sequences, windows, is_causal = [], [], False
    for part in conditions(mask_function):
        numbers = captured(part, packed_sequence_mask_function, "packed_sequence_mask")
        window = captured(part, sliding_window_overlay, "sliding_window")
        if numbers is not None:
            sequences.append(numbers)
        elif window is not None:
            windows.append(window)
        elif part is causal_mask_function:
            is_causal = True
        else:
            return None
    if not is_causal or len(sequences) != 1:
        return None
    return PackedMask(bounds(sequences[0][0]), min(windows, default=None))


def conditions(mask_function: Callable):
    """The functions that must all keep a pair for `mask_function` to keep it."""
    for maker, name in _JOINS.items():
        joined = maker and captured(mask_function, maker, name)
        if joined is not None:
            for part in joined if isinstance(joined, tuple) else (joined,):
                yield from conditions(part)
            return
    yield mask_function


def captured(function: Callable, maker: FunctionType, name: str):
    """The variable `name` that `function` captured when `maker` made it; None if another made it."""
    if not isinstance(function, FunctionType) or function.__code__ not in maker.__code__.co_consts:
        return None
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    return cells[name].cell_contents if name in cells else None


def bounds(sequences: Tensor) -> Tensor:
    """Where sequences begin and the last one ends, int32, of the number of each token's."""
    begins = torch.nonzero(torch.diff(sequences, prepend=sequences[:1] - 1)).flatten()
    return torch.cat([begins, begins.new_tensor([len(sequences)])]).to(torch.int32)


def within_sequences(mask: Tensor, cu_seqlens_q: Tensor, cu_seqlens_kv: Tensor) -> Tensor:
    """A mask, or numbers to add, (..., rows, keys), without the pairs of two packed sequences."""
    rows, keys = (
        torch.searchsorted(
            cu_seqlens, torch.arange(size, device=mask.device, dtype=cu_seqlens.dtype), right=True
        )
        for cu_seqlens, size in ((cu_seqlens_q, mask.shape[-2]), (cu_seqlens_kv, mask.shape[-1]))
    )
    same = rows[:, None] == keys
    return mask.masked_fill(~same, float("-inf")) if mask.is_floating_point() else mask & same
