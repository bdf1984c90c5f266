"""Tests of what attnjit has no door for are left out: fp8, fp32, other versions of FlashAttention, and the shapes of
vLLM's own tiles. On CPU tensors few pages are enough."""

import os

import pytest
import suite
import torch

ON_CPU = os.environ.get("SUITE_ON_CPU")
if ON_CPU:
    import cpu_kernels

    cpu_library = cpu_kernels.install()
    torch.set_default_device = lambda device: None

LEFT_OUT = ("test_kv_tile_width_is_gated_by_platform", "test_rdna_narrows_the_kv_tile_and_nothing_else")


def why_skipped(values):
    if values.get("q_dtype") is not None:
        return "attnjit has no fp8"
    if values.get("dtype") == torch.float32:
        return "attnjit has no fp32"
    if values.get("fa_version", 2) != 2:
        return "attnjit is one version, which takes the tests of FlashAttention 2"
    if ON_CPU and values.get("num_blocks", 0) > 4096:
        return "too much memory for CPU tensors"
    return None


def family(item):
    values = getattr(item, "callspec", None) and item.callspec.params
    return f"{item.function.__name__} {values and [values.get(name) for name in ('head_size', 'num_heads', 'H_KV')]}"


def pytest_collection_modifyitems(config, items):
    suite.keep(config, items, suite.mine([i for i in items if i.function.__name__ not in LEFT_OUT], family))
    for item in items:
        if hasattr(item, "callspec") and (reason := why_skipped(item.callspec.params)):
            item.add_marker(pytest.mark.skip(reason=reason))
