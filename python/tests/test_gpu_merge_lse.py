"""attnjit.merge_lse on a GPU."""

import math

import pytest
import torch

import attnjit

import formulas

pytestmark = pytest.mark.gpu

UNITS = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-20}


def parts_of(parts, rows, width, dtype, seed=0):
    """Random parts; a third of the rows of each is dead and NaN, every fifth row in all of them."""
    generator = torch.Generator("cuda").manual_seed(seed)
    make = lambda *shape: torch.randn(shape, generator=generator, device="cuda")
    lses = 9 * make(parts, 2, 3, rows)
    lses[make(parts, 2, 3, rows) > 0.4] = -math.inf
    lses[..., ::5] = -math.inf
    outs = make(parts, 2, 3, rows, width).masked_fill(lses.isinf()[..., None], math.nan)
    return outs.to(dtype), lses


def assert_merged(found, outs, lses, merges=1):
    """One merge of fp32 gets lse and out right but for their own rounding. Of several, one after another, each but the
    last leaves an lse that is off by half an ulp, and the next ones weigh its sum by it: the logarithms of the parts'
    weights are off by d = (merges - 1) ulp / 2 at most, out by d sum_s w_s (|out_s| + |out|) <= 2 d sum_s w_s |out_s|."""
    out, lse = found
    exact, exact_lse = formulas.merge_lse(outs, lses)
    of_parts, _ = formulas.merge_lse(outs.abs(), lses)
    largest = exact_lse[exact_lse.isfinite()].abs().max().item()
    off = (merges - 1) * 2.0 ** (math.frexp(largest)[1] - 24) / 2
    torch.testing.assert_close(lse.double(), exact_lse, rtol=1e-6, atol=1e-5 + off)
    allowed = UNITS[out.dtype] * (1 + exact.abs()) + 2 * off * of_parts
    worst = ((out.double() - exact).abs() / allowed).max().item()
    assert worst <= 1, f"out: the error is {worst:.2f} of what is allowed"


@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("part_dtype", UNITS)
def test_dtypes_and_carry(part_dtype, dtype):
    outs, lses = parts_of(4, 77, 64, part_dtype)
    assert_merged(attnjit.merge_lse(outs, lses, dtype=dtype), outs, lses)
    first = attnjit.merge_lse(outs[:2], lses[:2], dtype=torch.float32)
    merged = attnjit.merge_lse(outs[2:], lses[2:], carry=first, dtype=dtype)
    assert_merged(
        merged, torch.cat([first[0][None], outs[2:].float()]), torch.cat([first[1][None], lses[2:]])
    )


@pytest.mark.parametrize("width", [1, 8, 33, 40, 100, 128, 256, 264, 512, 520, 531, 2056])
def test_widths_and_strides(width):
    outs, lses = parts_of(3, 50, width, torch.bfloat16)
    assert_merged(attnjit.merge_lse(outs, lses), outs, lses)
    apart = torch.zeros(3, 2, 50, 3, width + 3, dtype=outs.dtype, device="cuda").transpose(2, 3)[..., 1:-2]
    apart.copy_(outs)
    target = torch.empty(2, 50, 3, width, dtype=outs.dtype, device="cuda").transpose(1, 2)
    assert_merged(attnjit.merge_lse(apart, lses, out=target), outs, lses)


@pytest.mark.parametrize("width", [128, 520, 2056])
def test_a_sum_that_goes_on_where_it_lies(width):
    outs, lses = parts_of(64, 1000, width, torch.bfloat16)
    out, lse = attnjit.merge_lse(outs[:1], lses[:1], dtype=torch.float32)
    for part in range(1, 64):
        attnjit.merge_lse(outs[part : part + 1], lses[part : part + 1], carry=(out, lse), out=out, lse=lse)
    assert_merged((out, lse), outs, lses, merges=64)


def test_a_captured_merge():
    outs, lses = parts_of(3, 200, 64, torch.float16)
    expected = attnjit.merge_lse(outs, lses)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = attnjit.merge_lse(outs, lses)
    graph.replay()
    assert all(torch.equal(a, b) for a, b in zip(found, expected))
