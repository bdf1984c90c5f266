"""Random problems as a caller of attention makes them: a kind, which kernels are specialised for, and for each
kind several shapes and layouts."""

import random
from dataclasses import dataclass, replace

import torch

from attnjit._call import Operands
from attnjit._scalars import BOTTOM_RIGHT, NO_DIAGONAL, TOP_LEFT, Scalars


@dataclass(frozen=True)
class Kind:
    """What is drawn once per kind; patterns are words of b, s (half of the batch), h, g, q, k, t (the keys of all packed
    sequences) and 1 per axis (of alibi without 1), or None."""

    dtype: torch.dtype
    head_dim: int
    head_dim_v: int
    heads: tuple[int, int]
    mask: str | None
    bias: str | None
    bias_dtype: torch.dtype
    causal: str | None
    window: tuple[int, int] | None
    seqlens: bool
    scale: float | None
    softcap: float | None = None
    diagonal_offset: int = 0
    sink: torch.dtype | None = None
    alibi: str | None = None
    packed: bool = False


def random_kind(rng: random.Random) -> Kind:
    pattern = lambda *words: rng.choice((None, *words))
    head_dim = rng.choice((32, 64, 64, 128, 40, 24))
    dtype = rng.choice((torch.bfloat16, torch.float16))
    return Kind(
        dtype=dtype,
        head_dim=head_dim,
        head_dim_v=rng.choice((head_dim, head_dim, 48)),
        heads=rng.choice(((4, 4), (4, 2), (6, 1), (1, 1))),
        mask=pattern("b11k", "b1qk", "11qk", "bhqk", "bgqk", "s1qk"),
        bias=pattern("1hqk", "bhqk", "11qk", "b1qk", "b11k", "1gqk", "shqk"),
        bias_dtype=rng.choice((dtype, torch.float32)),
        causal=rng.choice((None, None, "top-left", "bottom-right")),
        window=rng.choice((None, None, (7, 3), (20, -1))),
        seqlens=rng.random() < 0.2,
        scale=rng.choice((None, None, 0.2)),
    )


def with_features(kind: Kind, rng: random.Random) -> Kind:
    """`kind` with more of what enters scores."""
    return replace(
        kind,
        softcap=rng.choice((None, None, 2.0)),
        diagonal_offset=rng.choice((0, 0, 5, -9)),
        sink=rng.choice((None, None, None, kind.bias_dtype)),
        alibi=rng.choice((None, None, None, None, None, None, "h", "bh")),
    )


def of_packed_sequences(kind: Kind, rng: random.Random) -> Kind:
    """`kind` with sequences in the place of batch elements."""
    mask, bias = rng.choice((kind.mask, kind.mask, "111t")), rng.choice((kind.bias, kind.bias, "1h1t"))
    return replace(kind, packed=True, mask=mask, bias=bias)


def _memory_order(shape, rng, dtype, device):
    """Normal values in a random one of the layouts that models use."""
    batch, heads, length, width = shape
    layout = rng.choice(("bhsd", "bshd", "sbhd", "packed"))
    if layout == "bhsd":
        return torch.randn(shape, dtype=dtype, device=device)
    if layout == "bshd":
        return torch.randn(batch, length, heads, width, dtype=dtype, device=device).transpose(1, 2)
    if layout == "sbhd":
        return torch.randn(length, batch, heads, width, dtype=dtype, device=device).permute(1, 2, 0, 3)
    return torch.randn(batch, length, heads, 3 * width, dtype=dtype, device=device)[
        ..., width : 2 * width
    ].transpose(1, 2)


def _packed_lengths(count: int, longest: int, rng: random.Random) -> tuple[list[int], int]:
    """Where `count` sequences of at most `longest` begin and end, and the length of the tensor, which may be larger."""
    begins = [0]
    for _ in range(count):
        begins.append(begins[-1] + rng.choice((0, 1, longest, rng.randint(0, longest))))
    return begins, max(1, begins[-1] + rng.choice((0, 0, 3)))


class Call:
    """One problem of a kind: tensors, the arguments of attention(), and those of the formulas."""

    def __init__(self, kind: Kind, seed: int, device: str):
        rng = random.Random(seed)
        torch.manual_seed(seed)
        batch, lengths = rng.choice((1, 2, 3)), (1, 3, 16, 33, 64, 100, 129, 192, 257)
        if "s" in f"{kind.mask}{kind.bias}":
            batch *= 2
        rows, keys = rng.choice(lengths), rng.choice(lengths)
        heads, heads_kv = kind.heads
        tensor_batch, all_rows, all_keys = batch, rows, keys
        self.cu_seqlens_q = self.cu_seqlens_kv = None
        if kind.packed:
            (begins_q, all_rows), (begins_kv, all_keys) = (
                _packed_lengths(batch, longest, rng) for longest in (rows, keys)
            )
            tensor_batch = 1
            self.cu_seqlens_q, self.cu_seqlens_kv = (
                torch.tensor(begins, dtype=torch.int32, device=device) for begins in (begins_q, begins_kv)
            )
        sizes = {
            "b": batch, "s": batch // 2, "h": heads, "g": heads_kv, "q": rows, "k": keys, "t": all_keys, "1": 1
        }  # fmt: skip
        make = lambda *shape: _memory_order(shape, rng, kind.dtype, device).detach().requires_grad_()
        self.q = make(tensor_batch, heads, all_rows, kind.head_dim)
        self.k = make(tensor_batch, heads_kv, all_keys, kind.head_dim)
        self.v = make(tensor_batch, heads_kv, all_keys, kind.head_dim_v)
        shape_of = lambda pattern: tuple(sizes[axis] for axis in pattern)
        self.mask = self.bias = self.sink = self.alibi_slopes = self.seqlens_q = self.seqlens_kv = None
        if kind.mask:
            self.mask = torch.rand(shape_of(kind.mask), device=device) < 0.7
        if kind.bias:
            self.bias = torch.randn(shape_of(kind.bias), dtype=kind.bias_dtype, device=device)
            self.bias.requires_grad_(rng.random() < 0.8)
        if kind.sink:
            self.sink = 2 * torch.randn(heads, dtype=kind.sink, device=device)
            self.sink[rng.randrange(heads)] = rng.choice((0.0, -torch.inf, 9.0))
            self.sink.requires_grad_(rng.random() < 0.8)
        if kind.alibi:
            self.alibi_slopes = rng.choice((0.1, 1.0)) * torch.randn(shape_of(kind.alibi), device=device)
        if kind.seqlens:
            self.seqlens_q = torch.randint(0, rows + 1, (batch,), dtype=torch.int32, device=device)
            self.seqlens_kv = torch.randint(0, keys + 1, (batch,), dtype=torch.int32, device=device)
        diagonal = kind.causal or ("bottom-right" if kind.window or kind.alibi else None)
        self.options = {
            "mask": self.mask,
            "bias": self.bias,
            "sink": self.sink,
            "alibi_slopes": self.alibi_slopes,
            "causal": kind.causal,
            "window": kind.window,
            "diagonal": diagonal,
            "scale": kind.scale,
            "softcap": kind.softcap,
            "diagonal_offset": kind.diagonal_offset,
            "seqlens_q": self.seqlens_q,
            "seqlens_kv": self.seqlens_kv,
            "cu_seqlens_q": self.cu_seqlens_q,
            "cu_seqlens_kv": self.cu_seqlens_kv,
        }
        left, right = kind.window or (-1, -1)
        where = {None: NO_DIAGONAL, "top-left": TOP_LEFT, "bottom-right": BOTTOM_RIGHT}[diagonal]
        scalars = Scalars(
            kind.scale, kind.causal is not None, where, left, right, kind.softcap or 0.0, kind.diagonal_offset
        )
        operands = Operands(
            self.mask, self.bias, self.sink, self.alibi_slopes, self.seqlens_q, self.seqlens_kv,
            self.cu_seqlens_q, self.cu_seqlens_kv,
        )  # fmt: skip
        self.problem = (self.q, self.k, self.v, operands, scalars)

    def leaves(self):
        """The inputs that want a gradient."""
        optional = [t for t in (self.bias, self.sink) if t is not None and t.requires_grad]
        return (self.q, self.k, self.v, *optional)

    def gradients(self, outputs, weights):
        """Of q, k, v, bias and sink; None for one that is absent or wants none."""
        leaves = self.leaves()
        found = dict(zip(map(id, leaves), torch.autograd.grad(outputs, leaves, weights)))
        return [found.get(id(t)) for t in (self.q, self.k, self.v, self.bias, self.sink)]
