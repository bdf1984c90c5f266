#!/usr/bin/env python3
"""Writes the figures of docs/results and README.md from bench/results.

    python3 bench/report.py            # the text between "<!-- begin report NAME -->" and "<!-- end report -->" on each
                                       # page, and the rows of README.md
    python3 bench/report.py --check    # exit status 1 where one of them is stale

A table is of the newest folder of bench/results that has its files (measured.py), and names them; a column that another
visit measured says of which day it is, and has no ratio. Where a visit has several rounds, the medians count.
"""

import argparse
import math
import re
import sys
import textwrap

from measured import OURS, ROOT, newest, newest_files

COLUMNS = 120
BLOCK = re.compile(r"(<!-- begin report ([\w-]+) -->\n).*?(<!-- end report -->)", re.DOTALL)
TRAINING = "a: D128 bhqk causal"  # rows of bench/users.py that README.md quotes
TRIANGLES = "N384 D32"  # of bench/triangles.py
WINDOWS = ("g: 32 images, 64 windows, H4 S49", "g: 32 images, 64 windows, H4 S64")


# Figures and tables as text.


def rate(value):
    return f"{value:.0f}"


def three_digits(value):
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"


def ms(visit, name, which=OURS):
    return three_digits(visit.value(name, which)) if visit.has(name, which) else ""


def tflops(visit, name, which=OURS):
    return rate(visit.value(name, which, "tflops")) if visit.has(name, which) else ""


def ratio(visit, name, peer):
    return f"{visit.ratio(name, peer):.2f}" if visit.has(name, OURS, peer) else ""


def mebibytes(count):
    return f"{count / 2**20:.{1 if count < 100 * 2**20 else 0}f}"


def grid(header, rows):
    lines = [header, ["--"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def links(*visits):
    return ", ".join(f"[{f.stem}](../../{f.relative_to(ROOT).as_posix()})" for v in visits for f in v.files)


def about(visit, how, *others):
    """The line above a table: on what it was measured, and its files."""
    gpu = visit.about["gpus_before"][0].split(", ")
    cudnn = visit.member("cudnn")
    versions = [f"torch {visit.member('torch')}"] if visit.member("torch") else []
    versions += [f"cuDNN {cudnn_version(visit)}"] if cudnn else []
    text = ", ".join(
        [visit.device(), f"driver {gpu[2]}", f"SM clock up to {gpu[5]}", *versions, *visit.dates(), visit.configuration()]
    )
    text += f", {how} {links(visit)}".replace("  ", " ")
    text += "".join(f"; {words} {links(other)}" for words, other in others) + "."
    return "\n".join(textwrap.wrap(text, COLUMNS, break_long_words=False, break_on_hyphens=False)) + "\n\n"


def cudnn_version(visit):
    cudnn = visit.member("cudnn")
    return f"{cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}"


# Rows that are measured with a causal mask and without.


def pairs(visit, *implementations):
    """The common names of such rows that all have run."""
    names = [name.removesuffix(" causal=false") for name in visit.names if name.endswith(" causal=false")]
    return [n for n in names if all(visit.has(f"{n} causal={c}", *implementations) for c in ("false", "top_left"))]


def short(name):
    name = name.replace(" backward", "").removeprefix("dense ")
    return name.replace("gqa", "GQA 32/8").replace("GQA L", "GQA 32/8 D128 L")


def pair_table(visit, peer, title):
    rows = []
    for name in pairs(visit, OURS, peer):
        cells = [short(name)]
        for causal in ("false", "top_left"):
            row = f"{name} causal={causal}"
            cells += [f"{tflops(visit, row)} / {tflops(visit, row, peer)}", ratio(visit, row, peer)]
        rows.append(cells)
    return grid(["row", f"full: attnjit / {title}", "ratio", f"causal: attnjit / {title}", "ratio"], rows)


# The tables of each page, by the names of their blocks.


def hopper_visit(direction):
    return newest(f"hopper-{direction}-[0-9].json", of=(OURS, "cudnn"))


def hopper(direction):
    visit = hopper_visit(direction)
    singles = [name for name in visit.names if "causal=" not in name]
    label = {name: re.sub(r"^(\w+) (\w+)=", r"\2 ", name.replace(" backward", "")) for name in singles}
    with_peer = [
        [label[name], f"{tflops(visit, name)} / {tflops(visit, name, 'cudnn')}", ratio(visit, name, "cudnn")]
        for name in singles
        if visit.has(name, OURS, "cudnn")
    ]
    text = about(visit, "in turns with cuDNN; medians of") + pair_table(visit, "cudnn", "cuDNN")
    return text + "\n" + grid(["B4 H16 L4096 D128", "attnjit / cuDNN", "ratio"], with_peer)


def hopper_dbias():
    visit = hopper_visit("backward")
    names = [name for name in visit.names if name.startswith("dbias")]
    rows = [[name.replace("dbias backward bias=", "dbias "), tflops(visit, name), ms(visit, name)] for name in names]
    return about(visit, "medians of") + grid(["B4 H16 L4096 D128", "attnjit, TFLOP/s", "ms"], rows)


def forward_visit():
    return newest("forward.json", "forward-peers.json")


def forward_dense():
    visit = forward_visit()
    return about(visit, "path mma;") + pair_table(visit, "flash", "FA2")


def forward_operands():
    visit = forward_visit()
    rows = [
        [
            name,
            tflops(visit, name), tflops(visit, name, "efficient"), ratio(visit, name, "efficient"),
            tflops(visit, name, "cudnn"), ratio(visit, name, "cudnn"),
        ]
        for name in visit.names
        if "causal=" not in name and not name.startswith("decode") and visit.has(name, OURS, "efficient")
    ]  # fmt: skip
    header = ["B4 H16 L4096 D128", "attnjit", "efficient", "ratio", "cuDNN", "ratio"]
    return about(visit, "path mma;") + grid(header, rows)


def decoding(visit, peer, title):
    rows = [
        [
            name.removeprefix("decode ").replace("seqlens=", "queries/keys "),
            ms(visit, name), f"{visit.value(name, member='kv_tb_per_s'):.2f}",
            ms(visit, name, peer), ratio(visit, name, peer),
        ]
        for name in visit.names
        if name.startswith("decode") and visit.has(name, OURS, peer)
    ]  # fmt: skip
    return grid(["decode", "attnjit, ms", "TB/s of k and v", f"{title}, ms", "ratio"], rows)


def decode_visit():
    return newest("decode.json", "decode-cudnn.json")


def forward_decode():
    return about(decode_visit(), "in turns with cuDNN;") + decoding(decode_visit(), "cudnn", "cuDNN")


def forward_decode_fa2():
    return about(forward_visit(), "path mma;") + decoding(forward_visit(), "flash", "FA2")


def forward_top_bias():
    visit = newest("top-bias-[0-9].json", "top-bias-cudnn-[0-9].json")
    other = newest("top-bias-peers.json")

    def us(of, name, which):
        return f"{1000 * of.value(name, which):.1f}"

    rows = [
        [name, us(visit, name, OURS), us(visit, name, "cudnn"), ratio(visit, name, "cudnn"), us(other, name, "efficient")]
        for name in visit.names
    ]
    day = other.dates()[0]
    header = ["microseconds", "attnjit", "cuDNN", "ratio", f"efficient, {day}"]
    return about(visit, "in turns with cuDNN; medians of", ("efficient", other)) + grid(header, rows)


def backward_visit():
    return newest("backward.json", "backward-peers.json", "backward-flex.json")


def backward_dense():
    visit = backward_visit()
    return about(visit, "path mma;") + pair_table(visit, "flash", "FA2")


def operands_of_backward(visit, names, peers):
    header = ["row", "attnjit, ms", "TFLOP/s"]
    header += [cell for title in peers.values() for cell in (f"{title}, ms", "ratio")]
    rows = []
    for name in names:
        cells = [name.replace(" backward", ""), ms(visit, name), tflops(visit, name)]
        for peer in peers:
            cells += [ms(visit, name, peer), ratio(visit, name, peer)]
        memory = [visit.value(name, member="workspace_bytes"), visit.value(name, "efficient", "peak_bytes")]
        rows.append(cells + [mebibytes(count) for count in memory])
    return grid([*header, "workspace, MiB", "memory of efficient, MiB"], rows)


def backward_operands():
    visit = backward_visit()
    names = [name for name in visit.names if name.startswith(("dbias", "mask"))]
    text = operands_of_backward(visit, names, {"efficient": "efficient", "flex": "FlexAttention"})
    return about(visit, "path mma;") + text


def backward_top_bias():
    visit = backward_visit()
    names = [name for name in visit.names if name.startswith(("top-bias", "band"))]
    return about(visit, "path mma;") + operands_of_backward(visit, names, {"efficient": "efficient"})


def visits_with(*rows):
    """Of each model of GPU the newest file of users.py that has these rows, newest first."""
    return newest_files("users*.jsonl", [f"{row} {step}" for row in rows for step in ("forward", "backward")])


def users():
    visits = {visit.about["date"]: visit for visit in visits_with(TRAINING) + visits_with(*WINDOWS)}
    return "\n".join(users_table(visits[date]) for date in sorted(visits, reverse=True))


def users_table(visit):
    """Of each problem the milliseconds of forward and backward, ours and the peers'."""

    def both(problem, which):
        names = [f"{problem} {step}" for step in ("forward", "backward")]
        return ", ".join(ms(visit, name, which) for name in names) if visit.has(names[0], which) else ""

    rows = []
    for name in visit.names:
        problem = name.removesuffix(" forward")
        if problem == name:
            continue
        ratios = [ratio(visit, f"{problem} {step}", "efficient") for step in ("forward", "backward")]
        ours, peer = (visit.results(f"{problem} forward", which)[0]["errors"] for which in (OURS, "efficient"))
        rows.append([
            problem, both(problem, OURS), both(problem, "prepared"), both(problem, "efficient"), ", ".join(ratios),
            both(problem, "cudnn") or both(problem, "eager"),
            ", ".join(f"{ours[output] / peer[output]:.2f}" for output in ("out", "dq")),
        ])  # fmt: skip
    header = ["row", "attnjit", "mask prepared", "efficient", "ratio", "cuDNN (f), eager (g)", "errors of out, dq"]
    return about(visit, "through PyTorch;") + grid(header, rows)


def odd_backward():
    ours, portable = (newest(f"odd-backward-{path}.json") for path in ("wgmma", "mma"))
    rows = []
    for name in ours.names:
        gain = f"{portable.value(name) / ours.value(name):.2f}" if ours.has(name, OURS) else ""
        rows.append([name.replace(" backward", ""), ms(ours, name) or "not served", ms(portable, name), gain])
    header = ["row", "path wgmma, ms", "path mma, ms", "ratio"]
    return about(ours, "path wgmma", ("path mma", portable)) + grid(header, rows)


FEATURES = ("plain", "sink", "softcap", "alibi", "row_max")


def feature_cost():
    visit = newest("features.json")
    shapes = [f"head_dim={d} seqlens={length}/{length}" for d in (64, 128) for length in (2048, 8192)]
    rows = []
    for feature in [*FEATURES, *(f"{feature} backward" for feature in FEATURES)]:
        plain = "plain backward" if feature.endswith("backward") else "plain"
        if not visit.has(f"{feature} {shapes[0]}", OURS):
            continue
        cells = [tflops(visit, f"{feature} {shape}") for shape in shapes]
        if feature != plain:
            shares = [visit.value(f"{plain} {shape}") / visit.value(f"{feature} {shape}") for shape in shapes]
            cells = [f"{cell} ({share:.2f})" for cell, share in zip(cells, shares)]
        rows.append([feature, *cells])
    header = ["B2 H16 causal", *(f"D{d} L{length}" for d in (64, 128) for length in (2048, 8192))]
    return about(visit, "") + grid(header, rows)


def layers():
    """Layers of models beside each peer, a table for each visit; windows were shared out anew before the second."""
    peers = [
        ("fa4", "FlashAttention-4", newest("features.json", "features-fa4.json")),
        ("fa4", "FlashAttention-4", newest("gpt-oss-windows-1.json", "gpt-oss-windows-fa4-1.json")),
        ("cudnn", "cuDNN", newest("gpt-oss.json", "gpt-oss-cudnn.json")),
        ("flex", "FlexAttention", newest("gemma.json", "gemma-flex.json")),
    ]
    return "\n".join(
        about(visit, "")
        + grid(
            ["layer", f"attnjit / {title}", "ratio"],
            [
                [name, f"{tflops(visit, name)} / {tflops(visit, name, peer)}", ratio(visit, name, peer)]
                for name in visit.names
                if name.startswith(("gpt-oss", "Gemma")) and visit.has(name, OURS, peer)
            ],
        )
        for peer, title, visit in peers
    )


def packed():
    visit = newest("packed.json", "packed-cudnn.json", "packed-flex.json")
    other = newest("packed-fa4.json")
    rows = []
    for name in visit.names:
        cells = [name, tflops(visit, name)]
        for peer in ("cudnn", "flex"):
            cells += [tflops(visit, name, peer), ratio(visit, name, peer)]
        rows.append([*cells, tflops(other, name, "fa4")])
    header = ["H16 D128 causal", "attnjit", "cuDNN", "ratio", "FlexAttention", "ratio", f"FA4, {other.dates()[0]}"]
    return about(visit, "", ("FlashAttention-4 (FA4)", other)) + grid(header, rows)


def paged():
    visit = newest("paged.json", "paged-fa4.json")
    pages = ("keys in a row", "pages of 16", "pages of 64", "pages of 128")
    rows = []
    for group in dict.fromkeys(re.split(r", (?:keys|pages)", name)[0] for name in visit.names):
        for which, title in ((OURS, "attnjit"), ("fa4", "FlashAttention-4")):
            names = [f"{group}, {page}" for page in pages]
            if visit.has(names[0], which):
                rates = [f"{visit.value(name, which, 'kv_tb_per_s'):.2f}" for name in names]
                if group.startswith("chunk"):
                    rates = [f"{tflops(visit, name, which)} TFLOP/s" for name in names]
                rows.append([group, title, *rates])
    shared = "decode 64 x 4096, pages of 64, a prefix of 3072 in common"
    for which, title in ((OURS, "attnjit"), ("fa4", "FlashAttention-4")):
        rows.append([
            "decode 64 x 4096, 3072 keys in common", title, "", "", f"{visit.value(shared, which, 'kv_tb_per_s'):.2f}", "",
        ])  # fmt: skip
    return about(visit, "") + grid(["32/8 heads, D128, TB/s of k and v", "", *pages], rows)


def prepared_mask():
    visit = newest("prepared-mask.json")
    rows = []
    for name in visit.names:
        if name.endswith("prepared_mask=false"):
            after = name.replace("false", "true")
            gain = f"{visit.value(name) / visit.value(after):.2f}"
            rows.append([name.removesuffix(" prepared_mask=false"), ms(visit, name), ms(visit, after), gain])
    return about(visit, "") + grid(["B1 H16, ms", "packed in each call", "prepared", "ratio"], rows)


def dense_fa4():
    visit = newest("hopper-forward.json", "hopper-forward-fa4.json")
    return about(visit, "") + pair_table(visit, "fa4", "FA4")


PAGES = {
    "hopper-forward": {"hopper-forward": lambda: hopper("forward")},
    "hopper-backward": {
        "hopper-backward": lambda: hopper("backward"),
        "hopper-backward-dbias": hopper_dbias,
        "users": users,
        "odd-backward": odd_backward,
    },
    "forward": {
        "forward-dense": forward_dense,
        "forward-operands": forward_operands,
        "forward-decode": forward_decode,
        "forward-decode-fa2": forward_decode_fa2,
        "forward-top-bias": forward_top_bias,
    },
    "backward": {
        "backward-dense": backward_dense,
        "backward-operands": backward_operands,
        "backward-top-bias": backward_top_bias,
    },
    "features": {
        "feature-cost": feature_cost,
        "layers": layers,
        "packed": packed,
        "paged": paged,
        "prepared-mask": prepared_mask,
        "dense-fa4": dense_fa4,
    },
}


def readme_rows():
    """The rows of README.md's table, by their first cell."""
    forward, backward = (hopper_visit(direction) for direction in ("forward", "backward"))
    training, windows, decode = visits_with(TRAINING)[0], visits_with(*WINDOWS)[0], decode_visit()
    triangles = newest_files("triangles.json", [f"{TRIANGLES} forward"])[0]

    def causal(visit, name):
        return " / ".join(ratio(visit, f"{name} causal={c}", "cudnn") for c in ("false", "top_left"))

    def operands(visit, direction):
        names = [f"{operand}{direction} {operand}={pattern}" for operand, pattern in (("mask", "b1qk"), ("bias", "bhqk"))]
        return ", ".join(ratio(visit, name, "cudnn") for name in names)

    def trained(step):
        name = f"{TRAINING} {step}"
        return f"{three_digits(training.ratio(name, 'efficient'))} ({ms(training, name)} ms)"

    def device(visit, page):
        return f"[{visit.model()}](docs/results/{page})"

    cuequivariance = "cuEquivariance " + triangles.about["cuequivariance"].removesuffix(".0")
    cudnn = "cuDNN " + cudnn_version(forward).removesuffix(".0")
    decoded = [name for name in decode.names if name.startswith("decode B16")]
    return {
        "dense, D128, 8k tokens, full / causal": [
            causal(forward, "dense D128 L8192"), causal(backward, "dense D128 L8192 backward"),
            f"{cudnn}, {device(forward, 'hopper-forward.md#figures')}",
        ],
        "grouped heads 32/8, D128, 8k tokens, full / causal": [
            causal(forward, "gqa D128 L8192"), causal(backward, "GQA L8192 backward"), "the same",
        ],
        "a mask, or a bias, per query and key, D128, 4k tokens": [
            operands(forward, ""), operands(backward, " backward"),
            f"{cudnn}, the operand as its bias, {device(backward, 'hopper-backward.md#figures')}",
        ],
        "mask, bias and its gradient, causal, D128, 4k tokens": [
            trained("forward"), trained("backward"),
            f"PyTorch's efficient backend, {device(training, 'hopper-backward.md#with-a-mask-and-a-bias')}",
        ],
        "Swin: 32 images, 64 windows of 49 or 64 tokens, with the bias's gradient": [
            *(", ".join(ratio(windows, f"{w} {step}", "efficient") for w in WINDOWS) for step in ("forward", "backward")),
            f"PyTorch's efficient backend, {device(windows, 'hopper-backward.md#with-a-mask-and-a-bias')}",
        ],
        "AlphaFold's triangles: 384 residues, 4 heads of D32, an fp32 bias with its gradient": [
            *(ratio(triangles, f"{TRIANGLES} {step}", "cuequivariance") for step in ("forward", "backward")),
            f"{cuequivariance}, [{triangles.model()}](docs/guide/doors.md#cuequivariances-triangle_attention)",
        ],
        "decode: 16 sequences of 8k keys, 32/8 heads, 1 or 4 queries": [
            ", ".join(ratio(decode, name, "cudnn") for name in decoded), "",
            f"{cudnn}, {device(decode, 'forward.md#decoding')}",
        ],
    }  # fmt: skip


def with_rows(text, rows):
    for label, cells in rows.items():
        pattern = re.compile(rf"^\| {re.escape(label)} \|.*$", re.MULTILINE)
        if not pattern.search(text):
            raise SystemExit(f"report: README.md has no row '{label}'")
        text = pattern.sub(lambda _, row=f"| {label} | {' | '.join(cells)} |": row, text)
    return text


def with_blocks(page, text, blocks):
    names = [match[2] for match in BLOCK.finditer(text)]
    if sorted(names) != sorted(blocks):
        raise SystemExit(f"report: {page.relative_to(ROOT)} has blocks {names}; expected {list(blocks)}")
    return BLOCK.sub(lambda match: f"{match[1]}\n{blocks[match[2]]()}\n{match[3]}", text)


def reports():
    """What each file should be."""
    pages = {ROOT / f"docs/results/{name}.md": blocks for name, blocks in PAGES.items()}
    found = {page: with_blocks(page, page.read_text(), blocks) for page, blocks in pages.items()}
    readme = ROOT / "README.md"
    found[readme] = with_rows(readme.read_text(), readme_rows())
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 where a file is stale")
    arguments = parser.parse_args()
    found = reports()
    stale = [page for page, text in found.items() if page.read_text() != text]
    if arguments.check:
        for page in stale:
            print(f"{page.relative_to(ROOT)}: its figures are not those of bench/results; run bench/report.py")
        return 1 if stale else 0
    for page in stale:
        page.write_text(found[page])
    print(f"{len(stale)} of {len(found)} files changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
