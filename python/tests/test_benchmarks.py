"""The programs of bench/ are Python, and a test of them may need no more than that."""

from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.parametrize("program", sorted(BENCH.glob("*.py")), ids=lambda path: path.name)
def test_compiles(program):
    compile(program.read_text(encoding="utf-8"), program, "exec")
