"""`attnjit.context_parallel.attention`, `shard` and `unshard`."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.distributed import DeviceMesh, ProcessGroup

from .._attention import Diagonal, autocast, scalars_of
from .._attention import attention as attention_here
from .._call import Operands
from .._prepared_mask import PreparedMask
from .._scalars import NO_DIAGONAL
from ._autograd import Attention, forward
from ._exchange import Gather, members
from ._expressions import Lengths, said_of_whole
from ._problem import Problem, of_rank_4
from ._schedule import band_of, diagonal_of
from ._shares import share, whole_length
from ._sinks import check_sink

_METHODS = (None, "ring", "gather")

# Arguments of attnjit.attention that a call over a group has no share of.
_NOT_TAKEN = {
    "seqlens_q": "lengths per batch element; pass a mask",
    "seqlens_kv": "lengths per batch element; pass a mask",
    "cu_seqlens_q": "packed sequences; pass a mask, or call once per sequence",
    "cu_seqlens_kv": "packed sequences; pass a mask, or call once per sequence",
    "block_table": "paged keys; call attnjit.attention",
    "blocks": "lists of blocks; say the blocks in `keep`",
    "key_indices": "selected keys; pass a mask",
    "tail_mask": "mask over the last keys; pass a mask over all of them",
}


def _refuse(others: dict) -> None:
    for name, value in others.items():
        if name not in _NOT_TAKEN:
            raise TypeError(f"attention() got an unexpected keyword argument {name!r}")
        if value is not None:
            raise NotImplementedError(f"{name}: context_parallel.attention takes no {_NOT_TAKEN[name]}")


def _check(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, method: str | None) -> None:
    if isinstance(mask, PreparedMask):
        raise TypeError("mask: a prepared one, of which a rank has no share; pass the mask itself")
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}: expected a tensor, not {type(tensor).__name__}")
        if tensor.dim() != 4:
            raise ValueError(f"{name}: it has {tensor.dim()} axes; expected (batch, head, sequence, feature)")
    if method not in _METHODS:
        raise ValueError(f'method: {method!r}; expected None, "ring" or "gather"')


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    sink: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    causal: Diagonal | None = None,
    window: tuple[int, int] | None = None,
    group: ProcessGroup | DeviceMesh | None = None,
    diagonal: Diagonal | None = None,
    diagonal_offset: int = 0,
    scale: float | None = None,
    softcap: float | None = None,
    score: str | None = None,
    keep: str | None = None,
    operands: Mapping[str, Tensor | float] | None = None,
    seqlen_q: int | None = None,
    seqlen_kv: int | None = None,
    return_lse: bool = False,
    return_row_max: bool = False,
    return_max_logits: bool = False,
    deterministic: bool | None = None,
    method: str | None = None,
    **others: None,
) -> Tensor | tuple[Tensor, ...]:
    """`attnjit.attention` of sequences that are spread over the ranks of a group, with its gradients.

    Each rank passes its share of the rows and of the keys, and gets its share of the result. A sequence is cut
    into 2N chunks as torch.tensor_split cuts it, and rank r has chunks r and 2N - 1 - r, one behind the other, so
    that under a causal mask all have as much to do; shard() makes that share. All ranks call with the same options,
    and either all of them run the backward or none.

    Args:
        q: (B, Hq, rows of this rank, D), fp16 or bf16, on a CUDA device.
        k: (B, Hkv, keys of this rank, D), q's dtype; Hq is a multiple of Hkv, and only Hkv heads are sent.
        v: (B, Hkv, keys of this rank, Dv), q's dtype.
        mask: bool, True keeps; broadcast to (B, Hq, rows of this rank, keys of the whole sequence). Its rows lie as
            those of q do, its keys in the order of the whole sequence.
        bias: q's dtype or fp32, shaped as mask is. Its gradient has its shape; over rows that it broadcasts,
            the gradient is summed over all ranks, and is the same on each.
        sink, alibi_slopes: as those of attnjit.attention, the same on all ranks, and so is the gradient of the sink.
        causal, window, diagonal, diagonal_offset, scale, softcap: as those of attnjit.attention, of the whole
            sequences.
        score, keep, operands: as those of attnjit.attention, of the whole sequences. Of an operand that is read by
            `i` or by `j` alone in an axis, which is not of size 1, each rank has its share in this axis, and the
            gradient of it; of others each has all, and the gradient is summed over all ranks.
        group: a process group, or a device mesh of one dimension; None is all ranks.
        seqlen_q, seqlen_kv: the lengths of the whole sequences. By default every rank has as much of them, which is
            so where 2N divides them.
        return_lse: also return the logarithm of the sum of exp(score), (B, Hq, rows of this rank) fp32.
        return_row_max: also return the largest score of each row, (B, Hq, rows of this rank) fp32.
        return_max_logits: also return the largest score of each head, (Hq,) fp32, over all rows and keys of all ranks.
        deterministic: the same gradients, bit for bit, on every run over as many ranks; by default as
            torch.use_deterministic_algorithms() says.
        method: "ring": shares of the keys go from rank to rank beside the kernels; "gather": each rank gets all of
            them first. None takes whichever the cost rule of docs/guide/multi-gpu.md finds cheaper.

    Returns:
        (B, Hq, rows of this rank, Dv) in q's dtype. A tuple of it, lse and the largest scores of rows and of heads,
        as far as they are asked for, where any is. Over one rank the bits are those of attnjit.attention.

    Raises:
        ValueError: a shape, stride or option breaks a rule; the message names it. The gradient of a bias
            needs two rows on each rank.
        TypeError, NotImplementedError, RuntimeError: as attnjit.attention; RuntimeError too where a rank does not
            answer within the group's time-out. NotImplementedError names an argument of attnjit.attention that is
            not taken: lengths per batch element, packed sequences, paged keys, tail_mask, blocks, key_indices; and an operand that is
            read by rows and by keys.
    """
    _refuse(others)
    _check(q, k, v, mask, method)
    who = members(group)
    whole_q = whole_length("seqlen_q", q.shape[2], seqlen_q, who.ranks, who.rank)
    whole_kv = whole_length("seqlen_kv", k.shape[2], seqlen_kv, who.ranks, who.rank)
    if who.ranks == 1:
        return attention_here(
            q, k, v, mask=mask, bias=bias, sink=sink, alibi_slopes=alibi_slopes, causal=causal, window=window,
            diagonal=diagonal, diagonal_offset=diagonal_offset, scale=scale, softcap=softcap, score=score, keep=keep,
            operands=operands, return_lse=return_lse, return_row_max=return_row_max, return_max_logits=return_max_logits,
            deterministic=deterministic,
        )  # fmt: skip
    scalars = scalars_of(scale, causal, window, diagonal, softcap, diagonal_offset)
    if alibi_slopes is not None and scalars.diagonal == NO_DIAGONAL and whole_q != whole_kv:
        raise ValueError(
            f'diagonal: unspecified with alibi_slopes, {whole_q} rows and {whole_kv} keys; expected "top-left" or'
            ' "bottom-right" (they differ)'
        )
    q, k, v, bias, sink = autocast(q, k, v, bias, sink)
    if sink is not None:
        check_sink(sink, q)
    mask, bias = (of_rank_4(n, t, q.shape[2], whole_kv) for n, t in (("mask", mask), ("bias", bias)))
    wants_gradient = torch.is_grad_enabled()
    needs_dbias = wants_gradient and bias is not None and bias.requires_grad
    if needs_dbias and whole_q < 2 * who.ranks:
        raise ValueError(
            f"bias: its gradient needs two rows on each rank, to tell a row from a broadcast; seqlen_q is"
            f" {whole_q} on {who.ranks} ranks"
        )
    shared, read = (), None
    if score is not None or keep is not None or operands is not None:
        lengths = Lengths({"i": whole_q, "j": whole_kv}, {"i": q.shape[2], "j": k.shape[2]})
        scalars, read, shared = said_of_whole(scalars, score, keep, operands, q.device, lengths)
    has_places = alibi_slopes is not None or read is not None
    over_keys = has_places or any(t is not None and t.shape[3] > 1 for t in (mask, bias))
    # A call with a single key computes the gradient of a bias for a row that keeps no other.
    needs_all_keys = needs_dbias and whole_kv < 4 * who.ranks
    if deterministic is None:
        deterministic = torch.are_deterministic_algorithms_enabled()
    problem = Problem(
        who=who,
        seqlen_q=whole_q,
        seqlen_kv=whole_kv,
        band=band_of(scalars, whole_q, whole_kv),
        scalars=scalars,
        diagonal=diagonal_of(scalars, whole_q, whole_kv) if has_places else None,
        join_keys=not over_keys,
        shared=shared,
        deterministic=deterministic,
        method="gather" if needs_all_keys else method,
    )
    tensors = Operands(mask, bias, sink, alibi_slopes, read=read)
    leaves = (q, k, v, bias, sink, *(read or ()))
    if wants_gradient and any(t is not None and t.requires_grad for t in leaves):
        results = Attention.apply(q, k, v, problem, return_row_max, return_max_logits, *tensors.flat())
    else:
        tensors = problem.with_whole_reads(tensors)
        results = forward(q, k, v, tensors, problem, return_row_max, return_max_logits)
    out, lse, *maxima = results
    wanted = (out, lse if return_lse else None, *maxima)
    found = tuple(t for t in wanted if t is not None)
    return found if len(found) > 1 else out


def shard(tensor: Tensor, dim: int, group: ProcessGroup | DeviceMesh | None = None) -> Tensor:
    """This rank's share of `tensor`, whose axis `dim` is a whole sequence: a copy, differentiable."""
    who = members(group)
    spans = share(tensor.shape[dim], who.ranks, who.rank)
    if not spans:
        return tensor.narrow(dim, 0, 0)
    return torch.cat([tensor.narrow(dim, span.start, span.length) for span in spans], dim)


@torch.no_grad()
def unshard(
    tensor: Tensor, dim: int, group: ProcessGroup | DeviceMesh | None = None, *, length: int | None = None
) -> Tensor:
    """The whole sequence, on every rank, from the shares that the ranks have in axis `dim`. `length` is that of the
    whole; by default every rank has as much of it. Not differentiable. Raises ValueError where lengths
    contradict."""
    who = members(group)
    whole = whole_length("length", tensor.shape[dim], length, who.ranks, who.rank)
    # (1, 1, sequence, everything else), as keys lie.
    moved = tensor.movedim(dim, 0)
    gathered = Gather(who, whole).whole(moved.reshape(1, 1, moved.shape[0], math.prod(moved.shape[1:])))
    return gathered.reshape(whole, *moved.shape[1:]).movedim(0, dim)
