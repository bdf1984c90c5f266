"""What users.py runs: the problems of shapes/users.json and windows of images as Swin has them, each with the
implementations that it is run by."""

import contextlib
import dataclasses
import pathlib

import shapes
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch_implementations import IMPLEMENTATIONS
from torch_inputs import make_operands, per_query_head

import attnjit

SHAPES = pathlib.Path(__file__).parent / "shapes" / "users.json"


@dataclasses.dataclass(frozen=True)
class Windows:
    """A training step over the windows of a batch of images: q, k, v (images, windows, heads, seqlen, head_dim), a
    learnt bias (1, 1, heads, seqlen, seqlen) and a mask (1, windows, 1, seqlen, seqlen) that keeps 0.8."""

    images: int
    windows: int
    heads: int
    seqlen: int
    head_dim: int = 32
    causal: str = ""

    @property
    def name(self):
        return f"g: {self.images} images, {self.windows} windows, H{self.heads} S{self.seqlen} backward"

    def flop(self):
        """Of the five products of a backward."""
        return 10 * self.images * self.windows * self.heads * self.seqlen**2 * self.head_dim

    def make_operands(self):
        """q, k, v, mask, bias, and a list of all whose gradients are wanted."""
        torch.manual_seed(1)

        def normal(*shape):
            return torch.randn(shape, dtype=torch.bfloat16, device="cuda", requires_grad=True)

        rows = self.images, self.windows, self.heads, self.seqlen, self.head_dim
        q, k, v = (normal(*rows) for _ in range(3))
        bias = normal(1, 1, self.heads, self.seqlen, self.seqlen)
        mask = torch.rand(1, self.windows, 1, self.seqlen, self.seqlen, device="cuda") < 0.8
        return q, k, v, mask, bias, [q, k, v, bias]


WINDOWS = (Windows(32, 64, 4, 49), Windows(32, 64, 4, 64), Windows(8, 64, 8, 144), Windows(64, 16, 8, 49))


def _prepared(problem, q, k, v, mask, bias):
    """attnjit with a mask that is prepared before the call."""
    prepared = attnjit.prepare_mask(mask, backward=True)
    return lambda: attnjit.attention(q, k, v, mask=prepared, bias=bias, causal=problem.causal or None)


def _merging(problem, q, k, v, mask, bias):
    """A call that merges mask and bias, and expands what heads share; the triangle is made beforehand."""
    ones = torch.ones(mask.shape[-2:], dtype=torch.bool, device=q.device)
    triangle = ones.tril() if problem.causal else ones
    copies = q.shape[1] // k.shape[1]

    def forward():
        keys, values = (t if copies == 1 else t.repeat_interleave(copies, 1) for t in (k, v))
        operand = torch.where(
            per_query_head(problem, problem.mask, mask) & triangle,
            per_query_head(problem, problem.bias, bias),
            float("-inf"),
        )
        return scaled_dot_product_attention(q, keys, values, operand)

    return forward


def _merging_windows(problem, q, k, v, mask, bias):
    """A call with images and windows as one batch axis, for which the operand is written out."""

    def forward():
        operand = torch.where(mask, bias, float("-inf")).expand(*q.shape[:-1], -1).flatten(0, 1)
        return scaled_dot_product_attention(*(t.flatten(0, 1) for t in (q, k, v)), operand).view_as(q)

    return forward


def _eager(problem, q, k, v, mask, bias):
    def forward():
        scores = (q * q.shape[-1] ** -0.5) @ k.mT + torch.where(mask, bias, float("-inf"))
        return scores.softmax(-1) @ v

    return forward


def _by_efficient(make):
    """An implementation by the efficient backend: what a call needs around it, and what makes a call."""
    return lambda: sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION), make


def _implementations(problem, with_flex):
    """{name: implementation} of a problem, ours first."""
    ours, prepared = IMPLEMENTATIONS["attnjit"], (contextlib.nullcontext, _prepared)
    if isinstance(problem, Windows):
        peers = {"efficient": _by_efficient(_merging_windows), "eager": (contextlib.nullcontext, _eager)}
        return {"attnjit": ours, **peers}
    if not problem.dbias:  # merged once, beforehand
        return {"attnjit": ours, **{name: IMPLEMENTATIONS[name] for name in ("efficient", "cudnn")}}
    peers = {"efficient": _by_efficient(_merging)}
    if not problem.name.startswith("a:"):
        return {"attnjit": ours, **peers}
    flex = {"flex": IMPLEMENTATIONS["flex"]} if with_flex else {}
    return {"attnjit": ours, "prepared": prepared, **peers, **flex}


def load(wanted, with_flex):
    """(problem, {name: implementation}) of each problem with one of the texts `wanted` in its name."""
    for problem in (*shapes.load(SHAPES), *WINDOWS):
        if any(text in problem.name for text in wanted):
            yield problem, _implementations(problem, with_flex)


def make(problem):
    """q, k, v, mask, bias, and a list of all whose gradients are wanted. Each row keeps the first key, since peers
    answer NaN for one that keeps none."""
    *operands, leaves = (
        problem.make_operands() if isinstance(problem, Windows) else make_operands(problem, "cuda")
    )
    operands[3][..., 0] = True
    return operands, leaves
