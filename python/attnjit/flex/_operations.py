"""PyTorch's operations on the parts of an expression, by the names of its dispatcher."""

import math
from itertools import product

import torch

from ._numbers import given
from ._value import BOOL, FLOAT, INT, Value, binary, call, choice, common, literal, prefix

_MOST_FACTORS = 8  # of a power


def type_of(dtype: torch.dtype) -> str:
    if dtype == torch.bool:
        return BOOL
    return FLOAT if dtype.is_floating_point or dtype.is_complex else INT


def _convert(x: Value, result: str) -> Value:
    if x.type == result:
        return x
    if result == BOOL:
        return binary("!=", x, literal(0), BOOL)
    return call(result, x, result=result, low=0, high=1) if x.type == BOOL else call(result, x, result=result)


def _number(x: Value) -> Value:
    return _convert(x, INT) if x.type == BOOL else x


def _corners(function, x: Value, y: Value) -> tuple[float, float]:
    """The bounds of a function that is monotonic in both ints."""
    values = [function(a, b) for a, b in product((x.low, x.high), (y.low, y.high))]
    return (-math.inf, math.inf) if any(map(math.isnan, values)) else (min(values), max(values))


def _is_natural(*values: Value) -> bool:
    return all(v.low >= 0 for v in values)


def _from_zero(is_natural: bool) -> float:
    return 0 if is_natural else -math.inf


def _times(x: Value, y: Value) -> Value:
    x, y = _number(x), _number(y)
    return binary("*", x, y, common(x, y), *_corners(lambda a, b: a * b if a and b else 0, x, y))


def _add(x: Value, y: Value, alpha: Value | None = None) -> Value:
    x, y = _number(x), _number(y if alpha is None else _times(alpha, y))
    return binary("+", x, y, common(x, y), x.low + y.low, x.high + y.high)


def _sub(x: Value, y: Value, alpha: Value | None = None) -> Value:
    x, y = _number(x), _number(y if alpha is None else _times(alpha, y))
    return binary("-", x, y, common(x, y), x.low - y.high, x.high - y.low)


def _neg(x: Value) -> Value:
    return prefix("-", x, -x.high, -x.low)


def _over(x: Value, y: Value) -> Value:
    return binary("/", _number(x), _number(y), FLOAT)


def _floor_divide(x: Value, y: Value) -> Value:
    x, y = _number(x), _number(y)
    if common(x, y) == FLOAT:
        return _FLOAT_FUNCTIONS["floor"](_over(x, y))
    return binary("//", x, y, INT, _from_zero(_is_natural(x, y)), x.high if _is_natural(x, y) else math.inf)


def _remainder(x: Value, y: Value) -> Value:
    x, y = _number(x), _number(y)
    if common(x, y) == FLOAT:
        return _sub(x, _times(_floor_divide(x, y), y))
    return binary("%", x, y, INT, *((0, y.high - 1) if y.low > 0 else ()))


def _div(x: Value, y: Value, rounding_mode: str | None = None) -> Value:
    if rounding_mode == "trunc":
        raise NotImplementedError('rounding_mode="trunc": expressions round down; use "floor"')
    return _over(x, y) if rounding_mode is None else _floor_divide(x, y)


def _abs(x: Value) -> Value:
    x = _number(x)
    return call("abs", x, result=x.type, low=max(0, x.low, -x.high), high=max(-x.low, x.high))


def _minimum(x: Value, y: Value) -> Value:
    return call("min", x, y, result=common(x, y), low=min(x.low, y.low), high=min(x.high, y.high))


def _maximum(x: Value, y: Value) -> Value:
    return call("max", x, y, result=common(x, y), low=max(x.low, y.low), high=max(x.high, y.high))


def _clamp(x: Value, min: Value | None = None, max: Value | None = None) -> Value:
    if min is None:
        return _minimum(x, max)
    if max is None:
        return _maximum(x, min)
    return call("clamp", x, min, max, result=common(x, min, max), low=min.low, high=max.high)


def _power(x: Value, y: Value) -> Value:
    if x.number == 2 and common(x, y) == INT:
        return binary("<<", literal(1), y, INT, 0)
    if x.number is not None and x.number > 0 and common(x, y) == FLOAT:
        return _FLOAT_FUNCTIONS["exp"](_times(y, given(math.log(x.number))))
    if y.number == 0.5:
        return _FLOAT_FUNCTIONS["sqrt"](x)
    if y.number is not None and y.number == int(y.number) and 1 <= abs(y.number) <= _MOST_FACTORS:
        result = x
        for _ in range(int(abs(y.number)) - 1):
            result = _times(result, x)
        return result if y.number > 0 else _over(literal(1.0), result)
    raise NotImplementedError(
        f"a power: expected an exponent of 0.5 or 1 to {_MOST_FACTORS}, or a number as base"
    )


def _function(name: str):
    return lambda x: call(name, _convert(x, FLOAT), result=FLOAT)


_FLOAT_FUNCTIONS = {name: _function(name) for name in ("exp", "log", "tanh", "sigmoid", "sqrt", "floor")}


def _whole(name: str):
    """A function that leaves ints as they are."""
    return lambda x: _FLOAT_FUNCTIONS[name](x) if x.type == FLOAT else x


def _ceil(x: Value) -> Value:
    return _neg(_FLOAT_FUNCTIONS["floor"](_neg(x))) if x.type == FLOAT else x


def _comparison(operator: str):
    def compare(x: Value, y: Value) -> Value:
        if x.type != y.type or operator not in ("==", "!="):
            x, y = _number(x), _number(y)
        return binary(operator, x, y, BOOL)

    return compare


def _logical(operator: str, neutral: bool):
    def combine(x: Value, y: Value) -> Value:
        x, y = _convert(x, BOOL), _convert(y, BOOL)
        if x.number is neutral:
            return y
        return x if y.number is neutral else binary(operator, x, y, BOOL)

    return combine


logical_and = _logical("&&", neutral=True)
logical_or = _logical("||", neutral=False)


def _logical_xor(x: Value, y: Value) -> Value:
    return binary("!=", _convert(x, BOOL), _convert(y, BOOL), BOOL)


def _logical_not(x: Value) -> Value:
    return prefix("!", _convert(x, BOOL))


def _bitwise(operator: str, of_bools):
    def combine(x: Value, y: Value) -> Value:
        if common(x, y) == BOOL:
            return of_bools(x, y)
        x, y = _number(x), _number(y)
        is_natural = any(map(_is_natural, (x, y))) if operator == "&" else _is_natural(x, y)
        return binary(operator, x, y, INT, _from_zero(is_natural))

    return combine


def _bitwise_not(x: Value) -> Value:
    return _logical_not(x) if x.type == BOOL else _sub(_neg(x), literal(1))


def _shift(operator: str):
    return lambda x, n: binary(operator, _number(x), _number(n), INT, _from_zero(_is_natural(x)))


def where(condition: Value, x: Value, y: Value) -> Value:
    if common(x, y) != BOOL:
        x, y = _number(x), _number(y)
    return choice(_convert(condition, BOOL), x, y)


def _to(x: Value, dtype: torch.dtype | None = None, **_) -> Value:
    return x if dtype is None else _convert(x, type_of(dtype))


def _filled(size, number: Value, result: str) -> Value:
    if size:
        raise NotImplementedError(f"a new tensor of shape {tuple(size)}: expected one without axes")
    return given({BOOL: bool, INT: int, FLOAT: float}[result](number.number))


def _new(number: int):
    return lambda x, size, dtype=None, **_: _filled(
        size, literal(number), type_of(dtype) if dtype else x.type
    )


def _like(number: int):
    return lambda x, dtype=None, **_: _filled((), literal(number), type_of(dtype) if dtype else x.type)


def _new_full(x: Value, size, number: Value, dtype=None, **_) -> Value:
    return _filled(size, number, type_of(dtype) if dtype else number.type)


def _full_like(x: Value, number: Value, dtype=None, **_) -> Value:
    return _filled((), number, type_of(dtype) if dtype else x.type)


def _same(x: Value, **_) -> Value:
    return x


_LN2 = literal(math.log(2.0))
_exp, _log, _sqrt, _tanh, _sigmoid = (_FLOAT_FUNCTIONS[n] for n in ("exp", "log", "sqrt", "tanh", "sigmoid"))

OPERATIONS = {
    "aten::add": _add,
    "aten::sub": _sub,
    "aten::rsub": lambda x, y, alpha=None: _sub(y, x, alpha),
    "aten::mul": _times,
    "aten::div": _div,
    "aten::floor_divide": _floor_divide,
    "aten::remainder": _remainder,
    "aten::neg": _neg,
    "aten::abs": _abs,
    "aten::pow": _power,
    "aten::reciprocal": lambda x: _over(literal(1.0), x),
    "aten::exp": _exp,
    "aten::exp2": lambda x: _exp(_times(x, _LN2)),
    "aten::log": _log,
    "aten::log2": lambda x: _over(_log(x), _LN2),
    "aten::tanh": _tanh,
    "approx::tanh": _tanh,  # of attention-gym
    "aten::sigmoid": _sigmoid,
    "aten::sqrt": _sqrt,
    "aten::rsqrt": lambda x: _over(literal(1.0), _sqrt(x)),
    "aten::floor": _whole("floor"),
    "aten::ceil": _ceil,
    "aten::relu": lambda x: _maximum(x, literal(0)),
    "aten::silu": lambda x: _times(x, _sigmoid(x)),
    "aten::minimum": _minimum,
    "aten::maximum": _maximum,
    "aten::clamp": _clamp,
    "aten::clamp_min": lambda x, low: _clamp(x, min=low),
    "aten::clamp_max": lambda x, high: _clamp(x, max=high),
    "aten::eq": _comparison("=="),
    "aten::ne": _comparison("!="),
    "aten::lt": _comparison("<"),
    "aten::le": _comparison("<="),
    "aten::gt": _comparison(">"),
    "aten::ge": _comparison(">="),
    "aten::logical_and": logical_and,
    "aten::logical_or": logical_or,
    "aten::logical_xor": _logical_xor,
    "aten::logical_not": _logical_not,
    "aten::bitwise_and": _bitwise("&", logical_and),
    "aten::bitwise_or": _bitwise("|", logical_or),
    "aten::bitwise_xor": _bitwise("^", _logical_xor),
    "aten::bitwise_not": _bitwise_not,
    "aten::__lshift__": _shift("<<"),
    "aten::__rshift__": _shift(">>"),
    "aten::bitwise_left_shift": _shift("<<"),
    "aten::bitwise_right_shift": _shift(">>"),
    "aten::where": where,
    "aten::masked_fill": lambda x, mask, number: where(mask, number, x),
    "aten::_to_copy": _to,
    "aten::detach": _same,
    "aten::alias": _same,
    "aten::clone": _same,
    "aten::new_zeros": _new(0),
    "aten::new_ones": _new(1),
    "aten::new_full": _new_full,
    "aten::zeros_like": _like(0),
    "aten::ones_like": _like(1),
    "aten::full_like": _full_like,
}
