"""The package as it lies on disk: import without PyTorch, its files, its command line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import attnjit
from attnjit import _nvrtc

ROOT = Path(__file__).parents[2]


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_import_needs_neither_torch_nor_a_gpu():
    code = "import sys; sys.modules['torch'] = None; import attnjit; print(attnjit.__version__); attnjit.attention"
    child = run(code)
    version = (ROOT / "CMakeLists.txt").read_text().split("project(attnjit VERSION ")[1].split()[0]
    assert child.stdout.strip() == version == attnjit.__version__
    assert "torch" in child.stderr.splitlines()[-1]


def test_names():
    assert {*attnjit.__all__, "hf", "torch"} <= set(dir(attnjit))
    with pytest.raises(AttributeError, match="has no attribute 'attend'"):
        attnjit.attend  # noqa: B018


def test_types_are_declared():
    assert (Path(attnjit.__file__).parent / "py.typed").is_file()


def test_nvrtc_of_a_wheel(tmp_path, monkeypatch):
    monkeypatch.delenv("ATTNJIT_NVRTC", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    assert _nvrtc.find() is None
    for folder, name in (("cuda_nvrtc/lib", "libnvrtc.so.12"), ("cu13/lib", "libnvrtc.so.13")):
        library = tmp_path / "nvidia" / folder / name
        library.parent.mkdir(parents=True)
        library.touch()
        assert _nvrtc.find() == str(library)
    monkeypatch.setenv("ATTNJIT_NVRTC", "/elsewhere/libnvrtc.so")
    assert _nvrtc.find() is None


def test_command_line(tmp_path):
    command = tmp_path / "attnjit"
    command.write_text('#!/bin/sh\necho "$@"\n')
    command.chmod(0o755)
    code = "import sys; sys.argv = ['attnjit', 'doctor', '--json']; import attnjit.__main__ as m; m.main()"
    if not (Path(attnjit.__file__).parent / "bin" / "attnjit").is_file():
        assert run(code, PATH=f"{tmp_path}:{os.environ['PATH']}").stdout == "doctor --json\n"
        assert "neither this package nor PATH has the command line" in run(code, PATH=str(tmp_path.parent)).stderr
    else:
        assert '"NVRTC"' in run(code).stdout
