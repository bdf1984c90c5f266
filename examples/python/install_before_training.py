"""An existing training loop, which calls torch.nn.functional.scaled_dot_product_attention, and one line before."""

import torch
from torch import nn

import attnjit

attnjit.torch.install()  # the only line that is new


class Layer(nn.Module):
    """Attention with a learned bias per head and distance."""

    def __init__(self, width=256, heads=8, length=256):
        super().__init__()
        self.heads = heads
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros(heads, 2 * length))

    def forward(self, x):
        length = x.shape[1]
        q, k, v = self.project(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        position = torch.arange(length, device=x.device)
        bias = self.bias[:, position[:, None] - position + length]
        out = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
        return x + self.out(out.transpose(1, 2).flatten(2))


torch.manual_seed(0)
model = torch.compile(nn.Sequential(Layer(), Layer()).to("cuda", torch.bfloat16))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x = torch.randn(8, 256, 256, dtype=torch.bfloat16, device="cuda")
for step in range(5):
    loss = (model(x) - x.roll(1, 1)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: loss {loss.item():.4f}")
print(attnjit.served())
assert attnjit.served()["efficient"]["served"] == 20  # two layers, both passes, five steps
