"""Times training steps of attention in PyTorch: forward, backward, both, and their memory, of attnjit beside the
backends of scaled_dot_product_attention, FlexAttention and FlashAttention-4.

Needs a GPU, PyTorch and attnjit's package:
  python3 bench/torch_attention.py --output torch-attention.json
"""

import argparse
import os
import sys
import warnings

import shapes
import torch
import triton
from peers import ColdTimer, query_gpus, refusal, rounded, versions, write
from torch_implementations import IMPLEMENTATIONS
from torch_inputs import Refused, make_operands

import attnjit

FLOP_OF = {"forward": 1 / 2.5, "backward": 1.0, "both": 3.5 / 2.5}  # a problem counts those of its backward
ROUNDS = 5
ROUND_MS = 8  # of kernel time that a round aims at
CLOSE = 0.1  # to the first implementation's output


class Contestant:
    """One implementation of a problem, ready to be timed."""

    def __init__(self, name, implementation, problem, operands, leaves):
        """Raises Refused where it does not run."""
        self.name = name
        self._scope, make = implementation
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                with self._scope():
                    self._forward = make(problem, *operands)
                    torch.cuda.synchronize()
                    torch.cuda.empty_cache()
                    allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
                    torch.cuda.reset_peak_memory_stats()
                    self.out = self._forward()
                    self._dout = torch.ones_like(self.out)
                    torch.autograd.grad(self.out, leaves, self._dout, retain_graph=True)
            except RuntimeError as error:  # refusals, and memory that does not suffice
                raise Refused(refusal(error, caught)) from error
        self._leaves = leaves
        self.peak_bytes = torch.cuda.max_memory_allocated() - allocated
        self.reserved_bytes = torch.cuda.max_memory_reserved() - reserved
        self.rounds = {name: [] for name in FLOP_OF}
        self._counts = {}

    def forward(self):
        self._forward()

    def backward(self):
        torch.autograd.grad(self.out, self._leaves, self._dout, retain_graph=True)

    def both(self):
        # What was merged beforehand keeps its graph.
        torch.autograd.grad(self._forward(), self._leaves, self._dout, retain_graph=True)

    def run_round(self, timer):
        with self._scope():
            for name, laps in self.rounds.items():
                launch = getattr(self, name)
                if name not in self._counts:
                    self._counts[name] = min(max(int(ROUND_MS / timer.median_ms(3, launch)), 3), 50)
                laps.append(timer.median_ms(self._counts[name], launch))

    def result(self, problem):
        """What a result file says of it."""
        found = {"peak_bytes": self.peak_bytes, "reserved_bytes": self.reserved_bytes}
        for name, laps in self.rounds.items():
            ms = sorted(laps)[ROUNDS // 2]
            found[name] = {"ms": rounded(ms), "round_ms": [rounded(lap) for lap in sorted(laps)],
                           "tflops": rounded(FLOP_OF[name] * problem.flop() / ms / 1e9)}
        return found


def run_problem(timer, problem, names):
    """The row of a problem, also printed. The implementations take turns."""
    *operands, leaves = make_operands(problem, "cuda")
    if problem.mask:
        operands[3][..., 0] = True  # some peers answer NaN for a row that keeps no key
    row = {"name": problem.name, "implementations": {}}
    contestants = []
    for name in names:
        try:
            contestants.append(Contestant(name, IMPLEMENTATIONS[name], problem, operands, leaves))
        except Refused as error:
            row["implementations"][name] = {"reason": str(error)}
    for contestant in contestants[1:]:
        difference = (contestant.out - contestants[0].out).abs().max().item()
        if not difference <= CLOSE:
            raise SystemExit(f"{problem.name}: {contestant.name} differs by {difference} from {contestants[0].name}")
    for _ in range(ROUNDS):
        for contestant in contestants:
            contestant.run_round(timer)
    for contestant in contestants:
        row["implementations"][contestant.name] = contestant.result(problem)
    for name, found in row["implementations"].items():
        figures = found.get("reason") or "".join(f"{found[of]['tflops']:10.1f}" for of in FLOP_OF) + \
            f"{found['peak_bytes'] / 2**20:10.1f}{found['reserved_bytes'] / 2**20:10.1f}"
        print(f"{problem.name:<52} {name:<10}{figures}", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default="bench/shapes/torch.json")
    parser.add_argument("--filter", nargs="+", default=[""], help="only problems with one of these in their name")
    parser.add_argument("--implementations", nargs="+", choices=IMPLEMENTATIONS,
                        default=["attnjit", "flash", "efficient", "cudnn", "math"])
    parser.add_argument("--output", help="file of results to write, JSON")
    options = parser.parse_args()
    problems = [p for p in shapes.load(options.shapes) if any(part in p.name for part in options.filter)]
    if not problems or not all(p.backward for p in problems):
        parser.error("--shapes, --filter: expected problems whose pass is backward")
    if not torch.cuda.is_available():
        print("torch_attention.py: error: PyTorch finds no GPU", file=sys.stderr)
        return 7
    report = {"schema": 1, "benchmark": "torch-attention", **versions(), "triton": triton.__version__,
              "attnjit": attnjit.__version__, "tuned": not os.environ.get("DISABLE_AUTOTUNE"),
              "device": torch.cuda.get_device_name(), "rounds": ROUNDS, "gpus_before": query_gpus()}
    print(f"{report['device']}, torch {torch.__version__}; TFLOP/s, MiB allocated and reserved beside the operands\n"
          f"{'problem':<52} {'':<10}" + "".join(f"{name:>10}" for name in (*FLOP_OF, "MiB", "reserved")))
    torch.set_warn_always(True)  # for the reasons of refusals
    timer = ColdTimer()
    report["rows"] = [run_problem(timer, problem, options.implementations) for problem in problems]
    report["gpus_after"] = query_gpus()
    write(report, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
