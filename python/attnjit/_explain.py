"""`attnjit.explain`."""

import inspect
import json

from torch import Tensor

from . import _native
from ._attention import arguments_of, attention
from ._call import context
from ._described import Description, described

_ON_DEVICE = 2, 0  # DLPack's number of CUDA, and an ordinal
_ADDRESS = 1 << 20  # of tensors without memory
_NOTHING = "try        nothing"  # the line of a call without an action

_OPTIONS = {
    name: parameter.default
    for name, parameter in inspect.signature(attention).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY
}
_ARGUMENTS = list(inspect.signature(arguments_of).parameters)[3:]


class Explanation(dict):
    """The members of `attnjit explain --json`; `str()` has the lines for people."""

    def __str__(self) -> str:
        first, *others = self["lines"]
        return "\n".join((first, *(f"  {line}" for line in others)))


def _on_a_device(value):
    """What the module reads in the place of a tensor, as if it were on a GPU; anything else as it is."""
    if isinstance(value, (list, tuple)) and not isinstance(value, Description):
        return tuple(map(_on_a_device, value))
    if not isinstance(value, Tensor):
        return value
    address, code, bits, _, _, *shape = described(value)
    return Description((address or _ADDRESS, code, bits, *_ON_DEVICE, *shape))


def _rows(tensor: Tensor) -> Description:
    """`tensor` as a call reads it: where the elements of a row are no neighbours, as the copy that it makes."""
    *parts, shape, strides = _on_a_device(tensor)
    if strides[-1] != 1:
        strides = tuple(Tensor.new_empty(tensor, shape, device="meta").stride())
    return Description((*parts, shape, strides))


def explain(
    q: Tensor, k: Tensor, v: Tensor, *, backward: bool = False, deterministic: bool = False, **options
) -> Explanation:
    """Why `attention` of these arguments takes as long as it does: its kernels, what they count, which resource binds,
    an expected time, what each feature costs and what would make it faster. docs/guide/explain.md of the project says
    what the members are.

    Runs nothing and reads no values: tensors may be on the CPU, or on PyTorch's meta device. It speaks of the device of
    the current CUDA context, or else of an H200.

    Args:
        q, k, v: as those of `attention`, with one batch axis.
        backward: explain the gradients by q, k, v and, where the bias requires one, the bias.
        deterministic: of these, that of `attention`.
        options: the other arguments of `attention`; those that ask for more results make no difference.

    Raises:
        ValueError, TypeError, NotImplementedError: as `attention`.
    """
    if unknown := sorted(options.keys() - _OPTIONS.keys()):
        raise TypeError(f"explain: {unknown[0]!r} is no argument of attention")
    if q.dim() != 4:
        raise ValueError(f"q: it has {q.dim()} axes; expected (batch, head, sequence, feature): flatten batch axes")
    given = _OPTIONS | options
    q, k, v, tensors, scalars, _ = arguments_of(q, k, v, *(given[name] for name in _ARGUMENTS))
    need_dbias = tensors.bias is not None and tensors.bias.requires_grad
    copied = [name for name, t in (("q", q), ("k", k), ("v", v)) if t.stride(-1) != 1]
    explanation = Explanation(
        json.loads(
            _native.explain(
                context(), *map(_rows, (q, k, v)), *map(_on_a_device, tensors), scalars, backward, need_dbias,
                deterministic,
            )
        )
    )  # fmt: skip
    explanation["copied"] = copied
    if copied:
        explanation["lines"] = [line for line in explanation["lines"] if not line.startswith(_NOTHING)]
    for name in copied:
        explanation["lines"].append(
            f"try        make the elements of a row of {name} neighbours (stride 1): each call copies it"
        )
    return explanation
