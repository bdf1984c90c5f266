"""Functions of FlexAttention, called once with stand-ins for a pair's indices and score, become expressions."""

from itertools import chain
from types import MappingProxyType

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ._captured import Captured
from ._numbers import fixed, given
from ._operations import OPERATIONS, type_of, where
from ._value import BOOL, FLOAT, INT, Value, element, literal

_DTYPES = {INT: torch.int64, FLOAT: torch.float32, BOOL: torch.bool}
_NO_ARGUMENTS = MappingProxyType({})

# Functions of PyTorch that take the same arguments as the operations of its dispatcher: the way through that takes
# several times as long.
_FUNCTIONS = {
    getattr(torch, name.removeprefix("aten::")): operation
    for name, operation in OPERATIONS.items()
    if hasattr(torch, name.removeprefix("aten::"))
}


class Traced(Tensor):
    """A tensor without memory that stands for a part of an expression, or for the elements of a tensor that the
    first of its indices leave."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, tracing: "Tracing", value: Value | None, shape=(), dtype=None):
        dtype = dtype if value is None else _DTYPES[value.type]
        return Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=tracing.device)

    def __init__(self, tracing: "Tracing", value: Value | None, shape=(), dtype=None):
        self.tracing, self.value = tracing, value
        self.source: tuple[Tensor, tuple[Value, ...]] | None = None  # and the first of its indices

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        lists = (a for a in args if isinstance(a, (list, tuple)))
        first = next(a for a in chain(args, *lists) if isinstance(a, Traced))
        return first.tracing.dispatched(func._schema.name, args, kwargs or {})


def _operator(name: str, operation, is_reflected: bool):
    """An operator of Python, as a short way too."""
    by_dispatcher = getattr(Tensor, name)

    def method(self: Traced, other):
        if not isinstance(other, (Tensor, int, float)):
            return by_dispatcher(self, other)
        return self.tracing.apply(operation, (other, self) if is_reflected else (self, other))

    return method


_ARITHMETIC = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}  # fmt: skip
for _name, _dispatched in _ARITHMETIC.items():
    for _sign in ("", "r"):
        _method = _operator(f"__{_sign}{_name}__", OPERATIONS[f"aten::{_dispatched}"], _sign == "r")
        setattr(Traced, f"__{_sign}{_name}__", _method)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Traced, f"__{_name}__", _operator(f"__{_name}__", OPERATIONS[f"aten::{_name}"], False))
Traced.__hash__ = Tensor.__hash__


class Tracing(TorchFunctionMode):
    """Traces the functions of one call, which share the tensors that they read."""

    def __init__(self, device: torch.device):
        super().__init__()
        self.device = device
        self.captured = Captured(device)
        self._function = ""
        self._records = torch.is_grad_enabled()

    def trace(self, name: str, function, *arguments: Value) -> Value:
        """The expression of a function, whose text is still to be `settled`. Raises NotImplementedError, which begins
        with `name`, for what expressions cannot say."""
        self._function = name
        with torch.no_grad(), self:
            return self._value(function(*(Traced(self, value) for value in arguments)))

    def read(self, tensor: Tensor, places: tuple[Value, ...]) -> Value:
        """An element of a tensor; negative indices count from the end, as in PyTorch."""
        places = tuple(map(_from_end, places, tensor.shape))
        if self._records and tensor.requires_grad:  # how its gradient is added up depends on them
            places = tuple(map(fixed, places))
        try:
            return element(self.captured.name(tensor), places, type_of(tensor.dtype))
        except (NotImplementedError, TypeError, ValueError) as error:
            raise type(error)(f"{self._function}: {error}") from None

    def dispatched(self, name: str, args, kwargs) -> Traced:
        """The result of an operation of PyTorch's dispatcher."""
        if name == "aten::_local_scalar_dense":
            self._refuse(
                "a value that differs from pair to pair is used as a number or condition of Python; use torch.where"
            )
        operation = OPERATIONS.get(name)
        if operation is None:
            self._refuse(f"{name} is no operation of expressions (docs/reference/expressions.md)")
        return self.apply(operation, args, {key: self._argument(value) for key, value in kwargs.items()})

    def apply(self, operation, args, kwargs=_NO_ARGUMENTS) -> Traced:
        values = [self._argument(a) for a in args]
        try:
            return Traced(self, operation(*values, **kwargs))
        except NotImplementedError as error:
            self._refuse(str(error))

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is Tensor.__getitem__:
            tensor, index = args
            index = index if isinstance(index, tuple) else (index,)
            if isinstance(tensor, Traced) or any(isinstance(place, Traced) for place in index):
                return self._indexed(tensor, index)
        elif func in _FUNCTIONS and not kwargs and any(isinstance(a, Traced) for a in args):
            return self.apply(_FUNCTIONS[func], args)
        # Of plain tensors alone, which may require gradients.
        with torch.set_grad_enabled(self._records):
            return func(*args, **kwargs)

    def _refuse(self, message: str):
        raise NotImplementedError(f"{self._function}: {message}") from None

    def _indexed(self, tensor: Tensor, index: tuple) -> Traced:
        places = ()
        if isinstance(tensor, Traced):
            if tensor.source is None:
                self._refuse("a single value is indexed")
            tensor, places = tensor.source
        for place in index:
            if isinstance(place, bool) or not isinstance(place, (int, Tensor)):
                self._refuse(f"{place!r} is an index of a tensor; expected numbers")
        places += tuple(map(self._value, index))
        if len(places) > tensor.dim():
            raise IndexError(
                f"{self._function}: {len(places)} indices of a tensor of shape {tuple(tensor.shape)}"
            )
        if len(places) == tensor.dim():
            return Traced(self, self.read(tensor, places))
        rest = Traced(self, None, tensor.shape[len(places) :], tensor.dtype)
        rest.source = tensor, places
        return rest

    def _argument(self, value):
        """The part of an expression that an argument of an operation is; what is neither tensor nor number as it is."""
        return self._value(value) if isinstance(value, (Tensor, int, float)) else value

    def _value(self, value) -> Value:
        if isinstance(value, Traced) and value.source is None:
            return value.value
        if isinstance(value, (int, float)):
            return given(value)
        if not isinstance(value, Tensor):
            self._refuse(f"it gives a {type(value).__name__}; expected a tensor or a number")
        if value.dim() > 0:
            self._refuse(
                f"values of shape {tuple(value.shape)}; expected single elements, by an index for each axis"
            )
        return self.read(value, ())


def _from_end(place: Value, size: int) -> Value:
    if place.low >= 0:
        return place
    if place.number is not None:
        return given(place.number + size)
    add, lt = OPERATIONS["aten::add"], OPERATIONS["aten::lt"]
    return where(lt(place, literal(0)), add(place, given(size)), place)
