"""What test_mem_eff_attention.py imports from here; the sdist has no tests/utils.py."""

import functools
import os

import pytest
import torch
from xformers.attn_bias_utils import ref_attention, ref_attention_bmhk

cuda_only = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
cuda_or_mtia_only = pytest.mark.skipif(
    not (torch.cuda.is_available() or os.environ.get("SUITE_ON_CPU")), reason="there is no GPU"
)
rocm_only = pytest.mark.skipif(torch.version.hip is None, reason="requires ROCm")
disable_on_rocm = pytest.mark.skipif(torch.version.hip is not None, reason="not for ROCm")


def disable_on_mtia(test):
    return test


def use_cpu_ref(device):
    return False


def disable_tf32(function):
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = False
        try:
            return function(*args, **kwargs)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    return wrapped


ref_attention_for_test = disable_tf32(ref_attention)
ref_attention_bmhk_for_test = disable_tf32(ref_attention_bmhk)


def construct_fp8_attention_inputs(*args, **kwargs):
    pytest.skip("fp8 keys: no door")


def assert_allclose(out, ref, msg="failed", atol=1e-8, rtol=1e-5):
    assert out.shape == ref.shape, f"{msg}: shape {tuple(out.shape)}, expected {tuple(ref.shape)}"
    if torch.allclose(out, ref, atol=atol, rtol=rtol):
        return
    excess = (out - ref).abs() - atol - ref.abs() * rtol
    excess = torch.where(out == ref, -1.0, excess.float())
    worst = int(excess.flatten().nan_to_num(nan=float("inf")).argmax())
    share = ((excess > 0) | excess.isnan()).float().mean().item()
    raise AssertionError(
        f"{msg}: out {out.flatten()[worst].item()} and ref {ref.flatten()[worst].item()} at {worst} of {tuple(out.shape)}"
        f" differ by more than {atol=} {rtol=}; {share:.2%} of the elements do; NaN in out: {out.isnan().sum().item()}"
    )
