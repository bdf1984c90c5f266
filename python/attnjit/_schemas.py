"""Defines the operators `torch.ops.attnjit`, whose schemas are in schemas.txt: by libattnjit_torch, where the package
has it, so that a program in C++ has the same ones, else by PyTorch's functions for Python."""

from pathlib import Path

import torch

_FOLDER = Path(__file__).resolve().parent
LIBRARY = _FOLDER / "lib" / "libattnjit_torch.so"


def schemas() -> dict[str, str]:
    """The arguments and results of each operator, by its name."""
    paragraphs = (_FOLDER / "schemas.txt").read_text().split("\n\n")
    lines = (" ".join(paragraph.split()) for paragraph in paragraphs)
    return {name: "(" + rest for name, _, rest in (line.partition("(") for line in lines)}


def define() -> None:
    """Once per process. Raises ImportError where another copy of the package has done so."""
    if str(LIBRARY) in torch.ops.loaded_libraries:
        return
    if hasattr(torch.ops.attnjit, "forward"):
        raise ImportError(
            "attnjit: another copy of the package is in use in this process and has defined torch.ops.attnjit;"
            " use that one, or do not import it"
        )
    if LIBRARY.is_file():
        torch.ops.load_library(LIBRARY)
        return
    for name, schema in schemas().items():
        torch.library.define(f"attnjit::{name}", schema, tags=torch.Tag.pt2_compliant_tag)


define()
