"""Tests that need PyTorch skip where it is missing, and those marked gpu where there is no GPU. Without a GPU
the rest runs on CPU tensors, by kernels made from the formulas."""

import importlib.util
import os

import pytest

os.environ.setdefault("DISABLE_AUTOTUNE", "1")

HAS_TORCH = importlib.util.find_spec("torch") is not None
# Files that import PyTorch at their top.
collect_ignore_glob = [] if HAS_TORCH else ["test_torch_*.py", "test_gpu_*.py"]


def pytest_collection_modifyitems(items):
    if not HAS_TORCH:
        return
    import torch

    if not torch.cuda.is_available():
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="there is no GPU"))


def pytest_report_header():
    return None if HAS_TORCH else "without PyTorch: test_torch_* and test_gpu_* are skipped"


@pytest.fixture
def cpu_kernels():
    """The operators on CPU tensors."""
    import cpu_kernels

    library = cpu_kernels.install()
    yield
    library._destroy()
