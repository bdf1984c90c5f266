"""A mask of a tree, said and not stored: prompts that begin alike are one tree of tokens, and each token sees the way
to the root. A depth-first walk enters token j at `tin[j]` and leaves it at `tout[j]`; what it enters between is below j."""

import torch

import attnjit

batch, heads, heads_kv, length, width = 2, 16, 4, 2000, 64


def walk(parents: list[int]) -> tuple[list[int], list[int]]:
    """(tin, tout) of the tokens of a tree, in which a parent comes before its children."""
    sizes = [1] * len(parents)
    for token in reversed(range(1, len(parents))):
        sizes[parents[token]] += sizes[token]
    tin, begins = [0] * len(parents), [1] * len(parents)  # where the next child of a token begins
    for token in range(1, len(parents)):
        parent = parents[token]
        tin[token] = begins[parent]
        begins[token] = tin[token] + 1
        begins[parent] += sizes[token]
    return tin, [t + size for t, size in zip(tin, sizes)]


def branches(prefix: int) -> list[int]:
    """The parents of tokens: a prefix, from which four answers go on."""
    answer = (length - prefix) // 4
    begins = {prefix + n * answer for n in range(4)}
    return [-1] + [prefix - 1 if token in begins else token - 1 for token in range(1, length)]


def normal(heads):
    return torch.randn(batch, heads, length, width, dtype=torch.bfloat16, device="cuda", requires_grad=True)


walks = [walk(branches(prefix)) for prefix in (400, 1200)]
tin, tout = (torch.tensor(numbers, dtype=torch.int32, device="cuda") for numbers in zip(*walks))
q, k, v = normal(heads), normal(heads_kv), normal(heads_kv)

out = attnjit.attention(
    q, k, v, keep="tin[b, j] <= tin[b, i] && tin[b, i] < tout[b, j]", operands={"tin": tin, "tout": tout}
)
out.square().mean().backward()

mask = (tin[:, None] <= tin[:, :, None]) & (tin[:, :, None] < tout[:, None])  # what was not stored
torch.testing.assert_close(out, attnjit.attention(q, k, v, mask=mask[:, None]), rtol=2e-2, atol=2e-2)
print("out", tuple(out.shape), f"a row sees {mask.sum(-1).float().mean():.0f} of {length} keys")
