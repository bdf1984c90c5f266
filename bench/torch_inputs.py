"""Makes the tensors of a problem as PyTorch's scaled_dot_product_attention takes them."""

import torch

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
TILE = 128  # side of the tiles of mask kind blocks


class Refused(Exception):
    """What cannot be timed, and why."""


def make_mask(problem, bias, device):
    """A boolean mask of the problem's kind, true where a score is kept."""
    shape, density = problem.pattern_shape(problem.mask), problem.mask_density
    if problem.mask_kind == "random":
        return torch.rand(shape, device=device) < density
    if problem.mask_kind == "suffix":
        last = (torch.rand((*shape[:2], 1, 1), device=device) * shape[3]).long()
        return (torch.arange(shape[3], device=device) <= last).expand(shape)
    if problem.mask_kind == "blocks":
        tiles = (*shape[:2], -(-shape[2] // TILE), -(-shape[3] // TILE))
        keep = torch.rand(tiles, device=device) < density
        keep[..., 1::3] = False
        full = keep.repeat_interleave(TILE, 2).repeat_interleave(TILE, 3)
        return full[:, :, : shape[2], : shape[3]].contiguous()
    if problem.mask_kind == "top-bias" and bias is not None:
        kept = bias.topk(round(density * shape[3]), dim=-1, sorted=False).indices
        return torch.zeros(shape, dtype=torch.bool, device=device).scatter_(-1, kept, True)
    if problem.mask_kind == "band" and shape[2] > 1 and shape[3] > 1:
        full = torch.ones(shape, dtype=torch.bool, device=device)
        shift = shape[3] - shape[2]
        return full.tril(shift).triu(shift + 1 - round(density * shape[3]))
    raise Refused(f"masks of kind {problem.mask_kind} are not made here")


def merge_operands(problem, mask, bias, device):
    """The attn_mask and is_causal that stand for mask, bias and causal. PyTorch takes one operand,
    none beside is_causal, and starts its diagonal at the top left."""
    square = problem.seqlen_q == problem.seqlen_kv
    is_causal = bool(problem.causal) and square and mask is None and bias is None
    if problem.causal and not is_causal:
        shift = problem.seqlen_kv - problem.seqlen_q if problem.causal == "bottom-right" else 0
        ones = torch.ones(problem.seqlen_q, problem.seqlen_kv, dtype=torch.bool, device=device)
        mask = ones.tril(shift) if mask is None else mask & ones.tril(shift)
    if mask is None or bias is None:
        return (bias if mask is None else mask), is_causal
    return torch.where(mask, bias, float("-inf")).to(bias.dtype), is_causal


def per_query_head(problem, pattern, operand):
    """An operand with a plane per kv head, a plane per query head then."""
    if pattern[1:2] != "g" or problem.heads_kv in (1, problem.heads_q):
        return operand
    return operand.repeat_interleave(problem.heads_q // problem.heads_kv, dim=1)


def make_operands(problem, device):
    """q, k, v, mask and bias (or None) of N(0, 1) data, and for a backward the tensors whose gradients are
    wanted."""
    if problem.others:
        raise Refused(f"{', '.join(problem.others)}: not part of this comparison")
    torch.manual_seed(problem.seed)

    def normal(*shape):
        return torch.randn(shape, dtype=DTYPES[problem.dtype], device=device)

    def rows(heads, seqlen, width):
        if problem.layout == "bhsd":
            return normal(problem.batch, heads, seqlen, width)
        return normal(problem.batch, seqlen, heads, width).transpose(1, 2)

    q = rows(problem.heads_q, problem.seqlen_q, problem.head_dim)
    k = rows(problem.heads_kv, problem.seqlen_kv, problem.head_dim)
    v = rows(problem.heads_kv, problem.seqlen_kv, problem.head_dim_v)
    bias = normal(*problem.pattern_shape(problem.bias)) if problem.bias else None
    mask = make_mask(problem, bias, device) if problem.mask else None
    leaves = [q, k, v] + ([bias] if problem.dbias else []) if problem.backward else []
    for leaf in leaves:
        leaf.requires_grad_()
    return q, k, v, mask, bias, leaves


def make_inputs(problem, device):
    """q, k, v, attn_mask, is_causal of N(0, 1) data, and for a backward the tensors whose gradients
    are wanted."""
    q, k, v, mask, bias, leaves = make_operands(problem, device)
    attn_mask, is_causal = merge_operands(
        problem, mask if mask is None else per_query_head(problem, problem.mask, mask),
        bias if bias is None else per_query_head(problem, problem.bias, bias), device)
    return q, k, v, attn_mask, is_causal, leaves
