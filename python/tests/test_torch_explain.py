"""attnjit.explain on tensors of the CPU and of no device."""

import pytest
import torch

import attnjit

B, H, L, D = 4, 16, 1024, 64


def tensors(device="meta"):
    return [torch.empty(B, H, L, D, dtype=torch.bfloat16, device=device) for _ in range(3)]


def test_what_binds_and_what_to_try():
    bias = torch.empty(B, H, L, L, dtype=torch.float32, device="meta")
    why = attnjit.explain(*tensors(), bias=bias)
    assert why["device"] == "NVIDIA H200" or torch.cuda.is_available()
    assert why["binds"] == "memory"
    assert why["bytes"]["bias"] == 4 * B * H * L * L
    assert [action["what"][:24] for action in why["actions"]] == [
        "if all batch elements ha",
        "pass the bias in bf16 in",
    ]
    assert str(why).splitlines()[1].startswith("  problem    bf16 b4 h16/16")
    assert "try        pass the bias in bf16" in str(why)


def test_an_expanded_bias_is_one_plane_in_memory():
    bias = torch.empty(1, H, L, L, dtype=torch.bfloat16, device="meta")
    whole = attnjit.explain(*tensors(), bias=bias)
    expanded = attnjit.explain(*tensors(), bias=bias.expand(B, H, L, L))
    assert expanded["bytes"] == whole["bytes"]
    assert not expanded["actions"] and "try        nothing" in str(expanded)


def test_rows_that_are_not_aligned():
    q, k, v = tensors("cpu")
    odd = torch.empty(1, H, L, L + 1, dtype=torch.bfloat16)[..., 1:]
    actions = attnjit.explain(q, k, v, bias=odd)["actions"]
    assert actions[0]["what"].startswith("pass the bias with rows of 16 bytes: pad its last axis to 1024 elements")


def test_gradients_and_that_of_the_bias():
    q, k, v = tensors()
    bias = torch.empty(1, H, L, L, dtype=torch.bfloat16, device="meta")
    without = attnjit.explain(q, k, v, bias=bias, causal="top-left", backward=True)
    why = attnjit.explain(q, k, v, bias=bias.requires_grad_(), causal="top-left", backward=True, deterministic=True)
    assert "dbias" in why["bytes"] and "dbias" not in without["bytes"]
    assert why["expected_ms"] > without["expected_ms"] > 0
    assert "attn_bwd_dkv" in why["kernels"]
    assert why["profile"]["deterministic"] and not without["profile"]["deterministic"]


def test_rows_that_a_call_copies():
    q, k, v = tensors()
    why = attnjit.explain(q.transpose(2, 3).contiguous().transpose(2, 3), k, v)
    assert why["copied"] == ["q"]
    assert "try        make the elements of a row of q neighbours" in str(why)
    assert "try        nothing" not in str(why)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dropout": 0.1}, TypeError, "explain: 'dropout' is no argument of attention"),
        ({"window": (4, 4)}, ValueError, "window: say diagonal"),
        ({"bias": torch.empty(3, H, L, L, dtype=torch.bfloat16)}, ValueError, "bias"),
    ],
)
def test_what_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        attnjit.explain(*tensors(), **options)


def test_more_batch_axes_are_refused():
    with pytest.raises(ValueError, match="q: it has 5 axes"):
        attnjit.explain(*(t[None] for t in tensors()))
