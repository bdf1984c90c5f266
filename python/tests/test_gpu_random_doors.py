"""Random problems through each door, on a GPU against the formulas in fp64, forward and all gradients. Each door
is a test of its own for each kind, so that processes side by side can share them: pytest -k 'efficient'."""

import random
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import pytest
import torch
from torch.nn.attention import (
    SDPBackend,
    activate_flash_attention_impl,
    restore_flash_attention_impl,
    sdpa_kernel,
)
from torch.nn.functional import scaled_dot_product_attention

import attnjit
import attnjit.torch
from attnjit._scalars import Scalars

import accuracy
from random_calls import Call, random_kind

pytestmark = pytest.mark.gpu

KINDS, CALLS = 4, 6


def one_operand(kind, rng):
    """A kind that one attn_mask can say: a mask or a bias, per query head if per head, or is_causal."""
    which = rng.choice(("mask", "bias", "causal"))
    return replace(
        kind,
        mask=rng.choice(("b11k", "b1qk", "11qk", "bhqk")) if which == "mask" else None,
        bias=rng.choice(("1hqk", "bhqk", "11qk", "b11k")) if which == "bias" else None,
        causal="top-left" if which == "causal" else None,
        window=None,
        seqlens=False,
    )


def one_width(kind, rng):
    """A kind that backends of PyTorch take beside: one dtype, and one width of heads that are not grouped."""
    heads = rng.choice((1, 4))
    return replace(
        one_operand(kind, rng), heads=(heads, heads), head_dim_v=kind.head_dim, bias_dtype=kind.dtype
    )


def without_operand(kind, rng):
    return replace(one_width(kind, rng), mask=None, bias=None)


def without_lengths(kind, rng):
    return replace(kind, seqlens=False)


def bottom_right(kind, rng):
    """A kind of FlashAttention."""
    alibi = rng.choice((None, None, "h", "bh"))
    causal = "bottom-right" if kind.causal else None
    return replace(kind, mask=None, bias=None, seqlens=False, causal=causal, alibi=alibi)


def mask_and_bias(kind, rng):
    sink = rng.choice((None, kind.dtype))
    return replace(kind, causal=None, window=None, seqlens=False, sink=sink)


def sdpa(function, call):
    """The output of a function with the signature of SDPA. Its diagonal is asked for where PyTorch's backends
    take it, of squares."""
    is_causal = call.options["causal"] is not None and call.q.shape[2] == call.k.shape[2]
    if not is_causal:
        call.scalars = Scalars(call.options["scale"])
    attn_mask = call.bias if call.mask is None else call.mask
    return function(
        call.q, call.k, call.v, attn_mask, is_causal=is_causal, scale=call.options["scale"],
        enable_gqa=call.q.shape[1] != call.k.shape[1],
    )  # fmt: skip


def flash_attn_func(call):
    return attnjit.flash_attn_func(
        *(t.transpose(1, 2) for t in (call.q, call.k, call.v)),
        softmax_scale=call.options["scale"],
        causal=call.options["causal"] is not None,
        window_size=call.options["window"] or (-1, -1),
        alibi_slopes=call.alibi_slopes,
    ).transpose(1, 2)


def hugging_face(call):
    pytest.importorskip("transformers", minversion="5")
    import attnjit.hf

    out, _ = attnjit.hf.attention_forward(
        torch.nn.Module(), call.q, call.k, call.v, call.mask, scaling=call.options["scale"], is_causal=False,
        position_bias=call.bias, s_aux=call.sink,
    )  # fmt: skip
    return out.transpose(1, 2)


def compiled(call):
    torch._dynamo.reset()
    function = torch.compile(attnjit.attention, fullgraph=True, backend="aot_eager")
    return function(call.q, call.k, call.v, **call.options)


@contextmanager
def activated():
    activate_flash_attention_impl("attnjit")
    try:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            yield
    finally:
        restore_flash_attention_impl()


@contextmanager
def installed(backend):
    with attnjit.torch.install(), sdpa_kernel(backend):
        yield


def of_pytorch(call):
    """PyTorch's backends refuse some lengths, and take biases with a gradient that they do not reduce only."""
    if call.bias is not None:
        reduces = call.bias.shape != (*call.q.shape[:3], call.k.shape[2])
        call.bias.requires_grad_(call.door == "efficient" and not reduces)
    if call.mask is not None and call.door == "cudnn":
        call.mask[..., 0] = True  # a row that keeps no key is no row of zeros there
    try:
        return sdpa(scaled_dot_product_attention, call)
    except RuntimeError as error:
        if "No available kernel" in str(error):
            return None
        raise


# Of each door: the kinds that it takes, what is around a call, the call, and the name of its counts.
DOORS = {
    "attention": (without_lengths, nullcontext, lambda c: attnjit.attention(c.q, c.k, c.v, **c.options), None),
    "sdpa": (one_operand, nullcontext, lambda c: sdpa(attnjit.sdpa, c), None),
    "flash_attn_func": (bottom_right, nullcontext, flash_attn_func, None),
    "compiled": (without_lengths, nullcontext, compiled, None),
    "sdpa_mode": (one_operand, attnjit.sdpa_mode, lambda c: sdpa(scaled_dot_product_attention, c), "sdpa_mode"),
    "hf": (mask_and_bias, nullcontext, hugging_face, "hf"),
    "flash": (without_operand, activated, of_pytorch, "flash"),
    "efficient": (one_width, lambda: installed(SDPBackend.EFFICIENT_ATTENTION), of_pytorch, "efficient"),
    "cudnn": (one_width, lambda: installed(SDPBackend.CUDNN_ATTENTION), of_pytorch, "cudnn"),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(KINDS))
@pytest.mark.parametrize("door", DOORS)
def test_random_problems(door, seed):
    restricted, around, run, counted = DOORS[door]
    rng = random.Random(f"{door} {seed}")
    kind = restricted(random_kind(rng), rng)
    done = 0
    for index in range(CALLS):
        call = Call(kind, 100_000 + 1000 * seed + index, "cuda")
        call.door, call.scalars = door, call.problem[-1]
        before = attnjit.served().get(counted, {}).get("served", 0)
        with around():
            out = run(call)
            if out is None:
                continue
            done += 1
            if counted is not None:
                assert attnjit.served()[counted]["served"] == before + 1
            dout = torch.randn_like(out)
            found = call.gradients(out, dout)
        accuracy.check((*call.problem[:-1], call.scalars), out, None, found, dout)
    assert done >= CALLS // 2
