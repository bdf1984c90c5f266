"""Prints a Markdown table of our rates over those of PyTorch's backends, row by row.

A visit to the GPU is a result of `attnjit bench` and one of peers.py beside it; of several visits the
median of their ratios counts, and the rates shown are the medians too:
  python3 bench/ratios.py --ours one.json two.json --peers one-peers.json two-peers.json
"""

import argparse
import json
import statistics


def load_rows(path):
    """The rows of a result file by name."""
    with open(path, encoding="utf-8") as file:
        return {row["name"]: row for row in json.load(file)["rows"]}


def backend_rates(row):
    """TFLOP/s of each backend that ran the problem of a row of peers.py."""
    return {name: result["tflops"] for name, result in row["backends"].items() if result["ms"] is not None}


def collect(visits):
    """{row: {backend: [(our rate, its rate) of each visit]}}; rows that either side lacks are left out."""
    found = {}
    for ours, peers in visits:
        for name, row in ours.items():
            for backend, rate in backend_rates(peers.get(name, {"backends": {}})).items():
                if "tflops" in row:
                    found.setdefault(name, {}).setdefault(backend, []).append((row["tflops"], rate))
    return found


def table(found):
    """The lines of the table."""
    yield "| row | attnjit | backend | its rate | ratio | visits |"
    yield "|---|---|---|---|---|---|"
    for name, backends in found.items():
        for backend, pairs in backends.items():
            ours, theirs = (statistics.median(rates) for rates in zip(*pairs))
            ratio = statistics.median(a / b for a, b in pairs)
            yield f"| {name} | {ours:.0f} | {backend} | {theirs:.0f} | {ratio:.2f} | {len(pairs)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", nargs="+", required=True, help="results of attnjit bench, one a visit")
    parser.add_argument("--peers", nargs="+", required=True, help="results of peers.py, in the same order")
    options = parser.parse_args()
    if len(options.ours) != len(options.peers):
        parser.error("--ours and --peers: give one file of each for every visit")
    visits = [(load_rows(ours), load_rows(peers)) for ours, peers in zip(options.ours, options.peers)]
    print("\n".join(table(collect(visits))))


if __name__ == "__main__":
    main()
