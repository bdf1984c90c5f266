"""attnjit: attention kernels specialised at run time, for PyTorch.

``attention`` takes a mask and a bias as two operands, or either as a formula, with grouped heads and all gradients;
``sdpa``, ``flex_attention``, ``flash_attn_func``, ``flash_attn_varlen_func`` and ``flash_attn_with_kvcache`` have the
signatures of PyTorch and FlashAttention, ``flash_dmattn_func`` that of flash-dmattn, ``triangle_attention`` and
``attention_pair_bias`` those of cuEquivariance. Callers that stay as they are reach the kernels through ``sdpa_mode``,
``attnjit.torch.install``, ``attnjit.nn.replace_modules`` and ``attnjit.hf.register``; ``served`` counts what they got.
``nn`` has modules. ``context_parallel`` spreads ``attention`` over a process group; ``merge_lse`` adds up results over
shares of the keys, and ``attention_backward`` has the gradients of a share. ``prepare_mask`` prepares a mask for many
calls. ``explain`` says what binds a call and what would be faster. ``reference.attention`` computes a call without a
GPU. docs/guide/pytorch.md of the project shows each of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from . import _native

if TYPE_CHECKING:
    from ._attention import attention
    from ._backward import Gradients, attention_backward
    from ._block_lists import BlockLists
    from ._explain import Explanation, explain
    from ._flash_attn import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache
    from ._flash_dmattn import flash_dmattn_func
    from ._merge_lse import merge_lse
    from ._pair_bias import attention_pair_bias
    from ._prepared_mask import PreparedMask, prepare_mask
    from ._sdpa import sdpa
    from ._triangle_attention import triangle_attention
    from .doors._sdpa_mode import sdpa_mode
    from .doors._served import served
    from .flex._attention import flex_attention

__version__ = _native.version()
__all__ = [
    "BlockLists",
    "Explanation",
    "Gradients",
    "PreparedMask",
    "attention",
    "attention_backward",
    "attention_pair_bias",
    "explain",
    "flash_attn_func",
    "flash_attn_varlen_func",
    "flash_attn_with_kvcache",
    "flash_dmattn_func",
    "flex_attention",
    "merge_lse",
    "prepare_mask",
    "sdpa",
    "sdpa_mode",
    "served",
    "triangle_attention",
]

_HOMES = {
    "attention": "._attention",
    "attention_backward": "._backward",
    "attention_pair_bias": "._pair_bias",
    "Explanation": "._explain",
    "explain": "._explain",
    "flash_attn_func": "._flash_attn",
    "flash_attn_varlen_func": "._flash_attn",
    "flash_attn_with_kvcache": "._flash_attn",
    "flash_dmattn_func": "._flash_dmattn",
    "flex_attention": ".flex._attention",
    "Gradients": "._backward",
    "merge_lse": "._merge_lse",
    "BlockLists": "._block_lists",
    "PreparedMask": "._prepared_mask",
    "prepare_mask": "._prepared_mask",
    "sdpa": "._sdpa",
    "sdpa_mode": ".doors._sdpa_mode",
    "served": ".doors._served",
    "triangle_attention": "._triangle_attention",
}
_MODULES = ("context_parallel", "hf", "nn", "reference", "torch")


def __getattr__(name: str):
    """Loads a function or module on first use, so that importing the package needs no PyTorch."""
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module 'attnjit' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOMES) | set(_MODULES))
