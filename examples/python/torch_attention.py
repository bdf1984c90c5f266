"""A mask and a bias as two operands, grouped heads, and all gradients."""

import torch

import attnjit

batch, heads, heads_kv, length, width = 2, 16, 4, 1000, 64


def normal(*shape):
    return torch.randn(shape, dtype=torch.bfloat16, device="cuda", requires_grad=True)


q = normal(batch, heads, length, width)
k, v = normal(batch, heads_kv, length, width), normal(batch, heads_kv, length, width)
bias = normal(1, heads, length, length)  # one for all samples: its gradient is summed over them
lengths = torch.tensor([600, 1000], device="cuda")
keep = (torch.arange(length, device="cuda") < lengths[:, None])[:, None, None]  # (batch, 1, 1, keys)

out = attnjit.attention(q, k, v, mask=keep, bias=bias, causal="top-left")
out.square().mean().backward()

print("out", tuple(out.shape), "dbias", tuple(bias.grad.shape), bias.grad.dtype)
assert not bias.grad[..., 1000:].any() and bias.grad.isfinite().all()
