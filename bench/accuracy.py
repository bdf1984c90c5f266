"""Measures how exact attention is: the errors against fp64 of attnjit, of the backends of PyTorch's
scaled_dot_product_attention, and of the formulas with the rounding that FlashAttention describes.

Needs a GPU, PyTorch and attnjit's package:
  python3 bench/accuracy.py --output accuracy.json
Inputs are random and the same for all; heads that share keys are expanded for the others, whose dk and dv then add rounded numbers up. An error is the root of the mean square over a tensor; the table has ours
over that of the best peer, and in parentheses over that of the formulas.
"""

import argparse
import dataclasses
import itertools
import statistics

import torch
from peers import query_gpus, versions, write
from references import TENSORS, exact, rms
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import attnjit

BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
OURS, FORMULAS = "attnjit", "formulas"
DRAWS = 3  # of the inputs of a problem, whose errors are averaged


@dataclasses.dataclass(frozen=True)
class Problem:
    """One attention forward and backward: 2 batch elements of 1024 queries."""

    data: str  # normal, peaky, dominant key, one key
    dtype: str
    head_dim: int
    causal: bool = False
    heads_kv: int = 4  # of 4 query heads
    bias: bool = False

    @property
    def name(self):
        parts = [self.data, self.dtype, f"D{self.head_dim}", "causal" if self.causal else "full"]
        return " ".join(parts + ["GQA"] * (self.heads_kv < 4) + ["bias"] * self.bias)

    def inputs(self):
        """q, k, v, dout and a bias or None, rounded to the dtype."""
        keys = 1 if self.data == "one key" else 1024

        def normal(heads, rows, width):
            return torch.randn(2, heads, rows, width, device="cuda", dtype=torch.float64)

        q, dout = (normal(4, 1024, self.head_dim) for _ in range(2))
        k, v = (normal(self.heads_kv, keys, self.head_dim) for _ in range(2))
        if self.data == "peaky":
            q *= 3
        if self.data == "dominant key":
            q += 2 * k[:, :, :1].repeat_interleave(4 // self.heads_kv, 1)
        bias = normal(4, 1024, keys) if self.bias else None
        return [None if t is None else t.to(DTYPES[self.dtype]) for t in (q, k, v, dout, bias)]


def problems():
    """Those of the committed results."""
    for data, dtype, head_dim in itertools.product(
            ("normal", "peaky", "dominant key", "one key"), DTYPES, (64, 128, 256)):
        yield Problem(data, dtype, head_dim)
        if data != "one key":
            yield Problem(data, dtype, head_dim, causal=True)
    for data, dtype in itertools.product(("normal", "dominant key"), DTYPES):
        yield Problem(data, dtype, 128, causal=True, heads_kv=1)
        yield Problem(data, dtype, 128, bias=True)


def run_attnjit(q, k, v, bias, causal):
    return attnjit.attention(q, k, v, bias=bias, causal="top-left" if causal else None)


def run_backend(backend):
    def run(q, k, v, bias, causal):
        keys, values = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(q, keys, values, bias, is_causal=causal)
    return run


RUNS = {OURS: run_attnjit, **{name: run_backend(backend) for name, backend in BACKENDS.items()}}


def results_of(run, q, k, v, dout, bias, causal):
    leaves = [t.detach().requires_grad_() for t in (q, k, v) + (() if bias is None else (bias,))]
    out = run(*leaves[:3], None if bias is None else leaves[3], causal)
    return [out, *torch.autograd.grad(out, leaves, dout)]


def measure(problem):
    """{implementation: {tensor: error}}, and what refused."""
    draws, refused = {}, {}
    for _ in range(DRAWS):
        inputs = problem.inputs()
        truth = exact(*inputs, problem.causal)
        found = {FORMULAS: exact(*inputs, problem.causal, DTYPES[problem.dtype])}
        for name, run in RUNS.items():
            try:
                found[name] = results_of(run, *inputs, problem.causal)
            except RuntimeError as error:
                refused[name] = str(error).splitlines()[0]
        for name, tensors in found.items():
            for tensor, x, ref in zip(TENSORS, tensors, truth):
                draws.setdefault(name, {}).setdefault(tensor, []).append(rms(x - ref))
    errors = {name: {tensor: statistics.fmean(values) for tensor, values in by_tensor.items()}
              for name, by_tensor in draws.items()}
    return errors, refused


def cell(errors, tensor):
    """Ours over the best peer's and over the formulas'. A peer may be exact."""
    ours, model = errors[OURS][tensor], errors[FORMULAS][tensor]
    best = min(by_tensor[tensor] for name, by_tensor in errors.items() if name in BACKENDS)

    def ratio(other):
        return f"{ours / other:.2f}" if other else ("1.00" if ours == 0 else f"{ours:.1e}/0")
    return f"{ratio(best)} ({ratio(model)})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", help="file of results to write, JSON")
    parser.add_argument("--filter", default="", help="problems with this in their name")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--git", default="", help="commit to name in the results")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    report = {"git": options.git, "gpu": query_gpus(), **versions(), "draws": DRAWS, "rows": []}
    print("| data | " + " | ".join(TENSORS) + " |\n|---" * 1 + "|---" * len(TENSORS) + "|")
    for problem in problems():
        if options.filter not in problem.name:
            continue
        errors, refused = measure(problem)
        report["rows"].append({"name": problem.name, "errors": errors, "refused": refused})
        cells = [cell(errors, tensor) if tensor in errors[OURS] else "" for tensor in TENSORS]
        print(f"| {problem.name} | " + " | ".join(cells) + " |", flush=True)
    write(report, options.output)


if __name__ == "__main__":
    main()
