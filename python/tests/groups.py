"""Functions in several processes, which form a process group."""

import datetime
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def join_group(rank: int, ranks: int, port: int, backend: str, seconds: float = 60) -> None:
    """`seconds`: within which ranks must answer."""
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    device = {"device_id": torch.device("cuda", rank)} if backend == "nccl" else {}
    dist.init_process_group(
        backend,
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=ranks,
        timeout=datetime.timedelta(seconds=seconds),
        **device,
    )


def _enter(rank, function, ranks, port, arguments):
    torch.cuda.set_device(rank)
    join_group(rank, ranks, port, "nccl")
    function(rank, ranks, *arguments)
    torch.cuda.synchronize()
    dist.destroy_process_group()


def run(function, *arguments, ranks: int = 2) -> None:
    """Calls function(rank, ranks, *arguments) in `ranks` processes; raises what one of them raises."""
    mp.spawn(_enter, (function, ranks, free_port(), arguments), nprocs=ranks)
