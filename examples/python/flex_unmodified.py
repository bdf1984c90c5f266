"""Code for FlexAttention, in which one import has changed: causal documents with a table of distances."""

import torch
from torch.nn.attention.flex_attention import create_block_mask

from attnjit import flex_attention  # was: from torch.nn.attention.flex_attention import flex_attention

batch, heads, heads_kv, length, width = 2, 16, 4, 2048, 64


def normal(heads):
    return torch.randn(batch, heads, length, width, dtype=torch.bfloat16, device="cuda", requires_grad=True)


document = (torch.rand(batch, length, device="cuda") < 0.005).cumsum(-1)
table = torch.randn(heads, 257, device="cuda")


def causal_documents(b, h, q_idx, kv_idx):
    return (document[b, q_idx] == document[b, kv_idx]) & (q_idx >= kv_idx)


def relative_positions(score, b, h, q_idx, kv_idx):
    return score + table[h, torch.clamp(q_idx - kv_idx, -128, 128) + 128]


q, k, v = normal(heads), normal(heads_kv), normal(heads_kv)
mask = create_block_mask(causal_documents, batch, None, length, length, device="cuda")
out = flex_attention(q, k, v, score_mod=relative_positions, block_mask=mask, enable_gqa=True)
out.square().mean().backward()

print("out", tuple(out.shape), "dq", tuple(q.grad.shape))
assert q.grad.isfinite().all()
