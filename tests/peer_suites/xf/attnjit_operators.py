"""Operators of xformers by attnjit.attention, in the place of all of xformers' own."""

import os

import torch
from xformers.ops import fmha
from xformers.ops.fmha import attn_bias as biases
from xformers.ops.fmha.common import AttentionBwOpBase, AttentionFwOpBase, Context, Gradients

import attnjit

DEVICES = {"cuda"} | ({"cpu"} if os.environ.get("SUITE_ON_CPU") else set())
LEFT, RIGHT = "top-left", "bottom-right"


def _band(bias):
    """The options of attention for the diagonal and window of a bias."""
    window = getattr(bias, "_window_size", 0)
    behind = (window - 1, 0) if window else None
    if isinstance(
        bias, (biases.LocalAttentionFromBottomRightMask, biases.BlockDiagonalLocalAttentionPaddedKeysMask)
    ):
        return {"window": (bias.window_left, bias.window_right), "diagonal": RIGHT}
    if isinstance(bias, biases.BlockDiagonalCausalLocalAttentionMask):
        return {"window": behind, "diagonal": LEFT}
    if isinstance(
        bias,
        (
            biases.LowerTriangularFromBottomRightLocalAttentionMask,
            biases.BlockDiagonalCausalLocalAttentionFromBottomRightMask,
            biases.BlockDiagonalCausalLocalAttentionPaddedKeysMask,
        ),
    ):
        return {"window": behind, "diagonal": RIGHT}
    if isinstance(
        bias,
        (
            biases.LowerTriangularFromBottomRightMask,
            biases.BlockDiagonalCausalFromBottomRightMask,
            biases.BlockDiagonalCausalWithOffsetPaddedKeysMask,
            biases.PagedBlockDiagonalCausalWithOffsetPaddedKeysMask,
            biases.BlockDiagonalCausalWithOffsetGappyKeysMask,
            biases.PagedBlockDiagonalCausalWithOffsetGappyKeysMask,
        ),
    ):
        return {"causal": RIGHT}
    if isinstance(bias, (biases.LowerTriangularMask, biases.BlockDiagonalCausalMask)):
        return {"causal": LEFT}
    return {}


def _pages(keys, size):
    """(1, heads, keys, width) as a pool (pages, heads, size, width)."""
    return keys[0].unflatten(1, (-1, size)).transpose(0, 1)


def _rows_of_keys(bias, keys):
    """A table of pages of one key for sequences that lie anywhere in the keys."""
    info = bias.k_seqinfo
    begins = info.seqstart[:-1]
    paged = isinstance(bias, biases.PagedBlockDiagonalGappyKeysMask)
    lengths = info.seqlen - begins if paged else info.seqlen
    rows = begins[:, None] + torch.arange(int(lengths.max()), device=begins.device)
    if paged:
        page = (rows // bias.page_size).clamp(max=bias.block_tables.shape[1] - 1)
        rows = bias.block_tables.gather(1, page.long()) * bias.page_size + rows % bias.page_size
    return {
        "block_table": rows.clamp(max=keys.shape[2] - 1).to(torch.int32),
        "seqlens_kv": lengths.to(torch.int32),
    }


def _attention(inp, heads_are_shared, **wanted):
    """attnjit.attention of (B, M, H, K) or (B, M, G, H, K) tensors. Heads of keys that lie in the same memory are
    passed once if heads_are_shared; their gradients are those of the expanded tensor otherwise."""
    q, k, v, bias = inp.query, inp.key, inp.value, inp.attn_bias
    grouped = q.dim() == 5
    if heads_are_shared and k.stride(-2) == 0 == v.stride(-2) and k.shape[1]:
        k, v = k[..., :1, :], v[..., :1, :]
    q, k, v = ((t.flatten(2, 3) if grouped else t).transpose(1, 2) for t in (q, k, v))
    options = {"scale": inp.scale, **_band(bias), **wanted}
    added = bias._bias if isinstance(bias, biases.LowerTriangularMaskWithTensorBias) else bias
    if isinstance(added, torch.Tensor):
        options["bias"] = added.flatten(1, 2) if added.dim() == 5 else added
    if isinstance(bias, biases.VARLEN_BIASES):
        options["cu_seqlens_q"] = bias.q_seqinfo.seqstart
    if isinstance(bias, biases.BlockDiagonalMask):
        options["cu_seqlens_kv"] = bias.k_seqinfo.seqstart
    elif isinstance(bias, biases.BlockDiagonalPaddedKeysMask):
        size, count = bias.k_seqinfo.padding, bias.k_seqinfo.seqlen.shape[0]
        options["block_table"] = torch.arange(count, dtype=torch.int32, device=q.device)[:, None]
        options["seqlens_kv"] = bias.k_seqinfo.seqlen
        k, v = (_pages(t[:, :, : size * count], size) for t in (k, v))
    elif isinstance(bias, biases.PagedBlockDiagonalPaddedKeysMask):
        options |= {"block_table": bias.block_tables, "seqlens_kv": bias.k_seqinfo.seqlen}
        k, v = _pages(k, bias.page_size), _pages(v, bias.page_size)
    elif isinstance(bias, (biases.BlockDiagonalGappyKeysMask, biases.PagedBlockDiagonalGappyKeysMask)):
        options |= _rows_of_keys(bias, k)
        k, v = _pages(k, 1), _pages(v, 1)
    result = attnjit.attention(q, k, v, **options)
    out, lse = result if isinstance(result, tuple) else (result, None)
    out = out.transpose(1, 2)
    if not grouped:
        return out, lse
    groups = inp.query.shape[2]
    return out.unflatten(2, (groups, -1)), None if lse is None else lse.unflatten(1, (groups, -1))


_PACKED = (
    biases.BlockDiagonalMask, biases.BlockDiagonalCausalMask, biases.BlockDiagonalCausalFromBottomRightMask,
    biases.BlockDiagonalCausalLocalAttentionMask, biases.BlockDiagonalCausalLocalAttentionFromBottomRightMask,
)  # fmt: skip
_IN_A_ROW = (
    type(None), torch.Tensor, biases.LowerTriangularMask, biases.LowerTriangularMaskWithTensorBias,
    biases.LowerTriangularFromBottomRightMask, biases.LowerTriangularFromBottomRightLocalAttentionMask,
    biases.LocalAttentionFromBottomRightMask,
)  # fmt: skip
_WITH_A_TABLE = (
    biases.BlockDiagonalPaddedKeysMask, biases.BlockDiagonalCausalWithOffsetPaddedKeysMask,
    biases.BlockDiagonalLocalAttentionPaddedKeysMask, biases.BlockDiagonalCausalLocalAttentionPaddedKeysMask,
    biases.PagedBlockDiagonalPaddedKeysMask, biases.PagedBlockDiagonalCausalWithOffsetPaddedKeysMask,
    biases.BlockDiagonalGappyKeysMask, biases.BlockDiagonalCausalWithOffsetGappyKeysMask,
    biases.PagedBlockDiagonalGappyKeysMask, biases.PagedBlockDiagonalCausalWithOffsetGappyKeysMask,
)  # fmt: skip


class _Common:
    OPERATOR = attnjit
    SUPPORTED_DEVICES = DEVICES
    CUDA_MINIMUM_COMPUTE_CAPABILITY = (8, 0)
    SUPPORTED_DTYPES = {torch.float16} | (set() if "cpu" in DEVICES else {torch.bfloat16})
    SUPPORTED_MAX_K, SUPPORTED_MIN_K = 256, 1
    SUPPORTS_DROPOUT = False
    SUPPORTS_CUSTOM_SCALE = SUPPORTS_DIFFERENT_VALUE_EMBED = SUPPORTS_BMGHK = True
    VARLEN_LSE_PACKED = True
    _TEST_K = (64, 128)


class FwOp(_Common, AttentionFwOpBase):
    SUPPORTED_ATTN_BIAS_TYPES = _IN_A_ROW + _PACKED + _WITH_A_TABLE
    NAME = "attnjitF"

    @classmethod
    def apply(cls, inp, needs_gradient):
        with torch.no_grad():
            out, lse = _attention(inp, True, return_lse=needs_gradient)
        return out, Context(out=out, lse=lse) if needs_gradient else None


class BwOp(_Common, AttentionBwOpBase):
    SUPPORTED_ATTN_BIAS_TYPES = _IN_A_ROW + _PACKED  # gradients beside a block table: no door
    SUPPORTS_ATTN_BIAS_GRAD = True
    NAME = "attnjitB"

    @classmethod
    def apply(cls, ctx, inp, grad):
        with torch.enable_grad():
            leaves = [t.detach().requires_grad_() for t in (inp.query, inp.key, inp.value)]
            inp.query, inp.key, inp.value = leaves
            out, _ = _attention(inp, False)
        return Gradients(*torch.autograd.grad(out, leaves, grad.reshape(out.shape)))


class CutlassBwOp(BwOp):
    """What tests ask for by the name of cutlass. Not the one of the sample, of which a test wants that gradients
    have the strides of their tensors, those of axes of one element included."""

    NAME = "attnjitB_cutlass"


class SplitKeys(FwOp):
    """What tests ask for by the names of triton_splitk."""

    NAME = "attnjit_split"
    NUM_GROUPS = 1


def _memory_efficient_attention(inp, op=None):
    """The function of xformers' autograd path, by attnjit's own autograd."""
    forward, backward = (None, None) if op is None else op
    if not any(t.requires_grad for t in (inp.query, inp.key, inp.value)):
        return fmha._memory_efficient_attention_forward(inp, forward)
    inp.validate_inputs()
    shape = inp.normalize_bmhk()
    for operator in (forward or FwOp, backward or BwOp):
        fmha._ensure_op_supports_or_raise(ValueError, "memory_efficient_attention", operator, inp)
    return _attention(inp, False)[0].reshape(shape)


def install():
    """Takes the place of xformers' operators, before the tests are imported."""
    fmha.common._built_with_cuda = True
    fmha._set_use_fa3(False)
    fmha._memory_efficient_attention = _memory_efficient_attention
    fmha.cutlass.FwOp, fmha.cutlass.BwOp = FwOp, CutlassBwOp
    fmha.flash.FwOp, fmha.flash.BwOp = FwOp, BwOp
    split = fmha.triton_splitk
    splits = {
        k: type(f"Split{k}", (SplitKeys,), {"NAME": f"attnjit_split{k}", "SPLIT_K": k}) for k in (1, 2, 8, 48)
    }
    split.FwOp, split.FwOp_S1, split.FwOp_S2, split.FwOp_S8 = SplitKeys, splits[1], splits[2], splits[8]
    split.FwOp_Map = splits
    fmha.ALL_FW_OPS[:], fmha.ALL_BW_OPS[:] = [FwOp], [BwOp]
