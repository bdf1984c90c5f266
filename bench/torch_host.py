"""Times what a call costs the host: attnjit's functions beside torch's scaled_dot_product_attention, and their
parts.

Needs a GPU, PyTorch and attnjit's package:
  python3 bench/torch_host.py --output host.json
Tensors are small, so that the GPU keeps up with the host. A burst is 200 calls, and a figure the median of 21
bursts, with each function in turn.
"""

import argparse
import json
import sys
import time

import torch
from torch.nn.functional import scaled_dot_product_attention

import attnjit
from attnjit import _call, _native
from attnjit._scalars import Scalars

CALLS, BURSTS = 200, 21
SHAPE = (1, 4, 128, 64)
NO_OPERANDS, SCALARS = _call.Operands(), Scalars()


def burst_us(call):
    """Microseconds of the host for a call, of a burst that begins with an idle GPU."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) / CALLS * 1e6


def measure(calls):
    """The median of each call's bursts; the calls take turns."""
    for call in calls.values():
        burst_us(call)
    times = {name: [] for name in calls}
    for _ in range(BURSTS):
        for name, call in calls.items():
            times[name].append(burst_us(call))
    return {name: sorted(values)[BURSTS // 2] for name, values in times.items()}


def tensors(requires_grad):
    return [torch.randn(SHAPE, dtype=torch.bfloat16, device="cuda", requires_grad=requires_grad)
            for _ in range(3)]


class Empty(torch.autograd.Function):
    """A node of autograd around torch.empty_like: less no function with gradients in Python can cost."""

    @staticmethod
    def forward(ctx, q, k, v):
        return torch.empty_like(q)

    @staticmethod
    def backward(ctx, dout):
        return None, None, None


def inference():
    q, k, v = tensors(requires_grad=False)
    return {
        "F.sdpa": lambda: scaled_dot_product_attention(q, k, v),
        "attnjit.attention": lambda: attnjit.attention(q, k, v),
        "attnjit.sdpa": lambda: attnjit.sdpa(q, k, v),
        "torch.ops.attnjit.forward": lambda: torch.ops.attnjit.forward(
            q, k, v, *NO_OPERANDS, *SCALARS, *_call.OUTPUT_ALONE, False),
    }


def training():
    q, k, v = tensors(requires_grad=True)
    return {
        "F.sdpa": lambda: scaled_dot_product_attention(q, k, v),
        "attnjit.attention": lambda: attnjit.attention(q, k, v),
        "attnjit.sdpa": lambda: attnjit.sdpa(q, k, v),
    }


def backward():
    """Gradients of an output that is there already."""
    calls = {}
    for name, function in (("F.sdpa", scaled_dot_product_attention), ("attnjit.attention", attnjit.attention)):
        leaves = tensors(requires_grad=True)
        out = function(*leaves)
        dout = torch.randn_like(out)
        calls[name] = lambda out=out, leaves=leaves, dout=dout: torch.autograd.grad(
            out, leaves, dout, retain_graph=True)
    return calls


def parts():
    """What the figures above are made of."""
    q, k, v = tensors(requires_grad=False)
    leaves = tensors(requires_grad=True)
    out, strides = torch.empty_like(q), q.stride()
    context, inputs = _call.context(), (q, k, v, *NO_OPERANDS, SCALARS)
    base_apply = super(torch.autograd.Function, Empty).apply
    calls = {
        "an empty node of autograd": lambda: Empty.apply(*leaves),
        "the same, entered as attnjit does": lambda: base_apply(*leaves),
        "torch.empty_like, which is in both": lambda: torch.empty_like(q),
        "the module: reads, allocates, launches": lambda: _native.forward(
            context, *inputs, *_call.OUTPUT_ALONE, None),
        "the same with lse": lambda: _native.forward(context, *inputs, True, False, False, None),
        "the module: reads, launches": lambda: _native.enqueue_forward(
            context, *inputs, out, None, None, None, None),
        "torch.empty_strided": lambda: torch.empty_strided(SHAPE, strides, dtype=q.dtype, device=q.device),
    }
    if hasattr(torch._C._dynamo.guards, "_empty_strided_cuda"):
        allocate = torch._C._dynamo.guards._empty_strided_cuda
        calls["allocation, as attnjit does"] = lambda: allocate(SHAPE, strides, q.dtype)
    return calls


KINDS = {"inference": inference, "training": training, "backward": backward, "parts": parts}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", help="file of results to write, JSON")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("torch_host.py: error: PyTorch finds no GPU", file=sys.stderr)
        return 7
    rows = {kind: measure(make()) for kind, make in KINDS.items()}
    for kind, row in rows.items():
        for name, us in row.items():
            ratio = f"  {us / row['F.sdpa']:5.2f} of F.sdpa" if "F.sdpa" in row else ""
            print(f"{kind:<10} {name:<40} {us:7.2f} us{ratio}")
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump({"schema": 1, "benchmark": "torch-host", "torch": torch.__version__,
                       "device": torch.cuda.get_device_name(), "us": rows}, file, indent=1)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
