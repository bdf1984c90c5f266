"""Numbers of Python in the texts of traced functions: literals, which are part of a kernel, and once they have changed
from call to call operands without axes."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ._code import code_of
from ._value import Value, literal

_MARK = "#"  # on both sides of a number that may become an operand, between its sign and what follows
_LARGEST = {int: torch.iinfo(torch.int32).max, float: torch.finfo(torch.float32).max}  # of operands
_MOST_OPERANDS = 16  # of a call
_MOST_TEXTS = 1024


class _History(NamedTuple):
    """What the numbers of a text have been, by their places in it."""

    last: list[str]
    groups: list[int]  # equal where the numbers of two places have been the same in every call
    changed: list[int]  # places


# By the code of functions and the text around the numbers. Of two threads that write to one at a time the last counts.
_histories: dict[tuple[int, str], _History] = {}


def given(number: float) -> Value:
    """A number that a function gives: a literal for which `settled` may put an operand."""
    value = literal(number)
    sign, digits = ("-", value.text[1:]) if value.text[0] == "-" else ("", value.text)
    if value.number is None or not digits[0].isdigit():  # NaN, inf, true, false
        return value
    return Value(f"{sign}{_MARK}{digits}{_MARK}", *value[1:])


def fixed(value: Value) -> Value:
    """The same with numbers that stay literals."""
    return value._replace(text=value.text.replace(_MARK, ""))


def _history(key: tuple[int, str], numbers: list[str]) -> _History:
    """With these numbers as the last."""
    known = _histories.get(key)
    if known is None:
        if len(_histories) >= _MOST_TEXTS:
            _histories.clear()
        known = _History(numbers, [0] * len(numbers), [])
    elif known.last == numbers:
        return known
    groups: dict[tuple[int, str], int] = {}
    _histories[key] = now = _History(
        numbers,
        [groups.setdefault(pair, len(groups)) for pair in zip(known.groups, numbers)],
        [n for n, number in enumerate(numbers) if n in known.changed or number != known.last[n]],
    )
    return now


def _named(number: str, operands: dict[str, Tensor | float]) -> str:
    """The name of a new operand, or the number where it can be none."""
    value = int(number) if number.isdigit() else float(number)
    if value > _LARGEST[type(value)] or len(operands) >= _MOST_OPERANDS:
        return number
    name = f"n{len(operands)}"
    operands[name] = value
    return name


def settled(function: Callable, text: str, operands: dict[str, Tensor | float]) -> str:
    """The text of a traced function, with operands in the places where functions of its code have given other numbers
    before. They are added to `operands`; where a call has as many as it may, the rest are literals."""
    if _MARK not in text:
        return text
    parts = text.split(_MARK)  # every second one is a number
    numbers = parts[1::2]
    history = _history((code_of(function), _MARK.join(parts[::2])), numbers)
    names: dict[int, str] = {}  # of groups
    for place in history.changed:
        group = history.groups[place]
        if group not in names:
            names[group] = _named(numbers[place], operands)
        parts[1 + 2 * place] = names[group]
    return "".join(parts)
