"""Times masks and scores as expressions beside FlexAttention, forward and backward, with gradients of what scores read.

Needs a GPU, PyTorch 2.11 and the Python package:
  ATTNJIT_AUTOTUNE=cached python3 bench/expressions.py --output expressions.json
Both see the same tensors in turns, L2 cold. FlexAttention's block mask is made beforehand; the time that takes is told
apart. A backward is the gradients by q, k, v and by the tensors that a row says have one. TFLOP/s count the pairs that
a mask keeps. What fails has no time but the reason.
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
FLOP_OF_PAIR = {"forward": 4 * HEAD_DIM, "backward": 10 * HEAD_DIM}


def documents(count, length):
    """[1, length] int32: sorted random numbers of documents, of about length / count tokens each."""
    return torch.randint(0, count, (1, length), device="cuda").sort(-1).values.int()


def block_causal(length):
    """Documents of log-uniform 512 to 4096 tokens, and the end of each token's block of 512 in its document."""
    generator = torch.Generator().manual_seed(1)
    lengths = (512 * 8 ** torch.rand(length // 512, generator=generator)).long()
    ends = lengths.cumsum(0)
    ends = ends[: int((ends < length).sum()) + 1].clamp(max=length)
    begins = torch.cat((torch.zeros(1, dtype=torch.long), ends[:-1]))
    token = torch.arange(length)
    doc = torch.searchsorted(ends, token, right=True)
    block_end = begins[doc] + ((token - begins[doc]) // 512 + 1) * 512
    return {
        "begin": begins[doc].int().cuda()[None],
        "end": torch.minimum(block_end, ends[doc]).int().cuda()[None],
    }


def prefix_tree(length):
    """A prompt of 4096 tokens, four branches of 1024, three more on each: when a token's node is entered and left."""
    order = torch.arange(length, dtype=torch.int32, device="cuda")
    left = order.new_full((length,), length)
    for branch in range(4096, length, 4096):
        left[branch : branch + 1024] = branch + 4096
        for leaf in range(branch + 1024, branch + 4096, 1024):
            left[leaf : leaf + 1024] = leaf + 1024
    return {"tin": order[None], "tout": left[None]}


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
    heads: tuple[int, int] = (HEADS, HEADS)


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
    *(
        Row(
            f"block-causal documents of {length}", length, block_causal,
            keep="begin[b, i] <= j && j < end[b, i]", heads=(64, 8),
            mask_mod=lambda names: lambda b, h, i, j: (names["begin"][b, i] <= j) & (j < names["end"][b, i]),
        )
        for length in (8192, 16384, 32768)
    ),
    Row(
        "prefix tree", 20480, prefix_tree, keep="tin[b, j] <= tin[b, i] && tin[b, i] < tout[b, j]",
        mask_mod=lambda names: lambda b, h, i, j: (names["tin"][b, j] <= names["tin"][b, i])
        & (names["tin"][b, i] < names["tout"][b, j]),
    ),
    Row("causal like the tree", 20480, keep="j <= i", mask_mod=lambda names: lambda b, h, i, j: j <= i),
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
    return lambda: compiled(
        q, k, v, score_mod=score, block_mask=mask, enable_gqa=row.heads[0] != row.heads[1]
    )


def _pairs(row, names):
    """How many pairs of a row and a key the mask keeps."""
    keys = torch.arange(row.length, device="cuda")
    parts = (row.mask_mod(names)(0, 0, rows[:, None], keys[None]).sum() for rows in keys.split(1024))
    return int(sum(parts)) if row.mask_mod else row.length**2


def _block_mask_ms(timer, row, names):
    make = torch.compile(create_block_mask, dynamic=False)
    launch = lambda: make(row.mask_mod(names), 1, None, row.length, row.length, device="cuda")
    return timer.rounds(launch)[ROUNDS // 2]


def measure(timer, row):
    """The result of a row, also printed."""
    torch.manual_seed(0)
    q, k, v = (
        torch.randn((1, heads, row.length, HEAD_DIM), dtype=torch.bfloat16, device="cuda", requires_grad=True)
        for heads in (row.heads[0], row.heads[1], row.heads[1])
    )
    names = row.make(row.length)
    for name in row.grad:
        names[name].requires_grad_()
    leaves = [q, k, v, *(names[name] for name in row.grad)]
    result = {"name": row.name, "length": row.length, "heads": row.heads, "pairs": _pairs(row, names)}
    for implementation, make in (("attnjit", _ours), ("flex", _flex)):
        try:
            forward = make(row, q, k, v, names)
            with torch.no_grad():
                times = {"forward_ms": rounded(timer.rounds(forward)[ROUNDS // 2])}
            result[implementation] = times
            times["backward_ms"] = rounded(time_backward(timer, forward(), leaves)["rounds"][ROUNDS // 2])
        except (RuntimeError, NotImplementedError) as error:
            result.setdefault(implementation, {})["error"] = str(error).splitlines()[0]
        for direction, flop in FLOP_OF_PAIR.items():
            if ms := result[implementation].get(f"{direction}_ms"):
                flops = result["pairs"] * row.heads[0] * flop
                result[implementation][f"{direction}_tflops"] = round(flops / ms / 1e9)
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
