"""attnjit.flex_attention on a GPU against PyTorch's operations in fp32, forward and gradients."""

import pytest
import torch
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, create_block_mask, create_mask

import attnjit

pytestmark = pytest.mark.gpu

B, H, HKV, L, S, D = 2, 4, 2, 300, 410, 64


def tensors():
    torch.manual_seed(0)
    shapes = (B, H, L, D), (B, HKV, S, D), (B, HKV, S, D)
    return [torch.randn(s, dtype=torch.bfloat16, device="cuda", requires_grad=True) for s in shapes]


def causal(b, h, q, k):
    return q + S - L >= k


def window(b, h, q, k):
    return (q + S - L - k).abs() <= 50 * (h + 1)


def documents_mask():
    documents = torch.randint(0, 4, (B, S), device="cuda").sort(-1).values
    return lambda b, h, q, k: (documents[b, q + S - L] == documents[b, k]) & causal(b, h, q, k)


def relative_score(dtype):
    table = torch.randn(H, 129, device="cuda", dtype=dtype)
    return lambda s, b, h, q, k: s + table[h, torch.clamp(q - k, -64, 64) + 64]


def softcap(s, b, h, q, k):
    return 10 * torch.tanh(s / 10)


def alibi(s, b, h, q, k):
    return s + torch.exp2(-((h + 1) * 8.0 / H)) * (k - q)


def dense(q, k, v, score_mod, keep):
    k, v = (t.repeat_interleave(H // HKV, 1) for t in (k, v))
    s = q @ k.transpose(-1, -2) / D**0.5
    if score_mod is not None:
        sizes = (B, H, L, S)
        along = lambda axis: torch.arange(sizes[axis], device="cuda").reshape(
            [-1 if a == axis else 1 for a in range(4)]
        )
        s = score_mod(s, *map(along, range(4)))
    if keep is not None:
        s = s.masked_fill(~keep, -torch.inf)
    return s.softmax(-1).nan_to_num(0) @ v, s.logsumexp(-1)


def check(score_mod, mask, keep):
    q, k, v = tensors()
    out, aux = attnjit.flex_attention(
        q, k, v, score_mod, mask, enable_gqa=True, return_aux=AuxRequest(lse=True)
    )
    wide = [t.detach().float().requires_grad_() for t in (q, k, v)]
    expected = dense(*wide, score_mod, keep)
    torch.testing.assert_close(out.float(), expected[0], rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(aux.lse, expected[1], rtol=1e-3, atol=1e-3)
    weights = torch.randn_like(out)
    found = torch.autograd.grad(out, (q, k, v), weights)
    exact = torch.autograd.grad(expected[0], wide, weights.float())
    for gradient, precise in zip(found, exact, strict=True):
        torch.testing.assert_close(gradient.float(), precise, rtol=5e-2, atol=5e-2)


@pytest.mark.parametrize("mask", [None, causal, window, documents_mask])
@pytest.mark.parametrize("score", [None, softcap, alibi, torch.float32, torch.bfloat16])
def test_functions(score, mask):
    torch.manual_seed(0)
    score_mod = relative_score(score) if isinstance(score, torch.dtype) else score
    mask_mod = mask() if mask is documents_mask else mask
    if mask_mod is None:
        return check(score_mod, None, None)
    keep = create_mask(mask_mod, B, H, L, S, device="cuda")
    check(score_mod, create_block_mask(mask_mod, B, H, L, S, device="cuda"), keep)
    return check(score_mod, mask_mod, keep)


def test_lists_alone():
    rows, columns = -(-L // 128), -(-S // 128)
    blocks = torch.tensor([[0, 1, 1, 0], [1, 0, 0, 1], [0, 0, 0, 0]], dtype=torch.bool, device="cuda")
    counts = blocks.sum(-1, dtype=torch.int32).expand(1, 1, rows).contiguous()
    indices = blocks.int().argsort(dim=-1, descending=True, stable=True).int().expand(1, 1, rows, columns)
    mask = BlockMask.from_kv_blocks(counts, indices.contiguous(), seq_lengths=(L, S))
    keep = blocks.repeat_interleave(128, 0).repeat_interleave(128, 1)[:L, :S].expand(B, H, L, S)
    check(None, mask, keep)


def test_in_compiled_code_and_graphs():
    q, k, v = (t.detach() for t in tensors())
    places = torch.arange(L, device="cuda") % 7

    def call():
        return attnjit.flex_attention(
            q, k, v, lambda s, b, h, i, j: s + places[i] * (j < 9), causal, enable_gqa=True
        )

    expected = call()
    torch.testing.assert_close(torch.compile(call)(), expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = call()
    places.zero_()
    graph.replay()
    torch.testing.assert_close(found, attnjit.flex_attention(q, k, v, None, causal, enable_gqa=True))
