"""Paged keys and masks over the last keys on CPU tensors: attnjit.attention and flash_attn_with_kvcache."""

import pytest
import torch

import attnjit

pytestmark = pytest.mark.usefixtures("cpu_kernels")

B, H, HKV, LQ, D, DV, PAGE, PAGES = 3, 4, 2, 5, 8, 16, 4, 6
LENGTHS = (24, 9, 3)


def tensors():
    """q, pools of pages, their table and lengths; entries past the lengths name no page."""
    torch.manual_seed(0)
    q = torch.randn(B, H, LQ, D)
    k, v = (torch.randn(B * PAGES + 1, HKV, PAGE, width) for width in (D, DV))
    table = torch.randperm(B * PAGES + 1)[: B * PAGES].reshape(B, PAGES).int()
    table[2, 0] = table[0, 0]  # a page of two batch elements
    lengths = torch.tensor(LENGTHS, dtype=torch.int32)
    table[torch.arange(PAGES) * PAGE >= lengths[:, None]] = -7
    return q, k, v, table, lengths


def keys_in_a_row(pool, table):
    return pool[table.clamp(min=0).long()].transpose(1, 2).flatten(2, 3)


def drafts():
    """Ancestors of each of LQ nodes of a random tree, with themselves."""
    tree = torch.eye(LQ, dtype=torch.bool)
    for node in range(1, LQ):
        tree[node] |= tree[torch.randint(node, ())]
    return tree


@pytest.mark.parametrize(
    "options", [{}, {"causal": "bottom-right"}, {"window": (6, 0), "diagonal": "bottom-right"}]
)
def test_pages_are_keys_in_a_row(options):
    q, k, v, table, lengths = tensors()
    options = options | {
        "seqlens_kv": lengths,
        "sink": torch.randn(H),
        "return_lse": True,
        "return_row_max": True,
    }
    found = attnjit.attention(q, k, v, block_table=table, **options)
    expected = attnjit.attention(q, *(keys_in_a_row(t, table) for t in (k, v)), **options)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("paged", [False, True])
def test_a_tree_of_drafts_is_a_mask_over_all_keys(paged):
    q, k, v, table, lengths = tensors()
    tree = torch.stack([drafts() for _ in range(B)])
    mask = torch.ones(B, 1, LQ, PAGES * PAGE, dtype=torch.bool)
    for b, length in enumerate(LENGTHS):
        columns = min(length, LQ)
        mask[b, 0, :, length - columns : length] = tree[b, :, LQ - columns :]
    rows = [keys_in_a_row(t, table) for t in (k, v)]
    expected = attnjit.attention(q, *rows, mask=mask, seqlens_kv=lengths)
    keys, pages = ((k, v), {"block_table": table}) if paged else (rows, {})
    found = attnjit.attention(q, *keys, tail_mask=tree[:, None], seqlens_kv=lengths, **pages)
    torch.testing.assert_close(found, expected)
    one = attnjit.attention(q, *keys, tail_mask=tree[0], seqlens_kv=lengths, **pages)
    torch.testing.assert_close(one[0], expected[0])


def test_flash_attn_with_kvcache():
    q, k, v, table, lengths = tensors()
    sequence_major = [t.transpose(1, 2) for t in (q, k, v)]
    out, lse = attnjit.flash_attn_with_kvcache(
        *sequence_major, cache_seqlens=lengths, block_table=table, causal=True, return_softmax_lse=True
    )
    expected = attnjit.attention(
        q, k, v, seqlens_kv=lengths, block_table=table, causal="bottom-right", return_lse=True
    )
    torch.testing.assert_close((out.transpose(1, 2), lse), expected)
    rows = [keys_in_a_row(t, table) for t in (k, v)]
    cache = [t.transpose(1, 2) for t in rows]
    out = attnjit.flash_attn_with_kvcache(sequence_major[0], *cache, cache_seqlens=7, window_size=(3, 0))
    seven = torch.full((B,), 7, dtype=torch.int32)
    expected = attnjit.attention(q, *rows, seqlens_kv=seven, window=(3, 0), diagonal="bottom-right")
    torch.testing.assert_close(out.transpose(1, 2), expected)


BEGINS = (0, 7, 7, 8)  # a chunk of a prompt, a sequence without rows, a single query


def packed_queries():
    """Rows of all sequences, and two of none, with where sequences begin."""
    return torch.randn(1, H, BEGINS[-1] + 2, D), torch.tensor(BEGINS, dtype=torch.int32)


@pytest.mark.parametrize("options", [{}, {"causal": "bottom-right"}, {"bias": "key"}, {"bias": "pair"}])
def test_packed_queries_are_calls_of_their_own(options):
    _, k, v, table, lengths = tensors()
    q, begins = packed_queries()
    shapes = {"key": (1, H, 1, PAGES * PAGE), "pair": (B, H, 7, PAGES * PAGE)}
    bias = torch.randn(shapes[options["bias"]]) if "bias" in options else None
    options = {"sink": torch.randn(H), "return_lse": True, "causal": options.get("causal")}
    pages = {"block_table": table, "seqlens_kv": lengths}
    out, lse, largest = attnjit.attention(
        q, k, v, bias=bias, cu_seqlens_q=begins, return_max_logits=True, **pages, **options
    )
    most = torch.full((H,), -torch.inf)
    for b in range(B):
        rows, one = slice(BEGINS[b], BEGINS[b + 1]), slice(b, b + 1)
        own = None
        if bias is not None:
            own = bias if bias.shape[0] == 1 else bias[one, :, : rows.stop - rows.start]
        keys = (keys_in_a_row(t, table[one]) for t in (k, v))
        expected = attnjit.attention(
            q[:, :, rows], *keys, bias=own, seqlens_kv=lengths[one], return_max_logits=True, **options
        )
        torch.testing.assert_close((out[:, :, rows], lse[:, :, rows]), expected[:2])
        most = torch.maximum(most, expected[2])
    torch.testing.assert_close(largest, most)
    assert out[:, :, BEGINS[-1] :].abs().max() == 0 and lse[:, :, BEGINS[-1] :].max() == -torch.inf


@pytest.mark.parametrize("slopes", [None, torch.rand(H), torch.rand(B, H)])
def test_flash_attn_varlen_func(slopes):
    _, k, v, table, lengths = tensors()
    q, begins = packed_queries()
    bounds = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).int()
    out = attnjit.flash_attn_varlen_func(
        q[0].transpose(0, 1), *(t.transpose(1, 2) for t in (k, v)), begins, bounds, 7, 24, causal=True,
        window_size=(5, 0), alibi_slopes=slopes, block_table=table,
    )  # fmt: skip
    expected = attnjit.attention(
        q, k, v, cu_seqlens_q=begins, seqlens_kv=lengths, block_table=table, causal="bottom-right",
        window=(5, 0), alibi_slopes=slopes,
    )  # fmt: skip
    torch.testing.assert_close(out, expected[0].transpose(0, 1))


def test_compiled_code_is_the_same():
    q, k, v, table, lengths = tensors()
    tree = drafts()
    options = {"tail_mask": tree, "block_table": table, "seqlens_kv": lengths}
    call = lambda *inputs: attnjit.attention(*inputs, **options)
    compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(q, k, v), call(q, k, v))
    q, begins = packed_queries()
    options = {"cu_seqlens_q": begins, "block_table": table, "seqlens_kv": lengths}
    torch.testing.assert_close(compiled(q, k, v), call(q, k, v))


def test_what_is_refused():
    q, k, v, table, lengths = tensors()
    pages = {"block_table": table, "seqlens_kv": lengths}
    with pytest.raises(NotImplementedError, match="block_table, tail_mask: they have no gradients"):
        attnjit.attention(q.requires_grad_(), k, v, **pages)
    with torch.no_grad():
        attnjit.attention(q, k, v, **pages)
    q = q.detach()
    with pytest.raises(ValueError, match="q: it has 5 axes; block_table"):
        attnjit.attention(q[None], k, v, **pages)
    with pytest.raises(TypeError, match="block_table: dtype is torch.float32; expected int32"):
        attnjit.attention(q, k, v, block_table=table.float(), seqlens_kv=lengths)
    with pytest.raises(NotImplementedError, match="k: it is a tensor"):
        attnjit.flash_attn_with_kvcache(q, k, v, k=q, cache_seqlens=lengths)
