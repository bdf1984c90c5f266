"""attnjit.prepare_mask on a GPU."""

import pytest
import torch
from torch.testing import assert_close

import attnjit
from attnjit.reference._planes import mask_of_bits

pytestmark = pytest.mark.gpu


def call(mask_shape, head_dim=64):
    torch.manual_seed(1)
    q, k, v = (
        torch.randn(2, h, n, head_dim, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        for h, n in ((8, 200), (2, 330), (2, 330))
    )
    return q, k, v, torch.rand(mask_shape, device="cuda") < 0.6


@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("shape", [(2, 8, 200, 330), (1, 2, 200, 330), (2, 1, 1, 330)], ids=str)
def test_a_prepared_mask_is_the_mask(shape, head_dim):
    q, k, v, mask = call(shape, head_dim)
    prepared = attnjit.prepare_mask(mask, backward=True)
    assert torch.equal(mask_of_bits(prepared.data, (*prepared.shape, 1)), mask)
    results = []
    for given in (mask, prepared):
        out = attnjit.attention(q, k, v, mask=given)
        results.append((out, *torch.autograd.grad(out.float().square().sum(), (q, k, v))))
    for plain, packed in zip(*results):
        assert_close(packed, plain, rtol=2e-2, atol=2e-2)


def test_a_captured_graph_sees_a_mask_that_is_prepared_anew():
    q, k, v, mask = call((1, 1, 200, 330))
    prepared = attnjit.prepare_mask(mask)
    with torch.no_grad():
        attnjit.attention(q, k, v, mask=prepared)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = attnjit.attention(q, k, v, mask=prepared)
        other = torch.rand_like(mask, dtype=torch.float32) < 0.3
        torch.ops.attnjit.prepare_mask(other, False, prepared.data)
        graph.replay()
        assert_close(out, attnjit.attention(q, k, v, mask=other))


def test_a_backward_wants_bits_by_keys():
    q, k, v, mask = call((1, 1, 200, 330))
    out = attnjit.attention(q, k, v, mask=attnjit.prepare_mask(mask))
    with pytest.raises(ValueError, match="prepare it with for_backward"):
        out.sum().backward()
