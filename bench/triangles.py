"""Times AlphaFold's triangle attention of attnjit beside cuEquivariance's, forward and gradients in turns, and tells the
error of each against the formulas in fp64.

Needs a GPU, PyTorch, attnjit's package and the packages cuequivariance-torch and cuequivariance-ops-torch-cu13:
  python3 bench/triangles.py --output triangles.json
"""

import argparse
import os
import sys

import cuequivariance_torch
import torch
from peers import ROUNDS, ColdTimer, query_gpus, rounded, versions, write

import attnjit

IMPLEMENTATIONS = {"attnjit": attnjit.triangle_attention, "cuequivariance": cuequivariance_torch.triangle_attention}
# (rows and columns of the pair representation, head dim, share of keys kept)
PROBLEMS = [(256, 32, 0.9), (371, 32, 0.9), (376, 32, 0.9), (384, 32, 0.9), (384, 64, 0.9), (768, 32, 0.9)]
HEADS = 4
PRODUCTS = {"forward": 2, "backward": 5}  # of matrices, over every pair
SAMPLE = 2  # rows of pairs of which the exact result is computed
FILLS = 16  # a millisecond, longer than the host takes for a call of either
GRADIENTS = ("dq", "dk", "dv", "dbias")


def make_call(size, head_dim, kept):
    """(q, k, v, bias, mask, dout) of one protein: bf16, the bias fp32."""
    torch.manual_seed(size)
    normal = lambda *shape, dtype=torch.bfloat16: torch.randn(*shape, device="cuda", dtype=dtype)
    q, k, v = (normal(1, size, HEADS, size, head_dim).requires_grad_() for _ in range(3))
    bias = normal(1, 1, HEADS, size, size, dtype=torch.float32).requires_grad_()
    mask = torch.rand(1, size, 1, 1, size, device="cuda") < kept
    return q, k, v, bias, mask, torch.randn_like(q)


def exact(q, k, v, bias, mask, dout):
    """out of the first SAMPLE rows of pairs and their dq, dk and dv, by the formulas in fp64."""
    q, k, v = (t[:, :SAMPLE].detach().double().requires_grad_() for t in (q, k, v))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + bias.detach().double()
    out = scores.masked_fill(~mask[:, :SAMPLE], -torch.inf).softmax(-1) @ v
    return (out, *torch.autograd.grad(out, (q, k, v), dout[:, :SAMPLE].double()))


def errors(found, expected):
    """The error of each tensor in the Frobenius norm, over the norm of the exact one."""
    names = ("out", *GRADIENTS)
    return {name: rounded(((f[:, :SAMPLE].double() - e).norm() / e.norm()).item())
            for name, f, e in zip(names, found, expected)}


def run_problem(timer, size, head_dim, kept):
    """The row of a problem, also printed. The implementations take turns."""
    *inputs, dout = make_call(size, head_dim, kept)
    leaves = inputs[:4]
    expected = exact(*inputs, dout)
    laps, counts, found = {}, {}, {}
    for name, attend in IMPLEMENTATIONS.items():
        out = attend(*inputs)
        gradients = torch.autograd.grad(out, leaves, dout, retain_graph=True)
        found[name] = {"errors": errors((out, *gradients), expected)}

        def forward(attend=attend):
            with torch.no_grad():
                attend(*inputs)

        def backward(out=out):
            torch.autograd.grad(out, leaves, dout, retain_graph=True)

        laps[name] = {"forward": forward, "backward": backward}
    rounds = {name: {of: [] for of in of_name} for name, of_name in laps.items()}
    for _ in range(ROUNDS):
        for name, of_name in laps.items():
            for of, launch in of_name.items():
                if (name, of) not in counts:
                    counts[name, of] = min(max(int(12 / timer.median_ms(3, launch)), 5), 50)
                rounds[name][of].append(timer.median_ms(counts[name, of], launch))
    row = {"name": f"N{size} D{head_dim}", "kept": kept, "implementations": found}
    for name, of_name in rounds.items():
        for of, all_ms in of_name.items():
            ms = sorted(all_ms)[ROUNDS // 2]
            found[name][of] = {"ms": rounded(ms), "round_ms": [rounded(lap) for lap in sorted(all_ms)],
                               "tflops": rounded(PRODUCTS[of] * 2 * HEADS * size**3 * head_dim / ms / 1e9)}
    ours, theirs = found.values()
    ratios = [theirs[of]["ms"] / ours[of]["ms"] for of in ("forward", "backward")]
    print(f"{row['name']:<12}" + "".join(f"{1e3 * f[of]['ms']:10.0f}" for of in ("forward", "backward") for f in (ours, theirs))
          + "".join(f"{ratio:8.2f}" for ratio in ratios), flush=True)
    for name, f in found.items():
        print(f"  errors of {name}: " + ", ".join(f"{of} {e:.2e}" for of, e in f["errors"].items()))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", help="file of results to write, JSON")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("triangles.py: error: PyTorch finds no GPU", file=sys.stderr)
        return 7
    report = {"schema": 1, "benchmark": "triangles", **versions(), "attnjit": attnjit.__version__,
              "cuequivariance": cuequivariance_torch.__version__, "tuned": not os.environ.get("DISABLE_AUTOTUNE"),
              "device": torch.cuda.get_device_name(), "rounds": ROUNDS, "gpus_before": query_gpus()}
    print(f"{report['device']}, torch {torch.__version__}, cuEquivariance {report['cuequivariance']}; microseconds\n"
          f"{'problem':<12}{'forward':>10}{'theirs':>10}{'backward':>10}{'theirs':>10}{'theirs / ours':>16}")
    timer = ColdTimer(FILLS)
    report["rows"] = [run_problem(timer, *problem) for problem in PROBLEMS]
    report["gpus_after"] = query_gpus()
    write(report, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
