"""Draws TFLOP/s over sequence length from results of `attnjit bench` and, beside them, of peers.py.

Needs matplotlib: python3 bench/plot.py ours.json peers.json ... --output docs/images/forward.svg
"""

import argparse
import json
import pathlib
import re

import matplotlib
import matplotlib.pyplot as plt

# Of attnjit and each backend of peers.py: name in the legend, colour (Okabe-Ito palette), marker.
SERIES = {"attnjit": ("attnjit", "#0072b2", "o"),
          "flash": ("PyTorch FlashAttention-2", "#d55e00", "s"),
          "cudnn": ("PyTorch cuDNN", "#009e73", "^"),
          "efficient": ("PyTorch efficient", "#888888", "D"),
          "flex": ("PyTorch FlexAttention", "#cc79a7", "v")}
STYLE = {"svg.hashsalt": "attnjit", "svg.fonttype": "none", "font.family": "sans-serif",
         "font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
         "axes.grid": True, "grid.color": "#e5e5e5", "axes.axisbelow": True,
         "axes.titlesize": 10, "legend.frameon": False}
OPERAND_SHAPE = {"dtype": "bf16", "batch": 4, "heads_q": 16, "heads_kv": 16, "seqlen_q": 4096,
                 "seqlen_kv": 4096, "head_dim": 128, "causal": False}
BARS_TOP = 800  # TFLOP/s; a mask that drops whole tiles passes it, and its bar is cut and labelled


def load_rows(path):
    """A result file, and its rows by name."""
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    return report, {row["name"]: row for row in report["rows"]}


def load_peers(paths):
    """The backends that result files of peers.py have, by the name of the problem."""
    peers = {}
    for path in paths:
        for name, row in load_rows(path)[1].items():
            peers.setdefault(name, {}).update(row["backends"])
    return peers


def rates(row, peers):
    """TFLOP/s of each series that ran the problem of `row`."""
    found = {"attnjit": row["tflops"]}
    for name, result in peers.get(row["name"], {}).items():
        if result["ms"] is not None:
            found[name] = result["tflops"]
    return found


def is_plain(row):
    """Whether a row is of the grid of lengths, which the files of shapes call dense, gqa or d128."""
    return row["dtype"] == "bf16" and re.match(r"dense|gqa|d\d+ ", row["name"].lower())


def panels(rows, peers):
    """{(head dim, heads per kv head, causal): {series: {length: TFLOP/s}}} of the grid."""
    found = {}
    for row in filter(is_plain, rows.values()):
        key = (row["head_dim"], row["heads_q"] // row["heads_kv"], row["causal"])
        for series, rate in rates(row, peers).items():
            found.setdefault(key, {}).setdefault(series, {})[row["seqlen_q"]] = rate
    return found


def draw_lines(axes, lines):
    for series, (label, colour, marker) in SERIES.items():
        points = sorted(lines.get(series, {}).items())
        if points:
            ours = series == "attnjit"
            axes.plot(*zip(*points), label=label, color=colour, marker=marker, markersize=4,
                      linewidth=2 if ours else 1.3, zorder=3 if ours else 2)
    lengths = sorted({length for line in lines.values() for length in line})
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [f"{n // 1024}k" if n >= 1024 else str(n) for n in lengths])
    axes.minorticks_off()


def draw_bars(axes, rows, peers):
    """A group of bars for each mask and bias on one shape."""
    chosen = [row for row in rows.values()
              if (row["mask"] or row["bias"])
              and all(row[field] == value for field, value in OPERAND_SHAPE.items())]
    measured = [rates(row, peers) for row in chosen]
    present = [series for series in SERIES if any(series in found for found in measured)]
    width = 0.8 / max(len(present), 1)
    for i, series in enumerate(present):
        bars = [(group + (i - (len(present) - 1) / 2) * width, found[series])
                for group, found in enumerate(measured) if series in found]
        label, colour, _ = SERIES[series]
        axes.bar(*zip(*bars), width=width, label=label, color=colour)
        for x, rate in bars:
            if rate > BARS_TOP:
                axes.text(x, 0.98 * BARS_TOP, f"{rate:.0f}", rotation=90, color="white",
                          ha="center", va="top")
    names = [row["name"].replace(" heads=16/16", "").replace(" backward", "").replace(" ", "\n")
             for row in chosen]
    axes.set_xticks(range(len(names)), names)
    axes.set_ylim(top=min(axes.get_ylim()[1], BARS_TOP))
    axes.grid(axis="x", visible=False)
    axes.set_title("masks and biases, B4 H16 L4096 D128; every score counts, kept or not")
    axes.set_ylabel("TFLOP/s")


def title(key):
    head_dim, ratio, causal = key
    heads = "" if ratio == 1 else f", {ratio} heads per kv head"
    return f"D{head_dim}{heads}, {'causal' if causal else 'full'}"


def add_legend(figure):
    """One for all axes, below them."""
    handles = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles))


def draw(rows, peers, heading):
    grid = panels(rows, peers)
    if not grid:
        raise SystemExit("plot.py: error: no rows of the grids of lengths in bench/shapes")
    columns = sorted({key[:2] for key in grid})
    bars = any(row["mask"] or row["bias"] for row in rows.values())
    figure = plt.figure(figsize=(3 * len(columns), 8.2 if bars else 5.6), facecolor="white",
                        layout="constrained")
    layout = figure.add_gridspec(3 if bars else 2, len(columns))
    top = 1.05 * max(rate for lines in grid.values() for line in lines.values()
                     for rate in line.values())
    for i, causal in enumerate((False, True)):
        for j, column in enumerate(columns):
            axes = figure.add_subplot(layout[i, j])
            axes.set_ylim(0, top)
            draw_lines(axes, grid.get((*column, causal), {}))
            axes.set_title(title((*column, causal)))
            if j == 0:
                axes.set_ylabel("TFLOP/s")
    if bars:
        draw_bars(figure.add_subplot(layout[2, :]), rows, peers)
    add_legend(figure)
    figure.suptitle(heading, fontsize=10)
    return figure


def save(figure, path):
    """Writes the same bytes for the same figure."""
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Creator": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ours", help="a result file of attnjit bench")
    parser.add_argument("peers", nargs="*", help="result files of peers.py")
    parser.add_argument("--output", default="docs/images/forward.svg")
    options = parser.parse_args()
    report, rows = load_rows(options.ours)
    rows = {name: row for name, row in rows.items() if "tflops" in row}
    peers = load_peers(options.peers)
    device, day = report["device"]["name"], report["date"][:10]
    passes = {row.get("pass", "forward") for row in rows.values()}
    which = " and ".join(sorted(passes)).capitalize()
    heading = f"{which}, bf16, 16384 tokens a batch, {device}, {day}"
    matplotlib.rcParams.update(STYLE)
    save(draw(rows, peers, heading), options.output)


if __name__ == "__main__":
    main()
