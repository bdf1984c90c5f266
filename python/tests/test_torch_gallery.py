"""The blocks of Python in docs/gallery.md: as they are on a GPU, and else small on CPU tensors."""

import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))
from snippets import blocks_of, small_on_cpu

torch = pytest.importorskip("torch")
PAGE = ROOT / "docs/gallery.md"
TEXT = PAGE.read_text()
SETUP, *ENTRIES = (block for block in blocks_of(TEXT) if block.language == "python")


def title(block) -> str:
    return re.findall(r"^## (.*)$", TEXT[: block.span[0]], re.MULTILINE)[-1]


def run(*codes: str) -> None:
    namespace = {}
    for code in codes:
        exec(compile(code, str(PAGE), "exec"), namespace)  # noqa: S102  the page is ours


@pytest.mark.parametrize("block", ENTRIES, ids=title)
def test_entry_on_cpu_tensors(block, cpu_kernels):
    small = small_on_cpu(TEXT, block)
    assert small.partition("\n")[0] != block.code.partition("\n")[0], "no sizes for a CPU ahead of the block"
    run(small_on_cpu(TEXT, SETUP), small)


@pytest.mark.gpu
@pytest.mark.parametrize("block", ENTRIES, ids=title)
def test_entry_on_a_gpu(block):
    run(SETUP.code, block.code)


def test_every_kind_of_attention_has_an_entry():
    assert len(re.findall(r"^## ", TEXT, re.MULTILINE)) == 10
    assert len(ENTRIES) == 9  # and one in C++
