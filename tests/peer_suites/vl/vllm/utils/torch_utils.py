"""The generator of the tests' numbers."""

from torch import manual_seed as set_random_seed

__all__ = ["set_random_seed"]
