"""Writes the page of the command line from what each verb's --help prints."""

import pathlib
import re
import subprocess

ROW = re.compile(r"^ {2}(\S.*?)(?: {2,}(\S.*))?$")
VERB = re.compile(r"^ {2}([a-z]+) {2,}\S", re.MULTILINE)
PROBLEM = "Problem:"


def help_of(attnjit: pathlib.Path, *verbs: str) -> str:
    return subprocess.run([attnjit, *verbs, "--help"], capture_output=True, text=True, check=True).stdout


def verbs_of(text: str) -> list[str]:
    return VERB.findall(text.partition("Subcommands:\n")[2])


def cell(text: str) -> str:
    return re.sub(r"([\\|*_\[\]])", r"\\\1", text).replace("<", "&lt;")


def table(block: str) -> str:
    """A table of the flags of one block; a flag that is too long for its column has its meaning on the next line."""
    rows = []
    for line in block.splitlines():
        if match := ROW.match(line):
            rows.append([match[1], match[2] or ""])
        elif line.strip() and rows:
            rows[-1][1] = f"{rows[-1][1]} {line.strip()}".strip()
    return "\n".join(["| | |", "| -- | -- |", *(f"| `{flag}` | {cell(meaning)} |" for flag, meaning in rows)])


def blocks(text: str) -> dict[str, str]:
    """The titled blocks of a help text: "Options:" and its lines, and so on."""
    parts = re.split(r"^(\w+:)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def entry(attnjit: pathlib.Path, verbs: tuple[str, ...]) -> tuple[str, str]:
    """The section of a verb, with those of its own verbs, and the flags that say a problem, if it has them."""
    text = help_of(attnjit, *verbs)
    about, usage = text.split("\n", 2)[:2]
    parts = [
        f"{'#' * (1 + len(verbs))} attnjit {' '.join(verbs)}",
        cell(about),
        f"    {usage.removeprefix('Usage: ')}",
    ]
    found = blocks(text)
    problem = found.pop(PROBLEM, "")
    found.pop("Subcommands:", None)
    parts += [f"{title}\n\n{table(block)}" for title, block in found.items()]
    if problem:
        parts.append("And [the flags that say a problem](#problem).")
    parts += [entry(attnjit, (*verbs, verb))[0] for verb in verbs_of(text)]
    return "\n\n".join(parts), problem


def write_page(target: pathlib.Path, attnjit: pathlib.Path) -> None:
    """Writes the page; the flags of problems, which verbs share, come once."""
    entries = [entry(attnjit, (verb,)) for verb in verbs_of(help_of(attnjit))]
    problems = {problem.strip() for _, problem in entries if problem}
    if len(problems) != 1:
        raise ValueError(
            f"{len(problems)} lists of flags under {PROBLEM!r}; expected one that all verbs share"
        )
    opening = (
        "[The guide](../docs/guide/command-line.md) shows what the verbs are for, and has their exit codes."
    )
    parts = ["# The command line's flags", opening, *(text for text, _ in entries)]
    parts += ["## Problem", "What `plan`, `emit`, `run` and others take a problem by:", table(problems.pop())]
    target.write_text("\n\n".join(parts) + "\n")
