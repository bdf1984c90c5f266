"""Triangle attention as in AlphaFold: each row of pairs attends along itself, all rows with one bias of pairs,
which has a gradient and is not copied per row."""

import torch

import attnjit

batch, length, heads, width = 2, 256, 4, 32


def normal(*shape):
    return torch.randn(shape, dtype=torch.bfloat16, device="cuda", requires_grad=True)


q, k, v = (
    normal(batch, length, heads, length, width) for _ in range(3)
)  # (batch, row, head, residue, width)
bias = normal(batch, 1, heads, length, length)
keep = torch.ones(batch, length, 1, 1, length, dtype=torch.bool, device="cuda")
keep[..., 200:] = False  # padding

before = torch.cuda.memory_allocated()
torch.cuda.reset_peak_memory_stats()
out = attnjit.attention(q, k, v, mask=keep, bias=bias)
out.square().mean().backward()

extra = (torch.cuda.max_memory_allocated() - before) / 2**20
copies = batch * length * heads * length * length * bias.element_size() / 2**20
print(
    f"dbias {tuple(bias.grad.shape)}; {extra:.0f} MiB at the peak, of which none is a bias per row ({copies:.0f} MiB)"
)
assert not bias.grad[..., 200:].any()
