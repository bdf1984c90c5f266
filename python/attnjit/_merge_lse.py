"""`attnjit.merge_lse`, and its operator `torch.ops.attnjit.merge_lse`."""

import torch
from torch import Tensor

from . import _call
from . import _schemas as _defines_operators  # noqa: F401


@torch.library.impl("attnjit::merge_lse", "CPU")
def _refuse(*_):
    raise ValueError("parts: they are on the CPU; attnjit computes on CUDA devices")


@torch.library.impl("attnjit::merge_lse", "CUDA")
def _merge(parts, part_lses, carry, carry_lse, out, lse):
    _call.enqueue_merge_lse(parts[0], parts.stride(0), parts.shape[0], part_lses, carry, carry_lse, out, lse)


@torch.library.register_fake("attnjit::merge_lse")
def _fake_merge(parts, part_lses, carry, carry_lse, out, lse):
    return None


def _check(parts, part_lses, carry):
    if parts.dim() != 5 or parts.shape[0] == 0:
        raise ValueError(
            f"parts: shape is {tuple(parts.shape)}; expected (parts, B, H, L, Dv), 1 part or more"
        )
    if part_lses.shape != parts.shape[:4] or not part_lses.is_contiguous():
        raise ValueError(
            f"part_lses: shape is {tuple(part_lses.shape)}; expected a contiguous {tuple(parts.shape[:4])}"
        )
    if carry is not None and (carry[0].shape != parts.shape[1:] or carry[1].shape != parts.shape[1:4]):
        raise ValueError(
            f"carry: expected a pair of shapes {tuple(parts.shape[1:])}, {tuple(parts.shape[1:4])}"
        )
    tensors = (parts, part_lses, *(carry or ()))
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        raise NotImplementedError(
            "merge_lse has no gradient: the backward of each part takes the merged out and lse in place of its"
            " own; call it under torch.no_grad()"
        )


def merge_lse(
    parts: Tensor,
    part_lses: Tensor,
    *,
    carry: tuple[Tensor, Tensor] | None = None,
    out: Tensor | None = None,
    lse: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """Merges results of attention over shares of the keys into that over all of them, in one kernel:
    lse = log sum_s exp(lse_s), out = sum_s exp(lse_s - lse) out_s, with sums in fp32.

    Args:
        parts: (parts, B, H, L, Dv), fp16, bf16 or fp32, unit stride over Dv; any number of parts, any Dv.
        part_lses: (parts, B, H, L) fp32, contiguous. What a part holds where its lse is -inf is not read.
        carry: one part more, a pair (B, H, L, Dv) fp32 and (B, H, L) fp32: what is merged so far.
        out: written in place of a new tensor, (B, H, L, Dv), fp16, bf16 or fp32, unit stride over Dv. With
            `lse` it may be the carry itself.
        lse: written in place of a new tensor, (B, H, L) fp32, contiguous.
        dtype: of a new `out`; that of the parts by default.

    Returns:
        (out, lse). Rows that are -inf in all parts are 0 and -inf.

    Raises:
        ValueError, TypeError: a shape, stride or dtype; the message names it.
        NotImplementedError: a gradient is wanted. The backward of a share is that of its call, with the
            merged out and lse in place of its own.
    """
    _check(parts, part_lses, carry)
    if out is None:
        out = parts.new_empty(parts.shape[1:], dtype=dtype or parts.dtype)
    if lse is None:
        lse = part_lses.new_empty(part_lses.shape[1:])
    torch.ops.attnjit.merge_lse(parts, part_lses, *(carry or (None, None)), out, lse)
    return out, lse
