"""attnjit for programs that call torch.nn.functional.scaled_dot_product_attention and stay as they are.

Importing this module makes "attnjit" known to torch.nn.attention.activate_flash_attention_impl, which takes the
place of PyTorch's flash attention, for calls without a mask; `install` takes that of its efficient attention, for
calls with a mask or bias, and of its cuDNN attention, too. Nothing is in any place before one of them is called,
and `attnjit.served` counts what came.
"""

from typing import ClassVar

from torch.nn.attention import register_flash_attention_impl

from .doors import _cudnn_operators, _efficient_operators, _flash_operators
from .doors._overrides import Overrides

__all__ = ["Installation", "install"]

register_flash_attention_impl("attnjit", register_fn=_flash_operators.activate)


class Installation:
    """What `install` put in place. remove(), or the end of a with statement, takes it away."""

    # Those in place: PyTorch drops an override with the last reference to it, and callers may keep none.
    _in_place: ClassVar[set["Installation"]] = set()

    def __init__(self, overrides: list[Overrides]):
        self._overrides = overrides
        self._in_place.add(self)

    def remove(self) -> None:
        """Puts PyTorch's kernels back; a second call does nothing."""
        for override in self._overrides:
            override.remove()
        self._overrides = []
        self._in_place.discard(self)

    def __enter__(self) -> "Installation":
        return self

    def __exit__(self, *_) -> None:
        self.remove()


def install(*, masked: bool = True, unmasked: bool = True) -> Installation:
    """Serves scaled_dot_product_attention, compiled or not, in this process from now on.

    Args:
        masked: calls with a mask or bias, and its gradient, which PyTorch gives to its efficient attention or to
            cuDNN.
        unmasked: calls without one, which it gives to its flash attention or to cuDNN.

    Returns:
        What remove() undoes, and a with statement.

    Raises:
        RuntimeError: this PyTorch has no way to pass on what attnjit does not serve.

    PyTorch chooses the backend as before: what its own kernels would refuse is computed from the formulas;
    `attnjit.sdpa_mode` catches those. What attnjit does not serve goes on to PyTorch's kernels, with the same
    results as without it.
    """
    overrides = []
    try:
        if masked:
            overrides.append(_efficient_operators.install())
        if unmasked:
            overrides.append(_flash_operators.activate())
        if masked or unmasked:
            overrides.append(_cudnn_operators.install(masked=masked, unmasked=unmasked))
    except BaseException:
        Installation(overrides).remove()
        raise
    return Installation(overrides)
