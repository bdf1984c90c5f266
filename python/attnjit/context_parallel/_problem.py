"""A call over a group, as its rank sees it."""

from dataclasses import dataclass

from torch import Tensor

from .._call import Operands
from .._scalars import Scalars
from ._cost import Sizes, choose
from ._exchange import Gather, Members, Ring
from ._expressions import Shared, whole
from ._schedule import Band, Call, calls_for, count_parts
from ._shares import Span, share


def of_rank_4(name: str, operand: Tensor | None, rows: int, seqlen_kv: int) -> Tensor | None:
    """A mask or bias with its four axes. Raises ValueError unless it has this rank's rows and all keys."""
    if operand is None:
        return None
    if operand.dim() > 4:
        raise ValueError(f"{name}: it has {operand.dim()} axes; expected at most (batch, head, query, key)")
    operand = operand[(None,) * (4 - operand.dim())]
    for axis, size, meaning in ((2, rows, "rows of this rank"), (3, seqlen_kv, "keys of the whole sequence")):
        if operand.shape[axis] not in (1, size):
            axis_name = ("query", "key")[axis - 2]
            raise ValueError(
                f"{name}: {axis_name} axis is {operand.shape[axis]}; expected 1 or {size} ({meaning})"
            )
    return operand


@dataclass(frozen=True)
class Problem:
    """All of a call but its tensors. Equal on all ranks but for `who.rank`."""

    who: Members
    seqlen_q: int
    seqlen_kv: int
    band: Band
    scalars: Scalars  # of the whole, whose band calls replace by their own
    diagonal: int | None  # that slopes and expressions count from
    join_keys: bool  # no mask, bias, slope or expression differs from key to key
    shared: tuple[Shared, ...]  # of the operands that expressions read
    deterministic: bool
    method: str | None

    def rows(self) -> tuple[Span, ...]:
        return share(self.seqlen_q, self.who.ranks, self.who.rank)

    def calls(self, keys: tuple[Span, ...]) -> tuple[Call, ...]:
        return calls_for(self.rows(), keys, self.band, self.join_keys, self.diagonal)

    def with_whole_reads(self, operands: Operands) -> Operands:
        """Those of the rank, with all of what expressions read."""
        if operands.read is None:
            return operands
        read = tuple(whole(t, shared, self.who) for t, shared in zip(operands.read, self.shared))
        return operands._replace(read=read)

    def scalars_of(self, call: Call) -> Scalars:
        """Those of a call, whose expressions count rows and keys in the whole."""
        own = call.scalars(self.scalars)
        if self.scalars.score is None and self.scalars.keep is None:
            return own
        return own._replace(row_offset=call.row_start, key_offset=call.start)

    def exchange(self, q: Tensor, k: Tensor, v: Tensor, backward: bool) -> Ring | Gather:
        method = self.method or choose(self.sizes(q, k, v, backward), self.who.ranks)
        return (Ring if method == "ring" else Gather)(self.who, self.seqlen_kv)

    def sizes(self, q: Tensor, k: Tensor, v: Tensor, backward: bool) -> Sizes:
        return Sizes(
            batch=q.shape[0],
            heads_q=q.shape[1],
            heads_kv=k.shape[1],
            seqlen_q=self.seqlen_q,
            seqlen_kv=self.seqlen_kv,
            head_dim=q.shape[3],
            head_dim_v=v.shape[3],
            element_bytes=q.element_size(),
            band=self.band,
            backward=backward,
        )

    def count_parts(self, exchange: Ring | Gather) -> int:
        return count_parts([call for keys in exchange.all_spans() for call in self.calls(keys)])


def operands_of(call: Call, operands: Operands) -> Operands:
    """Those of the rank, with the parts of mask and bias that a call reads."""
    return operands._replace(mask=_part(call, operands.mask), bias=_part(call, operands.bias))


def _part(call: Call, operand: Tensor | None) -> Tensor | None:
    if operand is None:
        return None
    if operand.shape[2] != 1:
        operand = operand[:, :, slice(*call.rows)]
    if operand.shape[3] != 1:
        operand = operand[..., call.start : call.start + call.keys[1] - call.keys[0]]
    return operand
