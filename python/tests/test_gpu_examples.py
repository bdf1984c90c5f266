"""Every script of examples/python runs to its end."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "python").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example):
    if example.stem.startswith("hf_"):
        pytest.importorskip("transformers", minversion="5")
    child = subprocess.run([sys.executable, example], capture_output=True, text=True, timeout=300)
    assert child.returncode == 0, child.stderr
