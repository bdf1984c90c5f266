"""Lists of blocks: `attention`, its gradients and `reference.attention` beside the dense mask of the same blocks."""

import pytest

torch = pytest.importorskip("torch")

import attnjit
import attnjit.reference

import cpu_kernels

B, HQ, HKV, LQ, LK, D, ROWS, KEYS = 2, 4, 2, 100, 90, 16, 32, 16
ROW_BLOCKS, KEY_BLOCKS = 4, 6

by_both = pytest.mark.parametrize("attention", [attnjit.attention, attnjit.reference.attention])


@pytest.fixture(autouse=True, scope="module")
def kernels():
    library = cpu_kernels.install()
    yield
    del library


def tensors(seed=0):
    generator = torch.Generator().manual_seed(seed)
    new = lambda *shape: torch.randn(shape, generator=generator, dtype=torch.float16)
    return new(B, HQ, LQ, D), new(B, HKV, LK, D), new(B, HKV, LK, D)


def lists(batch, heads, seed=0):
    """(indices, counts, and which blocks they name): unordered, with repetition, entries that name no block, counts
    past the end and below 0."""
    generator = torch.Generator().manual_seed(seed)
    places = KEY_BLOCKS + 2
    indices = torch.randint(-1, KEY_BLOCKS + 1, (batch, heads, ROW_BLOCKS, places), generator=generator).int()
    counts = torch.randint(-1, places + 3, (batch, heads, ROW_BLOCKS), generator=generator).int()
    named = torch.zeros(batch, heads, ROW_BLOCKS, KEY_BLOCKS, dtype=torch.bool)
    for b in range(batch):
        for h in range(heads):
            for r in range(ROW_BLOCKS):
                for c in indices[b, h, r, : max(int(counts[b, h, r]), 0)].tolist():
                    if 0 <= c < KEY_BLOCKS:
                        named[b, h, r, c] = True
    return indices, counts, named


def mask_of(named):
    wide = named.repeat_interleave(ROWS, 2).repeat_interleave(KEYS, 3)[:, :, :LQ, :LK]
    return wide.repeat_interleave(HQ // wide.shape[1], 1).expand(B, -1, -1, -1)


@by_both
@pytest.mark.parametrize("batch", [1, B])
@pytest.mark.parametrize("heads", [1, HKV, HQ])
def test_lists_are_the_mask_of_their_blocks(attention, batch, heads):
    indices, counts, named = lists(batch, heads)
    blocks = attnjit.BlockLists(indices, counts, (ROWS, KEYS))
    found = attention(*tensors(), blocks=blocks, return_lse=True)
    expected = attention(*tensors(), mask=mask_of(named), return_lse=True)
    torch.testing.assert_close(found, expected)


@by_both
def test_keep_holds_in_listed_blocks_and_not_in_full_ones(attention):
    indices, counts, named = lists(B, HQ)
    full_indices, full_counts, full = lists(B, HQ, seed=1)
    blocks = attnjit.BlockLists(indices, counts, (ROWS, KEYS), full_indices, full_counts)
    found = attention(*tensors(), blocks=blocks, keep="j % 3 == 1")
    rule = torch.arange(LK) % 3 == 1
    torch.testing.assert_close(found, attention(*tensors(), mask=mask_of(full) | mask_of(named) & rule))


@by_both
def test_gradients(attention):
    indices, counts, named = lists(B, HKV)
    blocks = attnjit.BlockLists(indices, counts, (ROWS, KEYS))
    found, expected = [], []
    for gradients, options in ((found, {"blocks": blocks}), (expected, {"mask": mask_of(named)})):
        leaves = [t.requires_grad_() for t in tensors()]
        attention(*leaves, **options, causal="top-left").float().square().sum().backward()
        gradients += [t.grad for t in leaves]
    torch.testing.assert_close(found, expected)


def test_gradients_of_given_results():
    indices, counts, named = lists(1, 1)
    q, k, v = tensors()
    options = {"blocks": attnjit.BlockLists(indices, counts, (ROWS, KEYS))}, {"mask": mask_of(named)}
    out, lse = attnjit.attention(q, k, v, **options[1], return_lse=True)
    found, expected = (attnjit.attention_backward(q, k, v, out, lse, out, **each) for each in options)
    torch.testing.assert_close(found[:3], expected[:3])


@by_both
def test_packed_sequences_drop_what_lies_past_their_blocks(attention):
    begins, lengths = torch.tensor([0, 70, 70, 170], dtype=torch.int32), (70, 0, 100)
    q, k, v = (torch.randn(1, h, 170, D, dtype=torch.float16) for h in (HQ, HKV, HKV))
    indices, counts, _ = lists(3, HQ)
    blocks = attnjit.BlockLists(indices[:, :, :3], counts[:, :, :3], (ROWS, KEYS), num_kv_blocks=5)
    packed = {"cu_seqlens_q": begins, "cu_seqlens_kv": begins}
    found = attention(q, k, v, **packed, blocks=blocks)
    named = lists(3, HQ)[2]
    dense = named[:, :, :3, :5].repeat_interleave(ROWS, 2).repeat_interleave(KEYS, 3)
    for b, length in enumerate(lengths):
        own = slice(int(begins[b]), int(begins[b]) + length)
        keep = torch.zeros(1, HQ, length, length, dtype=torch.bool)
        rows, keys = min(length, 96), min(length, 80)
        keep[..., :rows, :keys] = dense[b : b + 1, :, :rows, :keys]
        expected = attention(q[:, :, own], k[:, :, own], v[:, :, own], mask=keep)
        torch.testing.assert_close(found[:, :, own], expected)


@by_both
@pytest.mark.parametrize(
    ("blocks", "error", "message"),
    [
        ((1, 2), TypeError, "blocks: expected attnjit.BlockLists, not tuple"),
        (lambda i, c: attnjit.BlockLists(i.long(), c, (ROWS, KEYS)), TypeError, "blocks.indices: dtype is torch.int64"),
        (lambda i, c: attnjit.BlockLists(i, c[0], (ROWS, KEYS)), ValueError, "blocks.counts: it has 2 axes"),
        (lambda i, c: attnjit.BlockLists(i, c, (ROWS, KEYS), i), ValueError, "full_indices and full_counts go together"),
        (lambda i, c: attnjit.BlockLists(i, c, ROWS), TypeError, "blocks.block_size: 32; expected .rows, keys."),
        (lambda i, c: attnjit.BlockLists(i, None, (1, 1)), TypeError, "blocks.counts: expected a tensor, not NoneType"),
    ],
)
def test_what_is_refused(attention, blocks, error, message):
    if callable(blocks):
        blocks = blocks(*lists(1, 1)[:2])
    with pytest.raises(error, match=message):
        attention(*tensors(), blocks=blocks)


def test_the_reference_refuses_what_the_library_does():
    indices, counts, _ = lists(1, 1)
    for blocks, message in (
        ((indices, counts, (ROWS // 2, KEYS)), "blocks.indices: axis of row blocks is 4; expected 7"),
        ((indices, counts, (0, KEYS)), "blocks.block_q: 0; expected 1 to"),
        ((indices.expand(3, -1, -1, -1), counts, (ROWS, KEYS)), "blocks.indices: batch axis is 3; expected 1 or 2"),
    ):
        with pytest.raises(ValueError, match=message):
            attnjit.reference.attention(*tensors(), blocks=attnjit.BlockLists(*blocks))


def test_more_batch_axes_are_refused():
    indices, counts, _ = lists(1, 1)
    q, k, v = (t[None] for t in tensors())
    with pytest.raises(ValueError, match="q: it has 5 axes; blocks are for one batch axis"):
        attnjit.attention(q, k, v, blocks=attnjit.BlockLists(indices, counts, (ROWS, KEYS)))
