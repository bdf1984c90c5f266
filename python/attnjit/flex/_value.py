"""Parts of an expression (docs/reference/expressions.md) as texts, and what is known of their values."""

import ctypes
import math
from typing import NamedTuple

INT, FLOAT, BOOL = "int", "float", "bool"

# The strength with which operators bind; _PREFIX of those in front of an operand, _ATOM of none.
_STRENGTHS = {
    operator: strength
    for strength, operators in enumerate(
        ("?", "||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / // %")
    )
    for operator in operators.split()
}
_PREFIX = len(set(_STRENGTHS.values()))
_ATOM = _PREFIX + 1


class Value(NamedTuple):
    """A part of an expression. `low` and `high` bound an int; `number` is that of a literal."""

    text: str
    type: str
    low: float = -math.inf
    high: float = math.inf
    strength: int = _ATOM
    number: float | None = None

    def within(self, strength: int) -> str:
        """The text for a place where what binds less needs brackets."""
        return self.text if self.strength >= strength else f"({self.text})"


def literal(number: float) -> Value:
    """A number of Python."""
    if isinstance(number, bool):
        return Value(str(number).lower(), BOOL, number=number)
    if isinstance(number, float):
        if math.isnan(number):
            return binary("/", literal(0.0), literal(0.0), FLOAT)
        in_fp32 = ctypes.c_float(number).value
        text = repr(float(number) if in_fp32 and math.isfinite(in_fp32) else in_fp32)  # of NumPy's too
        return Value(text, FLOAT, strength=_PREFIX if text[0] == "-" else _ATOM, number=number)
    return Value(str(number), INT, number, number, _PREFIX if number < 0 else _ATOM, number)


def binary(operator: str, x: Value, y: Value, result: str, low=-math.inf, high=math.inf) -> Value:
    strength = _STRENGTHS[operator]
    text = f"{x.within(strength)} {operator} {y.within(strength + 1)}"
    return Value(text, result, low, high, strength)


def prefix(operator: str, x: Value, low=-math.inf, high=math.inf) -> Value:
    return Value(operator + x.within(_ATOM), x.type, low, high, _PREFIX)


def choice(condition: Value, x: Value, y: Value) -> Value:
    strength = _STRENGTHS["?"]
    text = f"{condition.within(strength + 1)} ? {x.text} : {y.text}"
    return Value(text, common(x, y), min(x.low, y.low), max(x.high, y.high), strength)


def call(function: str, *values: Value, result: str, low=-math.inf, high=math.inf) -> Value:
    return Value(f"{function}({', '.join(v.text for v in values)})", result, low, high)


def element(name: str, places: tuple[Value, ...], result: str) -> Value:
    """An element of an operand; one without axes is its name."""
    return Value(f"{name}[{', '.join(p.text for p in places)}]" if places else name, result)


def common(*values: Value) -> str:
    """The type of values side by side."""
    types = {v.type for v in values}
    return FLOAT if FLOAT in types else INT if INT in types else BOOL
