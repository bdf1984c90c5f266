"""A repository of the kernels hub, made of a wheel and loaded from disk by the package `kernels`. On a GPU it computes
there, else by the reference."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

import attnjit

SCRIPT = Path(__file__).parents[2] / "scripts" / "hub-kernel"
NAME = "attnjit-{}-cp310-abi3-manylinux_2_28_x86_64.whl"

LOADS = """
import os, sys, pathlib, torch, kernels
folder = sys.argv[1]
local = kernels.get_local_kernel(pathlib.Path(folder))
os.environ["LOCAL_KERNELS"] = f"someone/attnjit={folder}"
assert kernels.get_kernel("someone/attnjit", version=3) is local
assert local.__file__.startswith(folder)
(loaded,) = kernels.get_loaded_kernels()
assert (str(loaded.metadata.name), loaded.metadata.version) == ("attnjit", 3)
q = torch.randn(1, 2, 8, 16, dtype=torch.bfloat16)
expected = local.reference.attention(q, q, q, causal="top-left")
if torch.cuda.is_available():
    q = q.cuda()
    torch.testing.assert_close(local.attention(q, q, q, causal="top-left").cpu(), expected, rtol=0.02, atol=0.02)
else:
    try:
        local.attention(q, q, q)
    except ValueError as error:
        assert "attnjit computes on CUDA devices" in str(error)

import attnjit  # the copy that is installed
assert attnjit.__file__ != local.__file__
try:
    attnjit.attention
except ImportError as error:
    assert "another copy of the package is in use" in str(error)
    print(local.__version__)
"""


def make(wheel, folder, *more):
    return subprocess.run([sys.executable, SCRIPT, wheel, folder, *more], capture_output=True, text=True)


@pytest.fixture
def wheel(tmp_path):
    """The package that runs, and a licence, in an archive as wheels are."""
    package = Path(attnjit.__file__).parent
    path = tmp_path / NAME.format(attnjit.__version__)
    with zipfile.ZipFile(path, "w") as archive:
        for file in package.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, Path("attnjit") / file.relative_to(package))
        archive.writestr(f"attnjit-{attnjit.__version__}.dist-info/licenses/LICENSE", "a licence")
        archive.writestr(f"attnjit-{attnjit.__version__}.dist-info/RECORD", "")
    return path


def test_variants(wheel, tmp_path):
    folder = tmp_path / "repository"
    assert make(wheel, folder).returncode == 0
    variants = {path.name: path for path in (folder / "build").iterdir()}
    assert set(variants) == {f"torch-stable-abi211-cu{cuda}-x86_64-linux" for cuda in ("124", "130")}
    ids = set()
    for variant in variants.values():
        metadata = json.loads((variant / "metadata.json").read_text())
        assert metadata["name"] == "attnjit" and metadata["version"] == 1
        ids.add(metadata["id"])
        assert {path.name for path in variant.iterdir()} == {"attnjit", "licenses", "metadata.json"}
        assert (variant / "licenses" / "LICENSE").read_text() == "a licence"
        module = next((variant / "attnjit").glob("_native*.so"))
        assert os.access(module, os.X_OK)
    assert len(ids) == 2


def test_what_does_not_do(wheel, tmp_path):
    (tmp_path / "full" / "build").mkdir(parents=True)
    for given, folder, message in (
        (
            tmp_path / "other.whl",
            tmp_path / "new",
            "not a wheel of attnjit for Linux; make one with scripts/wheel",
        ),
        (tmp_path / NAME.format("9.9"), tmp_path / "new", "not a wheel of attnjit"),
        (wheel, tmp_path / "full", "it exists; remove it, or name another folder"),
    ):
        made = make(given, folder)
        assert made.returncode == 1 and message in made.stderr
    assert not (tmp_path / "new").exists()


def test_kernels_loads_it(wheel, tmp_path):
    pytest.importorskip("kernels")
    if torch.version.cuda is None:
        pytest.skip("this PyTorch was built without CUDA, for which there is no variant")
    folder = tmp_path / "repository"
    assert make(wheel, folder, "--version", "3").returncode == 0
    child = subprocess.run([sys.executable, "-c", LOADS, folder], capture_output=True, text=True, timeout=120)
    assert child.stdout.strip() == attnjit.__version__, child.stderr
