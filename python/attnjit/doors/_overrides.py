"""CUDA kernels of PyTorch's own operators, in whose place attnjit's are for a while."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.library import Library

from ._served import count


class Override(NamedTuple):
    """An operator's kernel and, from the same arguments, why a call is not for it (None if it is)."""

    kernel: Callable
    why_not: Callable[..., str | None]


class Overrides:
    """Puts kernels in the place of PyTorch's until remove(). A call that is not for them goes on to the kernel
    that was there before, with the same result as without the override."""

    def __init__(self, door: str, overrides: dict[str, Override]):
        """Raises RuntimeError where this PyTorch cannot do it, and overrides nothing then."""
        if not hasattr(torch.library, "get_kernel"):
            raise RuntimeError(
                f"attnjit cannot override operators of PyTorch {torch.__version__}: it has no"
                " torch.library.get_kernel; 2.11 or newer has"
            )
        before = {name: torch.library.get_kernel(f"aten::{name}", "CUDA") for name in overrides}
        library = Library("aten", "IMPL")
        for name, override in overrides.items():
            function = _with_fallback(door, override, before[name])
            library.impl(name, function, "CUDA", with_keyset=True, allow_override=True)
        self._library = library  # its kernels stay registered as long as it lives

    def remove(self) -> None:
        """Puts back what was there before; a second call does nothing."""
        self._library = None


def _with_fallback(door: str, override: Override, before):
    def kernel(keyset, *arguments, **options):
        reason = override.why_not(*arguments, **options)
        count(door, reason)
        if reason is None:
            return override.kernel(*arguments, **options)
        return before.call_boxed(keyset, *arguments, **options)

    return kernel
