"""Times attention over several GPUs: attnjit.context_parallel beside one GPU and beside PyTorch's own context
parallelism, forward and backward, and the model of docs/guide/multi-gpu.md beside both.

Needs two GPUs or more of one host, PyTorch 2.11 and attnjit's package:
  NCCL_NVLS_ENABLE=0 torchrun --nproc-per-node 2 bench/context_parallel.py --output context-parallel.json
"""

import argparse
import contextlib
import os
from dataclasses import replace

import torch
import torch.distributed as dist
from peers import query_gpus, rounded, versions, write
from torch.distributed.tensor.experimental import context_parallel as torch_context_parallel
from torch.distributed.tensor.experimental._context_parallel._attention import (
    _disable_context_parallel_dispatcher_impl,
)
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import attnjit
from attnjit import context_parallel
from attnjit.context_parallel._cost import Machine, Sizes, gather_seconds, ring_seconds
from attnjit.context_parallel._exchange import Ring, members

HEADS, HEADS_KV, WIDTH = 32, 8, 128
CAUSAL = (None, 0)
PASSES = ("forward", "backward")
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


def tensors(length, heads_kv=HEADS_KV):
    """q, k, v and dout of `length` rows, the same on every rank."""
    generator = torch.Generator("cuda").manual_seed(length)
    shapes = [(1, heads, length, WIDTH) for heads in (HEADS, heads_kv, heads_kv, HEADS)]
    return [torch.randn(s, generator=generator, dtype=torch.bfloat16, device="cuda") for s in shapes]


def slowest_ms(call, rounds, alone):
    """The median over rounds of the time of the slowest rank, in milliseconds. `alone`: only rank 0 calls."""
    works = not alone or dist.get_rank() == 0
    times = []
    for _ in range(rounds + 2):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        dist.barrier()
        torch.cuda.synchronize()
        begin.record()
        if works:
            call()
        end.record()
        torch.cuda.synchronize()
        took = torch.tensor([begin.elapsed_time(end)], device="cuda")
        dist.all_reduce(took, dist.ReduceOp.MAX)
        times.append(took.item())
    return sorted(times[2:])[rounds // 2]  # the first two warm up


def time_passes(attend, q, k, v, dout, rounds, alone=False):
    """{pass: milliseconds} of attend(q, k, v) and of its gradients."""
    leaves = [t.detach().requires_grad_() for t in (q, k, v)]
    works = not alone or dist.get_rank() == 0
    out = attend(*leaves) if works else None
    backward = lambda: torch.autograd.grad(out, leaves, dout, retain_graph=True)
    with torch.no_grad():
        forward = slowest_ms(lambda: attend(*leaves), rounds, alone)
    return {"forward": forward, "backward": slowest_ms(backward, rounds, alone)}


def one_gpu(length, rounds):
    attend = lambda q, k, v: attnjit.attention(q, k, v, causal="top-left")
    return time_passes(attend, *tensors(length), rounds, alone=True)


def over_ranks(length, rounds, group, method=None):
    attend = lambda q, k, v: context_parallel.attention(q, k, v, causal="top-left", group=group, method=method)
    return time_passes(attend, *(context_parallel.shard(t, 2, group) for t in tensors(length)), rounds)


def of_torch(length, rounds, mesh, backend, heads_kv):
    """PyTorch's own, which shards the buffers itself and puts a function of its own in the place of
    scaled_dot_product_attention. dout has the length of a share."""
    q, k, v, dout = tensors(length, heads_kv)
    share = dout[:, :, : length // mesh.size()].contiguous()
    options = {"is_causal": True} | ({} if heads_kv == HEADS else {"enable_gqa": True})
    attend = lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, **options)
    with contextlib.ExitStack() as scope:
        scope.enter_context(sdpa_kernel(BACKENDS[backend]))
        scope.enter_context(torch_context_parallel(mesh, buffers=[q, k, v], buffer_seq_dims=[2, 2, 2]))
        return time_passes(attend, q, k, v, share, rounds)


def expect_exact(mesh, backend, heads_kv, length=4096):
    """Raises unless PyTorch's rows of all ranks are attention over the whole sequence, whatever their order."""
    q, k, v, _ = tensors(length, heads_kv)
    whole = attnjit.attention(q, k, v, causal="top-left").float().square().sum()
    options = {"is_causal": True} | ({} if heads_kv == HEADS else {"enable_gqa": True})
    with sdpa_kernel(BACKENDS[backend]), torch_context_parallel(
        mesh, buffers=[q, k, v], buffer_seq_dims=[2, 2, 2]
    ):
        total = functional.scaled_dot_product_attention(q, k, v, **options).float().square().sum()
    dist.all_reduce(total)
    if not torch.isclose(total, whole, rtol=1e-2):
        raise RuntimeError(f"wrong: the squares of its results sum to {total:.5g}, not {whole:.5g}")


def torch_rows(length, rounds, mesh):
    """Each backend, with kv heads as they are where it takes them so, else repeated."""
    rows = []
    for backend in BACKENDS:
        for heads_kv in (HEADS_KV, HEADS):
            try:
                expect_exact(mesh, backend, heads_kv)
                times = of_torch(length, rounds, mesh, backend, heads_kv)
                rows.append((f"torch {backend}, {heads_kv} kv heads", times))
                break
            except (RuntimeError, NotImplementedError, AssertionError) as error:
                _disable_context_parallel_dispatcher_impl()  # which the context leaves behind
                rows.append((f"torch {backend}, {heads_kv} kv heads", str(error).splitlines()[0][:200]))
    return rows


def link_bytes_per_s(length, rounds, mesh):
    """One way, while a share of K and V goes to the next rank and another one comes."""
    who = members(mesh)
    _, k, v, _ = (context_parallel.shard(t, 2, mesh) for t in tensors(length))
    ring = Ring(who, length)
    ms = slowest_ms(lambda: ring._pass_on((k, v), who.rank)(), rounds, alone=False)
    return (k.nbytes + v.nbytes) / ms * 1e3


def modelled_ms(length, ranks, one_gpu_ms, link):
    """{(pass, method): milliseconds} by the model, with the rate of one GPU and the link as measured."""
    result = {}
    for name in PASSES:
        sizes = Sizes(1, HEADS, HEADS_KV, length, length, WIDTH, WIDTH, 2, CAUSAL, name == "backward")
        machine = replace(
            Machine(), flop_per_s=sizes.flop() / one_gpu_ms[name] * 1e3, link_bytes_per_s=link
        )
        result[name, "ring"] = ring_seconds(sizes, ranks, machine) * 1e3
        result[name, "gather"] = gather_seconds(sizes, ranks, machine) * 1e3
    return result


def measure(length, rounds, mesh, with_torch):
    """Rows of one length."""
    single = one_gpu(length, rounds)
    link = link_bytes_per_s(length, rounds, mesh)
    model = modelled_ms(length, mesh.size(), single, link)
    entries = [("one GPU", single)]
    for method in ("ring", "gather"):
        entries.append((f"attnjit {method}", over_ranks(length, rounds, mesh, method)))
    if with_torch:
        entries += torch_rows(length, rounds, mesh)
    rows = []
    for name, times in entries:
        for which in PASSES:
            row = {"length": length, "pass": which, "implementation": name}
            if isinstance(times, str):
                rows.append(row | {"error": times})
                continue
            row |= {"ms": rounded(times[which]), "speedup": rounded(single[which] / times[which])}
            modelled = model.get((which, name.removeprefix("attnjit ")))
            if modelled is not None:
                row |= {"modelled_ms": rounded(modelled), "link_gb_per_s": rounded(link / 1e9)}
            rows.append(row)
    return rows


def table(rows):
    lines = [f"{'length':>8} {'pass':9} {'implementation':28} {'ms':>9} {'speedup':>8} {'model':>9}"]
    for row in rows:
        head = f"{row['length']:>8} {row['pass']:9} {row['implementation']:28}"
        if "error" in row:
            lines.append(f"{head} {row['error']}")
            continue
        model = f"{row['modelled_ms']:9.3f}" if "modelled_ms" in row else ""
        lines.append(f"{head} {row['ms']:9.3f} {row['speedup']:8.2f} {model}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[32768, 65536, 131072])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch's own out")
    parser.add_argument("--output", help="file of results to write, JSON")
    options = parser.parse_args()
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    mesh = dist.init_device_mesh("cuda", (dist.get_world_size(),))
    report = {"schema": 1, "benchmark": "context-parallel", **versions(), "attnjit": attnjit.__version__,
              "tuned": not os.environ.get("DISABLE_AUTOTUNE"), "device": torch.cuda.get_device_name(),
              "ranks": mesh.size(), "heads": [HEADS, HEADS_KV], "head_dim": WIDTH, "gpus_before": query_gpus()}
    rows = []
    for length in options.lengths:
        rows += measure(length, options.rounds, mesh, not options.no_torch)
        if rank == 0:
            print(table(rows), flush=True)
            write(report | {"gpus_after": query_gpus(), "rows": rows}, options.output)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
