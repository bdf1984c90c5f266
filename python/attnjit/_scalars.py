"""The numbers and the texts of a call."""

from typing import NamedTuple

NO_DIAGONAL, TOP_LEFT, BOTTOM_RIGHT = 0, 1, 2


class Scalars(NamedTuple):
    """The numbers and the texts of a call, in the order in which `python/module` and schemas.txt
    have them."""

    scale: float | None = None  # None: 1 / sqrt(head dim)
    causal: bool = False
    diagonal: int = NO_DIAGONAL
    window_left: int = -1  # -1: this side is open
    window_right: int = -1
    softcap: float = 0.0  # 0: none
    diagonal_offset: int = 0
    prepared_mask: tuple[int, ...] | None = None  # its four axes, and whether it is for a backward
    plane_orders: tuple[int, int, int, int] | None = None  # inner and cycle of the planes of mask and of bias
    score: str | None = None  # expressions
    keep: str | None = None
    operand_names: tuple[str, ...] = ()  # of the tensors that they read
    row_offset: int = 0  # added to i and j of expressions
    key_offset: int = 0
    block_sizes: tuple[int, int, int] | None = None  # rows and keys of a listed block, and blocks of keys or 0
