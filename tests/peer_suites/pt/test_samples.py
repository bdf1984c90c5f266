"""The samples that PyTorch's own tests draw of scaled_dot_product_attention and MultiheadAttention, in its wheel, by
attnjit and by PyTorch. They need the package expecttest. Values lie between -9 and 9, so that most of a row's weight is
on one key and single numbers of gradients cancel: vectors are compared by their norm."""

import os

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db

import attnjit

ON_CPU = bool(os.environ.get("SUITE_ON_CPU"))
DEVICE, DTYPE = ("cpu", torch.float32) if ON_CPU else ("cuda", torch.bfloat16)
LIMIT = 1e-4 if ON_CPU else 0.02  # of the norm
if ON_CPU:
    import cpu_kernels

    cpu_library = cpu_kernels.install()

(SDPA,) = (op for op in op_db if op.name == "nn.functional.scaled_dot_product_attention")
(MHA,) = (module for module in module_db if module.module_cls is torch.nn.MultiheadAttention)
ATTENTION = list(SDPA.sample_inputs(DEVICE, DTYPE, requires_grad=True))
MODULES = [
    (training, sample)
    for training in (True, False)
    for sample in MHA.module_inputs_func(MHA, DEVICE, DTYPE, True, training)
]


def assert_near(found, expected):
    """Of all numbers of some tensors together."""
    found, expected = (torch.cat([t.double().flatten() for t in tensors]) for tensors in (found, expected))
    assert (found - expected).norm() <= LIMIT * expected.norm()


def gradients(out, leaves):
    """Those that there are, for the same weights each time."""
    torch.manual_seed(1)
    weights = torch.randn(out.shape, dtype=torch.float32, device=out.device).to(out.dtype)
    found = torch.autograd.grad(out, leaves, weights, allow_unused=True)
    return [g for g in found if g is not None]


def in_fp64(value):
    is_float = torch.is_tensor(value) and value.is_floating_point()
    return value.detach().double().requires_grad_(value.requires_grad) if is_float else value


@pytest.mark.parametrize("number", range(len(ATTENTION)))
def test_scaled_dot_product_attention(number):
    sample = ATTENTION[number]
    given = [sample.input, *sample.args]
    if sample.kwargs.get("dropout_p"):
        with pytest.raises(NotImplementedError, match="pass dropout_p=0"):
            attnjit.sdpa(*given, **sample.kwargs)
        pytest.skip("attnjit has no dropout")
    exact = [in_fp64(t) for t in given]
    options = {name: in_fp64(value) for name, value in sample.kwargs.items()}
    found, expected = attnjit.sdpa(*given, **sample.kwargs), scaled_dot_product_attention(*exact, **options)
    assert found.shape == expected.shape
    assert_near([found], [expected])
    assert_near(gradients(found, given), gradients(expected, exact))


@pytest.mark.parametrize("number", range(len(MODULES)))
def test_multihead_attention(number):
    """PyTorch's in the same dtype, so that both attend to the same projections."""
    training, sample = MODULES[number]
    torch.manual_seed(number)
    arguments = sample.constructor_input.args
    options = {**sample.constructor_input.kwargs, "device": DEVICE, "dtype": DTYPE}
    ours = attnjit.nn.MultiheadAttention(*arguments, **options).train(training)
    own = torch.nn.MultiheadAttention(*arguments, **options).train(training)
    own.load_state_dict(ours.state_dict())
    call = lambda module: module(
        *sample.forward_input.args, **{**sample.forward_input.kwargs, "need_weights": False}
    )[0]
    found, expected = call(ours), call(own)
    assert_near([found], [expected])
    assert_near(gradients(found, list(ours.parameters())), gradients(expected, list(own.parameters())))
