"""Times masks and scores as expressions beside FlexAttention, forward and backward, with gradients of what scores read.

Needs a GPU, PyTorch 2.11 and the Python package:
  ATTNJIT_AUTOTUNE=cached python3 bench/expressions.py --output expressions.json
Both see the same tensors in turns, L2 cold. FlexAttention's block mask is made beforehand; the time that takes is told
apart. A backward is the gradients by q, k, v and by the tensors that a row says have one. What fails has no time but
the reason.
"""

import argparse
import sys
from collections.abc import Callable
from typing import NamedTuple

import torch
from peers import ROUNDS, ColdTimer, query_gpus, rounded, time_backward, versions, write
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import attnjit

HEADS, HEAD_DIM = 16, 128


def documents(count, length):
    """[1, length] int32: sorted random numbers of documents, of about length / count tokens each."""
    return torch.randint(0, count, (1, length), device="cuda").sort(-1).values.int()


class Row(NamedTuple):
    """A mask and a score, ours as texts, FlexAttention's as functions of the tensors that `make` gives by name."""

    name: str
    length: int
    make: Callable[[int], dict] = lambda length: {}
    keep: str | None = None
    score: str | None = None
    mask_mod: Callable | None = None
    score_mod: Callable | None = None
    grad: tuple[str, ...] = ()


def _relative(names):
    return lambda s, b, h, i, j: s + names["rel"][h, torch.clamp(j - i, -128, 128) + 128]


RELATIVE = "s + rel[h, clamp(j - i, -128, 128) + 128]"
TABLE = lambda length: {"rel": torch.randn(HEADS, 257, device="cuda")}
GATE = lambda length: {"gate": torch.randn((), device="cuda")}
DOCUMENTS = lambda length: {"doc": documents(16, length)}
ROWS = [
    Row("causal", 8192, keep="j <= i", mask_mod=lambda names: lambda b, h, i, j: j <= i),
    Row(
        "window 1024", 8192, keep="j <= i && i - j < 1024",
        mask_mod=lambda names: lambda b, h, i, j: (j <= i) & (i - j < 1024),
    ),
    Row(
        "prefix 1024", 8192, lambda length: {"prefix": torch.full((1,), 1024, dtype=torch.int32, device="cuda")},
        keep="j <= i || j < prefix[b]",
        mask_mod=lambda names: lambda b, h, i, j: (j <= i) | (j < names["prefix"][b]),
    ),
    Row(
        "dilated", 8192, keep="j <= i && (i - j) % 4 == 0 && i - j < 512",
        mask_mod=lambda names: lambda b, h, i, j: (j <= i) & ((i - j) % 4 == 0) & (i - j < 512),
    ),
    Row(
        "16 documents", 16384, DOCUMENTS, keep="doc[b, i] == doc[b, j]",
        mask_mod=lambda names: lambda b, h, i, j: names["doc"][b, i] == names["doc"][b, j],
    ),
    Row(
        "16 causal documents", 16384, DOCUMENTS, keep="doc[b, i] == doc[b, j] && j <= i",
        mask_mod=lambda names: lambda b, h, i, j: (names["doc"][b, i] == names["doc"][b, j]) & (j <= i),
    ),
    Row("relative positions", 8192, TABLE, score=RELATIVE, score_mod=_relative),
    Row("relative positions, with the table's gradient", 8192, TABLE, score=RELATIVE, score_mod=_relative,
        grad=("rel",)),
    Row("gate", 8192, GATE, score="s * sigmoid(gate)",
        score_mod=lambda names: lambda s, b, h, i, j: s * torch.sigmoid(names["gate"])),
    Row("gate, with its gradient", 8192, GATE, score="s * sigmoid(gate)",
        score_mod=lambda names: lambda s, b, h, i, j: s * torch.sigmoid(names["gate"]), grad=("gate",)),
]  # fmt: skip


def _ours(row, q, k, v, names):
    return lambda: attnjit.attention(q, k, v, score=row.score, keep=row.keep, operands=names or None)


def _flex(row, q, k, v, names):
    torch.compiler.reset()
    compiled = torch.compile(flex_attention, dynamic=False)
    mask = row.mask_mod and create_block_mask(
        row.mask_mod(names), 1, None, row.length, row.length, device="cuda"
    )
    score = row.score_mod and row.score_mod(names)
    return lambda: compiled(q, k, v, score_mod=score, block_mask=mask)


def _block_mask_ms(timer, row, names):
    make = torch.compile(create_block_mask, dynamic=False)
    launch = lambda: make(row.mask_mod(names), 1, None, row.length, row.length, device="cuda")
    return timer.rounds(launch)[ROUNDS // 2]


def measure(timer, row):
    """The result of a row, also printed."""
    torch.manual_seed(0)
    shape = (1, HEADS, row.length, HEAD_DIM)
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda", requires_grad=True) for _ in range(3))
    names = row.make(row.length)
    for name in row.grad:
        names[name].requires_grad_()
    leaves = [q, k, v, *(names[name] for name in row.grad)]
    result = {"name": row.name, "length": row.length}
    for implementation, make in (("attnjit", _ours), ("flex", _flex)):
        try:
            forward = make(row, q, k, v, names)
            with torch.no_grad():
                times = {"forward_ms": rounded(timer.rounds(forward)[ROUNDS // 2])}
            result[implementation] = times
            times["backward_ms"] = rounded(time_backward(timer, forward(), leaves)["rounds"][ROUNDS // 2])
        except (RuntimeError, NotImplementedError) as error:
            result.setdefault(implementation, {})["error"] = str(error).splitlines()[0]
    if row.mask_mod:
        result["flex"]["block_mask_ms"] = rounded(_block_mask_ms(timer, row, names))
    print(f"{row.name:<46}", *(result[name] for name in ("attnjit", "flex")), flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", help="only rows with this in their name")
    parser.add_argument("--output", help="file of results to write, JSON")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("expressions.py: error: PyTorch finds no GPU", file=sys.stderr)
        return 7
    device = torch.cuda.get_device_properties()
    report = {
        "schema": 1,
        "benchmark": "expressions",
        **versions(),
        "device": {"name": device.name, "sms": device.multi_processor_count},
        "gpus_before": query_gpus(),
    }
    timer = ColdTimer()
    report["rows"] = []
    for row in ROWS:  # FlexAttention compiles for a minute a row: a run that is cut keeps those before
        if options.filter not in row.name:
            continue
        report["rows"].append(measure(timer, row))
        report["gpus_after"] = query_gpus()
        write(report, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
