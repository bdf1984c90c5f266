"""Times PyTorch's attention as `attnjit bench` times attnjit: the backends of
scaled_dot_product_attention, FlexAttention where there is one operand at most, and attnjit.sdpa.

Needs a GPU and PyTorch, and attnjit's package for itself:
  python3 bench/peers.py --shapes bench/shapes/forward.json --output peers.json
Of a problem whose pass is backward, only the backward is timed.
"""

import argparse
import datetime
import json
import re
import subprocess
import sys
import warnings

import shapes
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention
from torch_inputs import Refused, make_inputs

BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH, "flex": None, "attnjit": None}
ROUNDS = 7
WARM_UPS = 3
ROUND_MS = 25  # of kernel time that a round aims at


class ColdTimer:
    """The median time of launches that find L2 cold. A buffer several times the L2 is filled
    before each, `fills` times; meanwhile the host enqueues the launch, so none of the host's time is measured."""

    def __init__(self, fills=1):
        l2 = torch.cuda.get_device_properties().L2_cache_size
        self._flush = torch.empty(max(256 << 20, 4 * l2), dtype=torch.uint8, device="cuda")
        self._laps = []
        self._fills = fills

    def median_ms(self, count, launch):
        """Milliseconds of a launch: the median of `count`."""
        while len(self._laps) < count:
            self._laps.append([torch.cuda.Event(enable_timing=True) for _ in range(2)])
        laps = self._laps[:count]
        for start, end in laps:
            for _ in range(self._fills):
                self._flush.zero_()
            start.record()
            launch()
            end.record()
        torch.cuda.synchronize()
        return sorted(start.elapsed_time(end) for start, end in laps)[count // 2]

    def rounds(self, launch):
        """The medians of all rounds, sorted."""
        self.median_ms(WARM_UPS, launch)
        count = int(min(max(ROUND_MS / self.median_ms(WARM_UPS, launch), 5), 100))
        return sorted(self.median_ms(count, launch) for _ in range(ROUNDS))


def refusal(error, caught):
    """Why PyTorch did not run, from its warnings, which say more than its error."""
    reasons = [re.sub(r" ?\(Triggered internally.*", "", str(w.message)) for w in caught]
    telling = [r for r in dict.fromkeys(reasons)
               if "not used because" not in r and "runtime disabled" not in r]
    return " ".join(telling) or str(error).splitlines()[0]


def time_backward(timer, out, leaves):
    """The rounds of the gradients of `out` by `leaves`, and the bytes that they needed at most."""
    dout = torch.randn_like(out)

    def launch():
        return torch.autograd.grad(out, leaves, dout, retain_graph=True)

    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    launch()
    return {"peak_bytes": torch.cuda.max_memory_allocated() - before,
            "rounds": timer.rounds(launch)}


def run_backend(timer, backend, inputs):
    """{"rounds": ...} of a backend, with "expanded_heads" where it takes no grouped heads and k and
    v were expanded beforehand. Raises Refused."""
    q, k, v, attn_mask, is_causal, leaves = inputs
    grouped = k.shape[1] != q.shape[1]
    for expand in (False, True) if grouped else (False,):
        copies = q.shape[1] // k.shape[1] if expand else 1
        keys, values = (x.repeat_interleave(copies, 1) if expand else x for x in (k, v))
        with warnings.catch_warnings(record=True) as caught, sdpa_kernel(backend):
            warnings.simplefilter("always")
            def forward():
                return scaled_dot_product_attention(q, keys, values, attn_mask, is_causal=is_causal,
                                                    enable_gqa=grouped and not expand)
            try:
                if leaves:
                    measured = time_backward(timer, forward(), leaves)
                else:
                    with torch.inference_mode():
                        measured = {"rounds": timer.rounds(forward)}
                return {**measured, **({"expanded_heads": True} if expand else {})}
            except RuntimeError as error:  # refusals, and memory that does not suffice
                reason = refusal(error, caught)
    raise Refused(reason)


def run_flex(timer, problem, inputs):
    """As run_backend(), of FlexAttention."""
    q, k, v, operand, is_causal, leaves = inputs
    if bool(problem.mask) + bool(problem.bias) + bool(problem.causal) > 1:
        raise Refused("compared with one operand or the diagonal")
    varies = [] if operand is None else [size > 1 for size in operand.shape]

    def element(place):
        return operand[tuple(i if v else 0 for i, v in zip(place, varies))]

    def add_bias(score, *place):
        return score + element(place)

    def keeps(batch, head, query, key):
        return query >= key if is_causal else element((batch, head, query, key))

    torch.compiler.reset()
    flex = torch.compile(flex_attention, dynamic=False)
    block_mask = None
    if is_causal or problem.mask:  # made beforehand, as PyTorch's users do
        planes = [size if v else None for size, v in zip(q.shape[:2], varies or (False, False))]
        block_mask = create_block_mask(keeps, *planes, q.shape[2], k.shape[2], device=q.device)

    def forward():
        return flex(q, k, v, score_mod=add_bias if problem.bias else None, block_mask=block_mask,
                    enable_gqa=k.shape[1] != q.shape[1])
    try:
        if leaves:
            return time_backward(timer, forward(), leaves)
        with torch.inference_mode():
            return {"rounds": timer.rounds(forward)}
    except RuntimeError as error:
        raise Refused(refusal(error, [])) from error


def run_attnjit(timer, problem, inputs):
    """As run_backend(), of attnjit.sdpa."""
    import attnjit

    q, k, v, attn_mask, is_causal, leaves = inputs

    def forward():
        return attnjit.sdpa(q, k, v, attn_mask, is_causal=is_causal, enable_gqa=True)
    if leaves:
        return time_backward(timer, forward(), leaves)
    with torch.inference_mode():
        return {"rounds": timer.rounds(forward)}


RUNS = {"flex": run_flex, "attnjit": run_attnjit}  # what is no backend of PyTorch


def rounded(value):
    """Five significant digits."""
    return float(f"{value:.5g}")


def backend_row(problem, measured):
    """What a result file says of one backend."""
    rounds = measured.pop("rounds")
    ms = rounds[ROUNDS // 2]
    return {"ms": rounded(ms), "round_ms": [rounded(r) for r in rounds],
            "tflops": rounded(problem.flop() / ms / 1e9),
            "kv_tb_per_s": rounded(problem.kv_bytes() / ms / 1e9), **measured}


def run_problem(timer, problem, names):
    """The row of a problem, also printed."""
    row = {"name": problem.name, "backends": {}}
    for name in names:
        print(f"{problem.name:<40} {name:<10}", end=" ")
        try:
            inputs = make_inputs(problem, "cuda")
            measured = (RUNS[name](timer, problem, inputs) if name in RUNS
                        else run_backend(timer, BACKENDS[name], inputs))
            result = backend_row(problem, measured)
            spread = 100 * (result["round_ms"][-1] / result["round_ms"][0] - 1)
            print(f"{result['ms']:9.4f} {spread:6.1f}% {result['tflops']:8.1f} "
                  f"{result['kv_tb_per_s']:8.2f}", flush=True)
        except (Refused, torch.OutOfMemoryError) as error:
            result = {"ms": None, "reason": str(error)}
            print(f"refused: {error}", flush=True)
        row["backends"][name] = result
    return row


def query_gpus():
    """What nvidia-smi says of each GPU now, a line each, as `attnjit bench` asks."""
    fields = ("index,name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.draw,"
              "temperature.gpu")
    try:
        command = ["nvidia-smi", "--format=csv,noheader", f"--query-gpu={fields}"]
        return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    except OSError:
        return []


def versions():
    """When and with what a result file was made."""
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}


def write(report, path):
    """Writes a result file, unless path is None."""
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
            file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default="bench/shapes/forward.json")
    parser.add_argument("--filter", default="", help="only problems with this in their name")
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=["flash", "cudnn", "efficient"])
    parser.add_argument("--output", help="file of results to write, JSON")
    options = parser.parse_args()
    problems = [p for p in shapes.load(options.shapes) if options.filter in p.name]
    if not problems:
        parser.error(f"--filter: no problem has '{options.filter}' in its name")
    if not torch.cuda.is_available():
        print("peers.py: error: PyTorch finds no GPU", file=sys.stderr)
        return 7
    device = torch.cuda.get_device_properties()
    report = {"schema": 1, "benchmark": "peers", **versions(),
              "device": {"name": device.name, "sms": device.multi_processor_count},
              "rounds": ROUNDS, "gpus_before": query_gpus(), "rows": []}
    print(f"{device.name}, torch {torch.__version__}\n{'problem':<40} {'backend':<10} {'ms':>9} "
          f"{'spread':>7} {'TFLOP/s':>8} {'KV TB/s':>8}")
    torch.set_warn_always(True)  # for the reasons of refusals
    timer = ColdTimer()
    report["rows"] = [run_problem(timer, p, options.backends) for p in problems]
    report["gpus_after"] = query_gpus()
    write(report, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
