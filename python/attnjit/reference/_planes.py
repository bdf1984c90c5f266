"""What each batch element and query head reads of an operand: its plane of a mask or bias, its pages, the bits of a
prepared mask."""

import torch
from torch import Tensor

NEIGHBOURS = (0, 0)  # the order of planes that neighbouring batch elements share


def orders_of(scalars):
    """The orders of the planes of mask and bias, (inner, cycle) each."""
    orders = scalars.plane_orders or (*NEIGHBOURS, *NEIGHBOURS)
    return tuple(orders[:2]), tuple(orders[2:])


def plane_numbers(planes: int, batch: int, order) -> Tensor | None:
    """The plane of each batch element, or None where neighbours share one; `order` is (inner, cycle)."""
    inner, cycle = order
    if inner == 0:
        return None
    cycle = cycle or planes
    elements, repeats = torch.arange(batch), batch // (planes * inner)
    return elements // (inner * cycle * repeats) * cycle + elements // inner % cycle


def per_plane(operand: Tensor, q: Tensor, order=NEIGHBOURS) -> Tensor:
    """A mask, bias, key or value with a plane per batch element and query head of q, or one for all."""
    numbers = plane_numbers(operand.shape[0], q.shape[0], order)
    if numbers is not None:
        operand = operand[numbers.to(operand.device)]
    for axis in (0, 1):
        planes, size = operand.shape[axis], q.shape[axis]
        if planes not in (1, size):
            operand = operand.repeat_interleave(size // planes, dim=axis)
    return operand


def of_rank_4(operand: Tensor) -> Tensor:
    return operand[(None,) * (4 - operand.dim())]


def unpaged(pool: Tensor, operands) -> Tensor:
    """The keys or values of each batch element, one after another. Entries past those in use name no page."""
    size, table = pool.shape[2], operands.block_table.long()
    begins = torch.arange(table.shape[1], device=table.device) * size
    in_use = begins < operands.seqlens_kv.reshape(-1, 1)
    return pool[torch.where(in_use, table, 0)].transpose(1, 2).flatten(2, 3)


def mask_of_bits(data: Tensor, prepared) -> Tensor:
    """The mask that a prepared one stands for, (batch, head, query, key), by its bits by rows."""
    *shape, _ = prepared
    batches, heads, queries, keys = shape
    row_bytes = (keys + 127) // 128 * 16
    rows = data[: batches * heads * queries * row_bytes].reshape(batches, heads, queries, row_bytes)
    bits = rows[..., None] >> torch.arange(8, device=data.device) & 1
    return bits.flatten(3)[..., :keys].bool()
