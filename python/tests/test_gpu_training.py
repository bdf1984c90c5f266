"""Training steps of a small transformer, on a GPU: its losses follow those that PyTorch's own attention leads to,
on the kernels that a problem gets and on the portable ones."""

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy, pad, scaled_dot_product_attention

import attnjit

pytestmark = pytest.mark.gpu

STEPS, BATCH, LENGTH, VOCABULARY = 80, 8, 257, 64
HEADS, HEADS_KV, WIDTH = 4, 2, 64


def ours(q, k, v, bias):
    return attnjit.attention(q, k, v, bias=bias, causal="top-left")


def portable(q, k, v, bias):
    """Rows at odd addresses, which the copy engine of Hopper cannot load."""
    q, k, v = (pad(t, (1, 1))[..., 1:-1] for t in (q, k, v))
    return attnjit.attention(q, k, v, bias=bias, causal="top-left")


def pytorch(q, k, v, bias):
    later = torch.ones(LENGTH, LENGTH, dtype=torch.bool, device=q.device).triu(1)
    with sdpa_kernel(SDPBackend.MATH):
        mask = bias.masked_fill(later, float("-inf"))
        return scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


class Layer(nn.Module):
    def __init__(self, attend):
        super().__init__()
        width = HEADS * WIDTH
        self.attend = attend
        self.projection = nn.Linear(width, (HEADS + 2 * HEADS_KV) * WIDTH)
        self.back = nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.norm = nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(1, HEADS, LENGTH, LENGTH))

    def forward(self, x):
        heads = self.projection(self.norm(x)).unflatten(-1, (-1, WIDTH)).transpose(1, 2).bfloat16()
        q, k, v = heads.split([HEADS, HEADS_KV, HEADS_KV], dim=1)
        out = self.attend(q, k, v, self.bias.bfloat16())
        x = x + self.back(out.transpose(1, 2).flatten(2).float())
        return x + self.feed(x)


class Transformer(nn.Module):
    def __init__(self, attend):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HEADS * WIDTH)
        self.layers = nn.Sequential(Layer(attend), Layer(attend))
        self.logits = nn.Linear(HEADS * WIDTH, VOCABULARY)

    def forward(self, tokens):
        return self.logits(self.layers(self.embedding(tokens)))


def losses(attend):
    """Of STEPS steps on a task that needs attention: each sequence is drawn from four of the tokens."""
    torch.manual_seed(0)
    model = Transformer(attend).cuda()
    biases = [layer.bias for layer in model.layers]
    others = [p for p in model.parameters() if p.shape != biases[0].shape]
    optimizer = torch.optim.AdamW([{"params": biases, "lr": 0.1}, {"params": others, "lr": 3e-3}])
    found = []
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step)
        drawn = torch.randint(VOCABULARY, (BATCH, 4), generator=generator)
        tokens = drawn.gather(1, torch.randint(4, (BATCH, LENGTH + 1), generator=generator)).cuda()
        loss = cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return torch.tensor(found)


def test_losses_follow():
    expected = losses(pytorch)
    assert expected[-1] < 0.7 * expected[0]
    # Noise of 0.4 % in the outputs, as bf16 has it, moves the first ten by 1e-4 and the others by 0.8 %; a scale that
    # is a tenth too large moves them by 1e-3 and 7 %, a bias without its gradient by 1e-3 and 4 %.
    for attend in (ours, portable):
        difference = (losses(attend) - expected).abs() / expected
        assert difference[:10].max() < 5e-4, attend.__name__
        assert difference.max() < 2e-2, attend.__name__
