"""Draws results of torch_attention.py: TFLOP/s of a forward and of a backward by mask, bias and head dim.

Needs matplotlib: python3 bench/plot_torch.py torch-attention.json torch-flex.json --output docs/images/torch.svg
"""

import argparse
import re

import matplotlib
import matplotlib.pyplot as plt
from plot import SERIES, STYLE, add_legend, load_rows, save

BARS = {**SERIES, "math": ("PyTorch math", "#bbbbbb", None), "fa4": ("FlashAttention-4", "#e69f00", None)}
PASSES = ("forward", "backward")
_NAME = re.compile(r"(?P<kind>\w+) backward head_dim=(?P<head_dim>\d+) causal=(?P<causal>\w+)(?: \w+=(?P<axes>\w+))?")


def groups(reports):
    """{head dim: {label of a group of bars: {implementation: its figures}}} of all files."""
    found = {}
    for rows in reports:
        for name, row in rows.items():
            part = _NAME.fullmatch(name)
            if part is None:
                raise SystemExit(f"plot_torch.py: error: {name} is no row of bench/shapes/torch.json")
            words = [part["axes"] or "", "" if part["kind"] == "dense" else part["kind"],
                     "" if part["causal"] == "false" else "causal"]
            label = "\n".join(filter(None, words)) or "full"
            figures = {n: i for n, i in row["implementations"].items() if "reason" not in i}
            found.setdefault(int(part["head_dim"]), {}).setdefault(label, {}).update(figures)
    return found


def draw_pass(axes, by_label, name):
    """A group of bars for each label, a bar for each implementation that ran."""
    present = [series for series in BARS if any(series in found for found in by_label.values())]
    width = 0.84 / len(present)
    for i, series in enumerate(present):
        points = [(group + (i - (len(present) - 1) / 2) * width, found[series][name]["tflops"])
                  for group, found in enumerate(by_label.values()) if series in found]
        label, colour, _ = BARS[series]
        axes.bar(*zip(*points), width=width, label=label, color=colour)
    axes.set_xticks(range(len(by_label)), by_label)
    axes.grid(axis="x", visible=False)
    axes.set_ylabel("TFLOP/s")


def draw(found, heading):
    rows = [(head_dim, name) for head_dim in sorted(found) for name in PASSES]
    figure, plots = plt.subplots(len(rows), 1, figsize=(11, 2.6 * len(rows)), layout="constrained")
    for axes, (head_dim, name) in zip(plots, rows):
        draw_pass(axes, found[head_dim], name)
        axes.set_title(f"{name}, D{head_dim}; every score counts, kept or not, but those that causal drops")
    add_legend(figure)
    figure.suptitle(heading, fontsize=10)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="+", help="result files of torch_attention.py")
    parser.add_argument("--output", default="docs/images/torch.svg")
    options = parser.parse_args()
    loaded = [load_rows(path) for path in options.results]
    report = loaded[0][0]
    heading = f"Training steps, B2 H16 L4096 bf16, {report['device']}, torch {report['torch']}, {report['date'][:10]}"
    matplotlib.rcParams.update(STYLE)
    save(draw(groups(rows for _, rows in loaded), heading), options.output)


if __name__ == "__main__":
    main()
