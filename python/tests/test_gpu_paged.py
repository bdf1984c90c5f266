"""Paged keys and masks over the last keys on a GPU against the formulas in fp64."""

import itertools
import random

import pytest
import torch

import attnjit
from attnjit._call import Operands
from attnjit._scalars import BOTTOM_RIGHT, NO_DIAGONAL, Scalars

import accuracy

pytestmark = pytest.mark.gpu


def drawn(rng, page_size):
    """q, pools of pages, their table with garbage past the lengths, the lengths and a tree of drafts."""
    batch, heads_kv, pages = rng.randint(1, 4), rng.choice((1, 2)), rng.randint(1, 12)
    heads, rows, width = heads_kv * rng.choice((1, 4)), rng.choice((1, 5, 70)), rng.choice((64, 128, 256))
    make = lambda *shape: torch.randn(shape, dtype=torch.bfloat16, device="cuda")
    q = make(batch, rows, heads, width).transpose(1, 2)
    count = batch * pages + 3
    if rng.random() < 0.5:
        k, v = (make(count, heads_kv, page_size, width) for _ in range(2))
    else:
        k, v = (make(count, page_size, heads_kv, width).transpose(1, 2) for _ in range(2))
    table = torch.full((batch, pages + 2), -1, dtype=torch.int32, device="cuda")[:, :pages]
    lengths = torch.randint(0, pages * page_size + 1, (batch,), dtype=torch.int32, device="cuda")
    order = torch.randperm(count, device="cuda")[: batch * pages].reshape(batch, pages).int()
    in_use = torch.arange(pages, device="cuda") * page_size < lengths[:, None]
    table.copy_(torch.where(in_use, order, 2**31 - 1))
    tree = torch.rand(batch, 1, rows, rows, device="cuda") < 0.7
    return q, k, v, table, lengths, tree


@pytest.mark.parametrize("page_size", [1, 16, 32, 64, 100, 128, 256])
def test_random_pages(page_size):
    rng = random.Random(page_size)
    torch.manual_seed(page_size)
    for index in range(8):
        q, k, v, table, lengths, tree = drawn(rng, page_size)
        tail = tree if index % 2 else None
        causal = "bottom-right" if index % 3 else None
        out, lse = attnjit.attention(
            q,
            k,
            v,
            block_table=table,
            seqlens_kv=lengths,
            tail_mask=tail,
            causal=causal,
            return_lse=True,
        )
        scalars = Scalars(None, causal is not None, BOTTOM_RIGHT if causal else NO_DIAGONAL)
        operands = Operands(seqlens_kv=lengths, block_table=table, tail_mask=tail)
        accuracy.check((q, k, v, operands, scalars), out, lse)


@pytest.mark.parametrize("page_size", [16, 64, 100])
def test_packed_queries(page_size):
    rng = random.Random(page_size)
    torch.manual_seed(page_size)
    for index in range(8):
        _, k, v, table, lengths, _ = drawn(rng, page_size)
        heads, width = k.shape[1] * rng.choice((1, 4)), k.shape[3]
        rows = [rng.choice((0, 1, 1, 5, 130)) for _ in lengths]
        begins = torch.tensor([0, *itertools.accumulate(rows)], dtype=torch.int32, device="cuda")
        q = torch.randn(1, sum(rows) + 3, heads, width, dtype=torch.bfloat16, device="cuda").transpose(1, 2)
        causal = "bottom-right" if index % 3 else None
        options = {"cu_seqlens_q": begins, "seqlens_kv": lengths, "block_table": table}
        out, lse = attnjit.attention(q, k, v, causal=causal, return_lse=True, **options)
        scalars = Scalars(None, causal is not None, BOTTOM_RIGHT if causal else NO_DIAGONAL)
        accuracy.check((q, k, v, Operands(**options), scalars), out, lse)
