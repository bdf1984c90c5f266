"""attnjit.prepare_mask, with the formulas in the place of the kernels."""

import pytest
import torch
from torch.testing import assert_close

import attnjit
from attnjit.reference._planes import mask_of_bits

B, H, HKV, LQ, LK, D = 2, 4, 2, 70, 150, 16


def tensors(dtype=torch.float16):
    generator = torch.Generator().manual_seed(1)
    shapes = ((B, H, LQ, D), (B, HKV, LK, D), (B, HKV, LK, D))
    return [torch.randn(s, generator=generator).to(dtype).requires_grad_() for s in shapes]


def mask_of(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(2)) < 0.6


@pytest.mark.parametrize("shape", [(B, H, LQ, LK), (1, HKV, LQ, LK), (B, 1, 1, LK), (LQ, LK), (LK,)], ids=str)
def test_a_prepared_mask_is_the_mask(cpu_kernels, shape):
    q, k, v = tensors()
    mask = mask_of(*shape)
    prepared = attnjit.prepare_mask(mask, backward=True)
    assert_close(mask_of_bits(prepared.data, (*prepared.shape, 1)), mask[(None,) * (4 - mask.dim())])
    results = []
    for given in (mask, prepared):
        out = attnjit.attention(q, k, v, mask=given, causal="bottom-right")
        results.append((out, *torch.autograd.grad(out.square().sum(), (q, k, v))))
    for plain, packed in zip(*results):
        assert_close(packed, plain, rtol=0, atol=0)


def test_an_expanded_axis_is_prepared_once():
    mask = mask_of(1, 1, LQ, LK).expand(B, H, LQ, LK)
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True) as mode:
        prepared = attnjit.prepare_mask(mode.from_tensor(mask))
    assert prepared.shape == (1, 1, LQ, LK)
    # Eight words of 32 keys a row, and two tiles of rows by four of keys.
    assert prepared.data.shape == (LQ * 8 * 4 + 2 * 4,)
    assert not prepared.for_backward


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (torch.ones(3, 4), TypeError, "mask: dtype is torch.float32; expected bool"),
        (torch.ones(B, H, LQ, 1, dtype=torch.bool), ValueError, "the same for all keys"),
        (torch.ones(LQ, 1, dtype=torch.bool).expand(LQ, LK), ValueError, "the same for all keys"),
        (torch.ones(LQ, LK, dtype=torch.bool), ValueError, "it is on the CPU"),
    ],
)
def test_what_is_refused(mask, error, message):
    with pytest.raises(error, match=message):
        attnjit.prepare_mask(mask)


def test_memory_of_another_size_is_no_prepared_mask(cpu_kernels):
    q, k, v = tensors()
    prepared = attnjit.prepare_mask(mask_of(LQ, LK))
    wrong = prepared._replace(shape=(1, 1, LQ, LK + 128))
    with pytest.raises(ValueError, match="no prepared mask of shape"):
        attnjit.attention(q, k, v, mask=wrong)


@pytest.mark.parametrize("planes", [1, 2, 6])
@pytest.mark.parametrize("bias_batch", [None, (2, 1), (2, 3)], ids=str)
def test_more_batch_axes_count_as_one(cpu_kernels, planes, bias_batch):
    q, k, v = (t.detach()[:, None].expand(B, 3, -1, -1, -1).clone().requires_grad_() for t in tensors())
    mask = mask_of(planes, 1, LQ, LK)
    bias = None if bias_batch is None else torch.randn(*bias_batch, H, 1, LK, dtype=q.dtype)
    of_samples = mask.repeat_interleave(6 // planes, dim=0).unflatten(0, (2, 3))
    results = []
    for given in (of_samples, attnjit.prepare_mask(mask, backward=True)):
        out = attnjit.attention(q, k, v, mask=given, bias=bias)
        results.append((out, *torch.autograd.grad(out.square().sum(), (q, k, v))))
    for plain, packed in zip(*results):
        assert_close(packed, plain, rtol=0, atol=0)


def test_a_bias_of_later_batch_axes_beside_a_prepared_mask(cpu_kernels):
    q, k, v = (t.detach()[:, None].expand(B, 3, -1, -1, -1) for t in tensors())
    bias = torch.randn(1, 3, H, 1, LK, dtype=q.dtype)
    for planes in (1, 2):
        mask = mask_of(planes, H, LQ, LK)
        expected = attnjit.attention(q, k, v, mask=mask[:, None], bias=bias)
        found = attnjit.attention(q, k, v, mask=attnjit.prepare_mask(mask), bias=bias)
        assert_close(found, expected, rtol=0, atol=0)


def test_batch_axes_of_a_prepared_mask_that_q_lacks_are_refused(cpu_kernels):
    q, k, v = tensors()
    prepared = attnjit.prepare_mask(mask_of(1, B, 1, LQ, LK))
    assert prepared.shape == (B, 1, LQ, LK) and prepared.batch_axes == (1, B)
    with pytest.raises(ValueError, match="mask: it was prepared with 2 batch axes; q has one"):
        attnjit.attention(q, k, v, mask=prepared)
    with pytest.raises(ValueError, match="expected ones that broadcast to"):
        attnjit.attention(*(t[:, None].expand(-1, 3, -1, -1, -1) for t in (q, k, v)), mask=prepared)


def test_ranks_have_no_share_of_a_prepared_mask(cpu_kernels):
    q, k, v = tensors()
    with pytest.raises(TypeError, match="mask: a prepared one"):
        attnjit.context_parallel.attention(q, k, v, mask=attnjit.prepare_mask(mask_of(LQ, LK)))


def test_a_prepared_mask_in_compiled_code(cpu_kernels):
    q, k, v = tensors()
    prepared = attnjit.prepare_mask(mask_of(1, H, LQ, LK), backward=True)

    def step(q, k, v, mask):
        return attnjit.attention(q, k, v, mask=mask).sin().sum()

    def gradients(function):
        return torch.autograd.grad(function(q, k, v, prepared), (q, k, v))

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for found, expected in zip(gradients(compiled), gradients(step)):
        assert_close(found, expected)


def test_masks_are_prepared_in_compiled_code(cpu_kernels):
    q, k, v = tensors()
    mask = mask_of(LQ, LK)

    def step(mask):
        return attnjit.attention(q.detach(), k.detach(), v.detach(), mask=attnjit.prepare_mask(mask))

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    assert_close(compiled(mask), step(mask))


def test_the_operator_passes_opcheck(cpu_kernels):
    memory = torch.empty(LQ * 8 * 4 + 2 * 4, dtype=torch.uint8)
    torch.library.opcheck(
        torch.ops.attnjit.prepare_mask, (mask_of(1, 1, LQ, LK), False, memory),
        test_utils=("test_schema", "test_faketensor"),
    )  # fmt: skip
