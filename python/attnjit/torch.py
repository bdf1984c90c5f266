"""attnjit for programs that call torch.nn.functional.scaled_dot_product_attention and stay as they are.

Importing this module makes "attnjit" known to torch.nn.attention.activate_flash_attention_impl, which takes the
place of PyTorch's flash attention, for calls without a mask; `install` takes that of its efficient attention,
for calls with a mask or bias. Nothing is in any place before one of them is called, and `attnjit.served` counts
what came.
"""

from typing import ClassVar

import torch
from torch.nn.attention import register_flash_attention_impl

from . import _efficient_operators, _flash_operators
from ._overrides import Overrides

__all__ = ["Installation", "install"]

register_flash_attention_impl("attnjit", register_fn=_flash_operators.activate)


class _WithoutCudnn:
    """Keeps PyTorch from cuDNN, which it prefers on Hopper to the operators that are overridden."""

    def __init__(self):
        self._was_enabled = torch.backends.cuda.cudnn_sdp_enabled()
        torch.backends.cuda.enable_cudnn_sdp(False)

    def remove(self) -> None:
        torch.backends.cuda.enable_cudnn_sdp(self._was_enabled)


class Installation:
    """What `install` put in place. remove(), or the end of a with statement, takes it away."""

    # Those in place: PyTorch drops an override with the last reference to it, and callers may keep none.
    _in_place: "ClassVar[set[Installation]]" = set()

    def __init__(self, overrides: list[Overrides | _WithoutCudnn]):
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
        masked: calls with a mask or bias, and its gradient, which PyTorch gives to its efficient attention.
        unmasked: calls without one, which it gives to its flash attention; as
            activate_flash_attention_impl("attnjit") does.

    Returns:
        What remove() undoes, and a with statement.

    Raises:
        RuntimeError: this PyTorch has no way to pass on what attnjit does not serve.

    PyTorch's cuDNN backend, which it prefers on Hopper, is off meanwhile: with unmasked=False, calls without a
    mask go to its flash attention there. PyTorch still chooses the backend: what its own kernels would refuse, such as grouped heads with a mask, is
    computed from the formulas; `attnjit.sdpa_mode` catches those. What attnjit does not serve goes on to
    PyTorch's kernels, with the same results as without it.
    """
    overrides = []
    try:
        if masked:
            overrides.append(_efficient_operators.install())
        if unmasked:
            overrides.append(_flash_operators.activate())
        overrides.append(_WithoutCudnn())
    except BaseException:
        Installation(overrides).remove()
        raise
    return Installation(overrides)
