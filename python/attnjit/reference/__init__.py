"""Attention computed from its formulas by PyTorch's own operations, on any device: what kernels are held against, and
what tests of a machine without a GPU call in the place of `attnjit.attention`."""

from ._attention import attention

__all__ = ["attention"]
