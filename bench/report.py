#!/usr/bin/env python3
"""Writes the figures of docs/results and README.md from bench/results.

    python3 bench/report.py            # the tables between "<!-- begin report -->" and "<!-- end report -->", and the
                                       # rows of README.md that a visit measured
    python3 bench/report.py --check    # exit status 1 where one of them is stale

Of each pass the newest folder of bench/results that has hopper-forward-*.json (or hopper-backward-*.json) with rows of
attnjit and cuDNN counts: files that `bench/peers.py --backends cudnn attnjit` wrote, a visit or a round each. A time is
the median of the files' medians.
"""

import argparse
import json
import pathlib
import re
import statistics
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
PAGES = {
    "forward": ROOT / "docs/results/hopper-forward.md",
    "backward": ROOT / "docs/results/hopper-backward.md",
}
OURS, PEER = "attnjit", "cudnn"
COLUMNS = 120
BLOCK = re.compile(r"(<!-- begin report -->\n).*?(<!-- end report -->)", re.DOTALL)


class Visit:
    """The newest figures of a pass: rates by row, (ours, cuDNN's) in TFLOP/s, and ours in milliseconds."""

    def __init__(self, direction):
        self.files = max(
            (files for files in self._folders(direction) if files), key=lambda files: files[0].parent.name
        )
        documents = [json.loads(file.read_text()) for file in self.files]
        self.about = documents[0]
        names = [row["name"] for row in documents[0]["rows"]]
        self.rows = {}
        for name in names:
            found = [row["backends"] for d in documents for row in d["rows"] if row["name"] == name]
            if any(row.get(which, {}).get("ms") is None for row in found for which in (OURS, PEER)):
                continue
            short = name.replace(f" {direction}", "")
            self.rows[short] = [
                statistics.median(row[which]["tflops"] for row in found) for which in (OURS, PEER)
            ]

    @staticmethod
    def _folders(direction):
        for folder in sorted(RESULTS.iterdir()):
            files = sorted(folder.glob(f"hopper-{direction}-[0-9].json")) if folder.is_dir() else []
            yield [f for f in files if {OURS, PEER} <= set(json.loads(f.read_text())["rows"][0].get("backends", {}))]

    def ratio(self, name):
        ours, peer = self.rows[name]
        return f"{ours / peer:.2f}"

    def pairs(self):
        """Rows that are measured with a causal mask and without, as their common name."""
        names = [name.removesuffix(" causal=false") for name in self.rows if name.endswith(" causal=false")]
        return [name for name in names if f"{name} causal=top_left" in self.rows]

    def singles(self):
        return [name for name in self.rows if "causal=" not in name]


def rate(value):
    return f"{value:.0f}"


def table(visit):
    gpu = visit.about["gpus_before"][0].split(", ")
    files = ", ".join(f"[{f.stem}](../../{f.relative_to(ROOT).as_posix()})" for f in visit.files)
    cudnn = visit.about["cudnn"]
    about = (
        f"{visit.about['device']['name']}, driver {gpu[2]}, SM clock up to {gpu[5]}, torch {visit.about['torch']}, cuDNN "
        f"{cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}, {visit.about['date'][:10]}, configuration 0, in turns with "
        f"cuDNN; medians of {files}."
    )
    lines = [
        *textwrap.wrap(about, COLUMNS, break_long_words=False, break_on_hyphens=False),
        "",
        "| row | full: attnjit / cuDNN | ratio | causal: attnjit / cuDNN | ratio |",
        "| -- | -- | -- | -- | -- |",
    ]
    for name in visit.pairs():
        cells = [name.removeprefix("dense ").replace("gqa", "GQA 32/8").replace("GQA L", "GQA 32/8 D128 L")]
        for causal in ("false", "top_left"):
            row = f"{name} causal={causal}"
            cells += [" / ".join(rate(x) for x in visit.rows[row]), visit.ratio(row)]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| B4 H16 L4096 D128 | attnjit / cuDNN | ratio |", "| -- | -- | -- |"]
    for name in visit.singles():
        label = re.sub(r"^(\w+) (\w+)=", r"\2 ", name)
        lines.append(f"| {label} | {' / '.join(rate(x) for x in visit.rows[name])} | {visit.ratio(name)} |")
    return "\n".join(lines) + "\n"


def readme_rows(forward, backward):
    """The rows of README.md's table that these visits measured, by their first cell."""

    def causal(visit, name):
        return " / ".join(visit.ratio(f"{name} causal={c}") for c in ("false", "top_left"))

    device = f"[{forward.about['device']['name'].split()[1]}](docs/results/hopper-forward.md#figures)"
    other = f"[{backward.about['device']['name'].split()[1]}](docs/results/hopper-backward.md#figures)"
    return {
        "dense, D128, 8k tokens, full / causal": [
            causal(forward, "dense D128 L8192"), causal(backward, "dense D128 L8192"), f"cuDNN 9.19, {device}",
        ],
        "grouped heads 32/8, D128, 8k tokens, full / causal": [
            causal(forward, "gqa D128 L8192"), causal(backward, "GQA L8192"), "the same",
        ],
        "a mask, or a bias, per query and key, D128, 4k tokens": [
            f"{forward.ratio('mask mask=b1qk')}, {forward.ratio('bias bias=bhqk')}",
            f"{backward.ratio('mask mask=b1qk')}, {backward.ratio('bias bias=bhqk')}",
            f"cuDNN 9.19, the operand as its bias, {other}",
        ],
    }  # fmt: skip


def with_rows(text, rows):
    for label, cells in rows.items():
        pattern = re.compile(rf"^\| {re.escape(label)} \|.*$", re.MULTILINE)
        if not pattern.search(text):
            raise SystemExit(f"report: README.md has no row '{label}'")
        text = pattern.sub(lambda _, row=f"| {label} | {' | '.join(cells)} |": row, text)
    return text


def reports():
    """What each file should be."""
    visits = {direction: Visit(direction) for direction in PAGES}
    found = {}
    for direction, page in PAGES.items():
        text = page.read_text()
        if not BLOCK.search(text):
            raise SystemExit(f"report: {page.relative_to(ROOT)} has no <!-- begin report --> block")
        found[page] = BLOCK.sub(lambda m, d=direction: m[1] + "\n" + table(visits[d]) + "\n" + m[2], text)
    readme = ROOT / "README.md"
    found[readme] = with_rows(readme.read_text(), readme_rows(visits["forward"], visits["backward"]))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 where a file is stale")
    arguments = parser.parse_args()
    stale = [page for page, text in reports().items() if page.read_text() != text]
    if arguments.check:
        for page in stale:
            print(f"{page.relative_to(ROOT)}: its figures are not those of bench/results; run bench/report.py")
        return 1 if stale else 0
    for page, text in reports().items():
        page.write_text(text)
    print(f"{len(stale)} of {len(reports())} files changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
