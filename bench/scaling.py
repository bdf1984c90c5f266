"""Prints what the model of docs/guide/multi-gpu.md says of a call over more GPUs than a host has. Needs no GPU.

  python3 bench/scaling.py --link-gb-per-s 300 --tflops 550
"""

import argparse
from dataclasses import replace

from attnjit.context_parallel._cost import Machine, Sizes, choose, gather_seconds, ring_seconds

CAUSAL = (None, 0)
RANKS = (2, 8, 64, 512)


def sizes(length, backward):
    """B1, 32 query heads over 8 kv heads, D128, bf16, causal."""
    return Sizes(1, 32, 8, length, length, 128, 128, 2, CAUSAL, backward)


def rows(length, backward, machine):
    """(ranks, method, milliseconds, share of the time that one GPU would take divided by the ranks)."""
    problem = sizes(length, backward)
    single = problem.flop() / machine.flop_per_s
    for ranks in RANKS:
        method = choose(problem, ranks, machine)
        seconds = (ring_seconds if method == "ring" else gather_seconds)(problem, ranks, machine)
        yield ranks, method, seconds * 1e3, single / ranks / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--link-gb-per-s", type=float, default=Machine.link_bytes_per_s / 1e9)
    parser.add_argument("--tflops", type=float, default=Machine.flop_per_s / 1e12)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1 << 17, 1 << 20, 1 << 23])
    options = parser.parse_args()
    machine = replace(
        Machine(), link_bytes_per_s=options.link_gb_per_s * 1e9, flop_per_s=options.tflops * 1e12
    )
    print("| length | pass | GPUs | by | ms | efficiency |\n|---|---|---|---|---|---|")
    for length in options.lengths:
        for backward in (False, True):
            for ranks, method, ms, efficiency in rows(length, backward, machine):
                name = "backward" if backward else "forward"
                print(f"| {length} | {name} | {ranks} | {method} | {ms:.3f} | {100 * efficiency:.0f} % |")


if __name__ == "__main__":
    main()
