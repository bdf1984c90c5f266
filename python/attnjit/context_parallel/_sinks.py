"""Sinks of a call over a group: scores of rows that belong to no share of the keys."""

import math

import torch
from torch import Tensor

# A score that counts as -inf, as kernels have it.
_DEAD_SCORE = -1e38


def check_sink(sink: Tensor, q: Tensor) -> None:
    """Raises what attnjit.attention does where a sink is none of q's heads."""
    if not isinstance(sink, Tensor):
        raise TypeError(f"sink: expected a tensor, not {type(sink).__name__}")
    if sink.dtype not in (q.dtype, torch.float32):
        raise TypeError(f"sink: dtype is {sink.dtype}; expected {q.dtype} (as q) or torch.float32")
    if sink.shape != q.shape[1:2]:
        raise ValueError(
            f"sink: shape is {tuple(sink.shape)}; expected ({q.shape[1]},), a score per head of q"
        )


def _of_heads(sink: Tensor) -> Tensor:
    """The score of each head, (head, 1) fp32."""
    score = sink.float()
    return score.where(score > _DEAD_SCORE, -math.inf).unsqueeze(1)


def add_sink(out: Tensor, lse: Tensor, sink: Tensor) -> Tensor:
    """Adds the sinks to the sums of the rows: scales `out` where it lies, and returns lse. That of a live row lies above
    the sink, if only by the last digits of a float, and tells the backward that the row is not dead."""
    score = _of_heads(sink)
    total = torch.logaddexp(lse, score)
    least = score + score.abs() * 2.0**-22 + 2.0**-60  # NaN for no sink, which fmax drops
    live = lse.isfinite()
    total = torch.where(live, torch.fmax(total, least), total)
    out.mul_(torch.where(live, (lse - total).exp(), 0.0).unsqueeze(-1))
    return total


def sink_terms(sink: Tensor, lse: Tensor, dlse: Tensor | None, dout: Tensor, out: Tensor) -> Tensor:
    """exp(sink - lse) * delta of each row, (batch, head, row): what it adds to the gradient of a score that all its
    keys share, and takes off dsink. dout of a dead row is not looked at."""
    score = _of_heads(sink)
    delta = (dout.float() * out.float()).sum(-1).where(lse > score, 0.0)
    if dlse is not None:
        delta = delta - dlse
    return ((score - lse).exp() * delta).where(score.isfinite() & lse.isfinite(), 0.0)
