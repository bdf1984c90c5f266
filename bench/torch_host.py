"""Times what a call costs the host: attnjit's functions beside torch's scaled_dot_product_attention.

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

CALLS, BURSTS = 200, 21


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", help="file of results to write, JSON")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("torch_host.py: error: PyTorch finds no GPU", file=sys.stderr)
        return 7
    rows = {}
    for requires_grad in (False, True):
        q, k, v = (torch.randn(1, 4, 128, 64, dtype=torch.bfloat16, device="cuda", requires_grad=requires_grad)
                   for _ in range(3))
        rows["training" if requires_grad else "inference"] = measure({
            "F.sdpa": lambda: scaled_dot_product_attention(q, k, v),
            "attnjit.attention": lambda: attnjit.attention(q, k, v),
            "attnjit.sdpa": lambda: attnjit.sdpa(q, k, v),
            "torch.ops.attnjit.forward": lambda: torch.ops.attnjit.forward(
                q.detach(), k.detach(), v.detach(), None, None, None, None, None, False, 0, -1, -1, False, False),
        })
    for kind, row in rows.items():
        for name, us in row.items():
            print(f"{kind:<10} {name:<26} {us:7.2f} us  {us / row['F.sdpa']:5.2f} of F.sdpa")
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump({"schema": 1, "benchmark": "torch-host", "torch": torch.__version__,
                       "device": torch.cuda.get_device_name(), "us": rows}, file, indent=1)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
