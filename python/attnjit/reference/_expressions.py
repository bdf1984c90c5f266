"""Values of expressions (docs/reference/expressions.md) over tensors of PyTorch, in any precision, with the derivatives
of that page."""

import re

import torch

_TOKEN = re.compile(
    r"\s*((?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?f?|\d+[eE][+-]?\d+f?|\d+f?|\w+|&&|\|\||==|!=|<=|>=|<<|>>|//|\S)"
)
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "//", "%"),
)  # fmt: skip


def _quotient(x, y):
    """Rounded down; 0 where y is 0. A division of the smallest int by -1 would fault."""
    divided = x // torch.where((y == 0) | (y == -1), 1, y)
    return torch.where(y == 0, 0, torch.where(y == -1, -x, divided))


_OPERATORS = {
    "||": torch.logical_or, "&&": torch.logical_and, "|": torch.bitwise_or, "^": torch.bitwise_xor,
    "&": torch.bitwise_and, "==": torch.eq, "!=": torch.ne, "<": torch.lt, "<=": torch.le, ">": torch.gt,
    ">=": torch.ge, "<<": lambda x, n: x << n.clamp(0, 63), ">>": lambda x, n: x >> n.clamp(0, 63), "+": torch.add,
    "-": torch.sub, "*": torch.mul, "/": torch.div, "//": _quotient, "%": lambda x, y: x - _quotient(x, y) * y,
}  # fmt: skip
_FUNCTIONS = {
    "abs": torch.abs, "exp": torch.exp, "log": torch.log, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
    "sqrt": torch.sqrt, "floor": torch.floor, "min": torch.minimum, "max": torch.maximum, "clamp": torch.clamp,
}  # fmt: skip


def _int(x):
    return x.double().nan_to_num(0).clamp(-(2**31), 2**31 - 1).long() if x.is_floating_point() else x.long()


def _applied(function, *values):
    """function(*values), of which gradients are 0 where that of the result is 0, at infinite slopes too."""
    views = [t.view_as(t) for t in torch.broadcast_tensors(*values)]
    result = function(*views)
    if not result.requires_grad:
        return result
    held = {}

    def kept_where_any_came_in(gradient):  # None where autograd says of all of it that it is 0
        return gradient if gradient is None else torch.where(held["of_result"] == 0, 0.0, gradient)

    result.register_hook(lambda gradient: held.update(of_result=gradient))
    for view in views:
        if view.requires_grad:
            view.register_hook(kept_where_any_came_in)
    return result


class _Evaluation:
    """A descent through the grammar that computes as it goes, of a text that the library has taken. Sides that do not
    count are computed too."""

    def __init__(self, text, names, dtype, device):
        self._tokens = _TOKEN.findall(text)
        self._names, self._dtype, self._device = names, dtype, device

    def result(self):
        return self._expression()

    def _take(self, *tokens):
        return self._tokens.pop(0) if self._tokens and self._tokens[0] in tokens else None

    def _number(self, value, dtype):
        return torch.tensor(value, dtype=dtype, device=self._device)

    def _float(self, x):
        return x.to(self._dtype)

    def _alike(self, *values):
        """Ints beside a float as floats."""
        return map(self._float, values) if any(v.is_floating_point() for v in values) else values

    def _expression(self):
        condition = self._level(0)
        if not self._take("?"):
            return condition
        chosen = self._expression()
        self._take(":")
        return torch.where(condition, *self._alike(chosen, self._expression()))

    def _level(self, level):
        if level == len(_LEVELS):
            return self._prefix()
        value = self._level(level + 1)
        while operator := self._take(*_LEVELS[level]):
            other = self._level(level + 1)
            both = map(self._float, (value, other)) if operator == "/" else self._alike(value, other)
            value = _applied(_OPERATORS[operator], *both)
        return value

    def _prefix(self):
        if self._take("-"):
            return -self._prefix()
        if self._take("!"):
            return ~self._prefix()
        return self._primary()

    def _primary(self):
        token = self._tokens.pop(0)
        if token == "(":
            value = self._expression()
            self._take(")")
            return value
        if token.isdigit():
            return self._number(int(token), torch.int64)
        if token[0] in ".0123456789":
            return self._float(self._number(float(token.rstrip("f")), torch.float32))
        if token in ("true", "false"):
            return self._number(token == "true", torch.bool)
        if token == "inf":
            return self._number(torch.inf, self._dtype)
        if self._take("("):
            return self._call(token, self._list(")"))
        value = self._names[token]
        return self._read(value, self._list("]")) if self._take("[") else value

    def _list(self, end):
        values = [self._expression()]
        while self._take(","):
            values.append(self._expression())
        self._take(end)
        return values

    def _call(self, name, values):
        if name in ("float", "int"):
            return {"float": self._float, "int": _int}[name](*values)
        return _applied(_FUNCTIONS[name], *self._alike(*values))

    def _read(self, tensor, places):
        if not tensor.numel():  # of a call without a pair
            return tensor.new_zeros(torch.broadcast_shapes(*(p.shape for p in places)))
        return tensor[tuple(p.clamp(0, size - 1) for p, size in zip(places, tensor.shape))]


def _of_type(tensor, dtype):
    if tensor.is_floating_point():
        return tensor.to(dtype)
    return tensor if tensor.dtype == torch.bool else tensor.long()


def evaluate(text, indices, operands, dtype=torch.float64, s=None):
    """The value of a text: `indices` are tensors or ints by their names, `operands` tensors by theirs, and s the
    score. All broadcast; floats are of `dtype`."""
    device = indices["i"].device
    names = {name: torch.as_tensor(value, device=device) for name, value in indices.items()}
    names |= {name: _of_type(tensor, dtype) for name, tensor in operands.items()}
    return _Evaluation(text, names | {"s": s}, dtype, device).result()
