"""The NVRTC that PyTorch's wheels bring along."""

import importlib.util
import os
from pathlib import Path

# Newest first: the folder below `nvidia/` and the file in it, of the wheels for CUDA 13 and 12.
_PLACES = (("cu13/lib", "libnvrtc.so.13"), ("cuda_nvrtc/lib", "libnvrtc.so.12"))


def find() -> str | None:
    """The path of libnvrtc in an installed wheel, or None where the library is to search by itself: where
    ATTNJIT_NVRTC names one, and where there is no such wheel."""
    if os.environ.get("ATTNJIT_NVRTC"):
        return None
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or ())] if spec else []
    for folder, name in _PLACES:
        for root in roots:
            if (path := root / folder / name).is_file():
                return str(path)
    return None
