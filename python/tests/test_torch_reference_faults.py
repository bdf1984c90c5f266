"""Calls that attnjit.reference.attention refuses, by name."""

import math

import pytest
import torch

import attnjit

from reference_calls import DV, HKV, LK, LQ, B, D, H, tensors


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"q": [1]}, TypeError, "q: expected a tensor, not list"),
        ({"mask": [True]}, TypeError, "mask: expected a tensor, not list"),
        ({"seqlens_kv": torch.ones(B)}, TypeError, "seqlens_kv: dtype is torch.float32; expected int32"),
        ({"k": torch.randn(B, 3, LK, D)}, ValueError, "heads"),
        ({"k": torch.randn(HKV, LK, D)}, ValueError, "k: it has 3 axes; expected .batch, head"),
        ({"q": torch.randn(LQ, D)}, ValueError, "q, k, v: shapes are"),
        (
            {"q": torch.randn(B, H, LQ, 264), "k": torch.randn(B, HKV, LK, 264)},
            ValueError,
            "q: feature axis is 264; expected 1 to 256",
        ),
        (
            {"v": torch.randn(B, HKV, LK, DV).half()},
            ValueError,
            "v: dtype is torch.float16; expected torch.float32",
        ),
        (
            {"mask": torch.ones(3, LQ, LK, dtype=torch.bool)},
            ValueError,
            "mask: head axis is 3; expected 1, 2",
        ),
        (
            {"mask": torch.ones(LQ + 1, LK, dtype=torch.bool)},
            ValueError,
            "mask: query axis is 4; expected 1 or 3",
        ),
        ({"bias": torch.randn(LQ, LK + 1)}, ValueError, "bias: key axis is 6; expected 1 or 5"),
        ({"bias": torch.ones(LQ, LK, dtype=torch.bool)}, ValueError, "bias: dtype is bool"),
        (
            {"bias": torch.ones(LQ, LK).half()},
            ValueError,
            "bias: dtype is torch.float16; expected torch.float32",
        ),
        ({"sink": torch.randn(H + 1)}, ValueError, "sink"),
        ({"alibi_slopes": torch.randn(H)}, ValueError, "diagonal: unspecified with alibi_slopes"),
        ({"tail_mask": torch.ones(2, 2, dtype=torch.bool)}, ValueError, "tail_mask: shape is .2, 2."),
        ({"cu_seqlens_q": torch.ones(2).int()}, ValueError, "cu_seqlens"),
        ({"scale": math.nan}, ValueError, "scale"),
        ({"softcap": -1.0}, ValueError, "softcap"),
        ({"causal": True}, ValueError, "causal: True; expected None"),
        ({"keep": "j < n"}, ValueError, "n is no index, function or operand"),
        ({"score": "s + x[0]", "operands": {"x": torch.ones(0)}}, ValueError, "operand x: axis 0 is 0"),
        ({"bias": torch.ones(LQ, LK, device="meta")}, ValueError, "bias: it is on meta; q is on cpu"),
    ],
)
def test_what_is_refused(change, error, message):
    q, k, v = tensors(torch.float32)
    with pytest.raises(error, match=message):
        attnjit.reference.attention(**{"q": q, "k": k, "v": v} | change)
