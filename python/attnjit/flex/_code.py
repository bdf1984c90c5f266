"""What tells functions apart that do different things, however often they are made."""

from collections.abc import Callable
from functools import partial
from itertools import islice
from types import FunctionType, MethodType

_MOST_HELD = 64  # of a function, which may hold itself


def _held(function: FunctionType) -> list:
    held = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # it has none yet
            continue
    return held


def code_of(function: Callable) -> int:
    """A number that is the same for functions of the same code, whose literals are the same too, that hold functions of
    the same code: in closures, defaults and partials, one by one or as a tuple or list. It keeps none of them alive."""
    codes, held = [], [function]
    for what in islice(held, _MOST_HELD):
        if type(what) is FunctionType:
            codes.append(what.__code__)
            held += _held(what)
        elif isinstance(what, (tuple, list)):
            held += filter(callable, islice(what, _MOST_HELD))
        elif not callable(what):
            continue
        elif isinstance(what, partial):
            held += (what.func, *what.args, *what.keywords.values())
        elif isinstance(what, MethodType):
            held.append(what.__func__)
        else:
            codes.append(type(what))
    return hash(tuple(codes))
