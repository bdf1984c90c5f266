"""Blocks of code in Markdown pages, for scripts/run-snippets and the site."""

import dataclasses
import json
import re

SIZES = re.compile(r"<!-- on a CPU: (.*) -->\n\n```python\n\Z")
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclasses.dataclass
class Block:
    language: str
    code: str
    line: int  # of the page, of the code's first line
    span: tuple[int, int]  # of the code in the page's text


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [Block(m[1], m[2], text.count("\n", 0, m.start(2)) + 1, m.span(2)) for m in FENCE.finditer(text)]


def small_on_cpu(text: str, block: Block) -> str:
    """A block of Python for a machine without a GPU: on CPU tensors, and with the sizes of the comment ahead of it,
    <!-- on a CPU: NAMES = NUMBERS -->, in the place of its first line."""
    code = block.code.replace('"cuda"', '"cpu"')
    sizes = SIZES.search(text[: block.span[0]])
    return f"{sizes[1]}\n{code.partition(chr(10))[2]}" if sizes else code


def notebook_of(text: str) -> str:
    """A page as a Jupyter notebook (nbformat 4.5): python blocks are code, what they print is left out."""
    cells, end = [], 0

    def add(kind: str, body: str) -> None:
        cell = {"id": f"cell-{len(cells)}", "cell_type": kind, "metadata": {}, "source": body.strip("\n")}
        cells.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))

    for match in FENCE.finditer(text):
        if match[1] not in ("python", "text"):
            continue
        if between := text[end : match.start()].strip():
            add("markdown", between)
        if match[1] == "python":
            add("code", match[2])
        end = match.end()
    if rest := text[end:].strip():
        add("markdown", rest)
    notebook = {"cells": cells, "metadata": {"kernelspec": KERNEL}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1) + "\n"
