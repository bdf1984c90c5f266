"""`attnjit.flex_attention`."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import AuxOutput, AuxRequest, BlockMask

from .._attention import attention
from .._block_lists import BlockLists
from ._numbers import settled
from ._tracing import Tracing
from ._value import FLOAT, INT, Value, literal


def _blocks(mask: BlockMask) -> BlockLists:
    """The lists of a BlockMask; inside full blocks its function is not asked."""
    lists = mask.kv_indices, mask.kv_num_blocks, mask.full_kv_indices, mask.full_kv_num_blocks
    indices, counts, *full = (None if t is None else _of_axes(t, n) for t, n in zip(lists, (4, 3, 4, 3)))
    return BlockLists(indices, counts, tuple(mask.BLOCK_SIZE), *full)


def _of_axes(tensor: Tensor, count: int) -> Tensor:
    """`tensor` as int32 with axes of size 1 ahead, where it has fewer."""
    return tensor[(None,) * (count - tensor.dim())].int()


def _check(query: Tensor, key: Tensor, block_mask, enable_gqa: bool) -> None:
    for name, tensor in (("query", query), ("key", key)):
        if tensor.dim() != 4:
            raise ValueError(f"{name}: it has {tensor.dim()} axes; expected (batch, head, sequence, feature)")
    if not enable_gqa and query.shape[1] != key.shape[1]:
        raise ValueError(
            f"key: it has {key.shape[1]} heads and query {query.shape[1]}; enable_gqa=True allows that"
        )
    if not isinstance(block_mask, BlockMask):
        return
    lengths, expected = tuple(block_mask.seq_lengths), (query.shape[2], key.shape[2])
    if lengths != expected:
        raise ValueError(f"block_mask: it is for {lengths} rows and keys; query and key have {expected}")


@torch.compiler.disable  # breaks the graph of compiled code here alone
def _said(query: Tensor, key: Tensor, score_mod, block_mask) -> dict:
    """The arguments of `attnjit.attention` that say what the functions do."""
    sizes = (*query.shape[:3], key.shape[2])
    indices = tuple(Value(name, INT, 0, max(size - 1, 0)) for name, size in zip("bhij", sizes))
    tracing = Tracing(query.device)
    score = keep = blocks = None
    operands = tracing.captured.operands
    if score_mod is not None:
        score = tracing.trace("score_mod", score_mod, Value("s", FLOAT), *indices).text
    mask_mod = block_mask
    if isinstance(block_mask, BlockMask):
        mask_mod, blocks = block_mask.mask_mod, _blocks(block_mask)
    if mask_mod is not None:
        name = "block_mask" if blocks is None else "mask_mod"
        keep = tracing.trace(name, mask_mod, *indices).text
        if keep == literal(True).text:
            keep = None
    # Once both have named their tensors.
    if score is not None:
        score = settled(score_mod, score, operands)
    if keep is not None:
        keep = settled(mask_mod, keep, operands)
    said = {"score": score, "keep": keep, "blocks": blocks}
    return said if score is None and keep is None else said | {"operands": operands}


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable | None = None,
    block_mask: BlockMask | Callable | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: dict | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Tensor | tuple[Tensor, Tensor] | tuple[Tensor, AuxOutput]:
    """torch.nn.attention.flex_attention.flex_attention by attnjit's kernels: the same arguments and meaning, without
    torch.compile.

    Its functions are called once per call, with stand-ins that write down what is done with them, and become
    expressions (docs/reference/expressions.md). Numbers of Python are literals of these, as part of a kernel, until
    functions of the same code give another number in the same place: from then on it is an operand there, and its
    values make no more kernels. An `if` on what differs from pair to pair, and operations that expressions lack, raise.

    Args:
        query: (B, Hq, L, E), fp16 or bf16, on a CUDA device.
        key, value: (B, H, S, E) and (B, H, S, Ev); a batch of 1 serves all of query's.
        score_mod: score_mod(score, b, h, q_idx, kv_idx) is the score in place of `score`, a float. It may read
            tensors by an index for each axis: fp32, fp16, bf16, bool, and ints, which are read as int32. Up to four
            get gradients where they require them.
        block_mask: a BlockMask, whose function and lists of blocks both hold, or a function mask_mod(b, h, q_idx,
            kv_idx) alone.
        scale: 1 / sqrt(E) by default.
        enable_gqa: allows H to divide Hq.
        return_lse: also return the logarithm of the sum of exp(score), (B, Hq, L) fp32.
        kernel_options: not read; they are of other kernels.
        return_aux: what to return as an AuxOutput: lse, and the largest score of each row, (B, Hq, L) fp32, without
            a gradient.

    Raises:
        NotImplementedError: a function does what expressions cannot say; the message names it. Otherwise as
            `attnjit.attention`.
    """
    _check(query, key, block_mask, enable_gqa)
    if return_lse and return_aux is not None:
        raise ValueError("return_lse: it cannot be given together with return_aux")
    if key.shape[0] == 1:
        key, value = (t.expand(query.shape[0], -1, -1, -1) for t in (key, value))
    aux = AuxRequest(lse=return_lse) if return_aux is None else return_aux
    results = attention(
        query, key, value, scale=scale, return_lse=aux.lse, return_row_max=aux.max_scores,
        **_said(query, key, score_mod, block_mask),
    )  # fmt: skip
    if return_aux is None:
        return results
    out, *others = results if aux.lse or aux.max_scores else (results,)
    others = iter(others)
    return out, AuxOutput(*(next(others) if wanted else None for wanted in aux))
