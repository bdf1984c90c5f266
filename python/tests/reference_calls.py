"""Sizes and tensors of the calls that tests of attnjit.reference make."""

import torch

B, H, HKV, LQ, LK, D, DV = 2, 4, 2, 3, 5, 4, 2
WIDE = torch.float64


def tensors(dtype=WIDE, requires_grad=False):
    torch.manual_seed(0)
    shapes = (B, H, LQ, D), (B, HKV, LK, D), (B, HKV, LK, DV)
    return [torch.randn(shape, dtype=dtype, requires_grad=requires_grad) for shape in shapes]


def lengths(*numbers):
    return torch.tensor(numbers, dtype=torch.int32)
