"""Attention as programs in PyTorch can have it, for torch_attention.py: the backends of
scaled_dot_product_attention, FlexAttention, FlashAttention-4, and attnjit."""

import contextlib

import torch
from torch.nn import attention
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention
from torch_inputs import Refused, merge_operands

BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
            "cudnn": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH}


def _sdpa(problem, q, k, v, mask, bias):
    """A call with one operand, merged beforehand: the merging is not part of a call, but its gradient is."""
    attn_mask, is_causal = merge_operands(problem, mask, bias, q.device)
    return lambda: scaled_dot_product_attention(q, k, v, attn_mask, is_causal=is_causal)


def _at(operand, *place):
    """An element of a captured operand, which broadcasts over its axes of size 1."""
    return operand[tuple(i if size > 1 else 0 for i, size in zip(place, operand.shape))]


def _flex(problem, q, k, v, mask, bias):
    """A call with a captured bias; the block mask is made beforehand."""
    def add_bias(score, *place):
        return score + _at(bias, *place)

    def keeps(b, h, i, j):
        keep = True if mask is None else _at(mask, b, h, i, j)
        return keep & (i >= j) if problem.causal else keep

    block_mask = None
    if mask is not None or problem.causal:
        batch, heads = (1, 1) if mask is None else mask.shape[:2]
        block_mask = create_block_mask(keeps, batch, heads, q.shape[2], k.shape[2], q.device)
    torch.compiler.reset()
    compiled = torch.compile(flex_attention, dynamic=False)
    score_mod = None if bias is None else add_bias
    return lambda: compiled(q, k, v, score_mod=score_mod, block_mask=block_mask)


def _attnjit(problem, q, k, v, mask, bias):
    import attnjit

    return lambda: attnjit.attention(q, k, v, mask=mask, bias=bias, causal=problem.causal or None)


@contextlib.contextmanager
def _flash_attention_4():
    try:
        attention.activate_flash_attention_impl("FA4")
    except (ImportError, RuntimeError, ValueError) as error:
        raise Refused(f"FlashAttention-4 does not run here: {error}") from error
    try:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            yield
    finally:
        attention.restore_flash_attention_impl()


# What a call needs around it, and what makes a call of a problem.
IMPLEMENTATIONS = {
    "attnjit": (contextlib.nullcontext, _attnjit),
    **{name: (lambda backend=backend: sdpa_kernel(backend), _sdpa) for name, backend in BACKENDS.items()},
    "flex": (contextlib.nullcontext, _flex),
    "fa4": (_flash_attention_4, _sdpa),
}
