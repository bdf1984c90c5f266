"""Calls of PyTorch's own attention that attnjit takes."""
