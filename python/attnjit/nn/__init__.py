"""Modules: torch.nn.MultiheadAttention by attnjit's kernels, the same in a model that has PyTorch's, and
`attnjit.attention` with its options kept."""

from ._attention import Attention
from ._multihead_attention import MultiheadAttention
from ._replacement import Replacement, replace_modules

__all__ = ["Attention", "MultiheadAttention", "Replacement", "replace_modules"]
