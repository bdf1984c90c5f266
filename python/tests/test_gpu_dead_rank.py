"""A rank that is killed in the middle of a call over two GPUs ends the other one within the group's time-out."""

import datetime
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
import torch.distributed as dist

import groups

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs"),
]

TIMEOUT, MARGIN = 8, 45  # seconds: of the group, and for processes to begin and to end
HEARTBEAT = 10  # likewise: after which a process ends whose watchdog hangs in the communicator's abort
_RAISED = 42


def _work(rank: int, port: int) -> None:
    """Calls without end; rank 1 kills itself in the third. Exits with _RAISED where a call raises."""
    from attnjit import context_parallel

    torch.cuda.set_device(rank)
    groups.join_group(rank, 2, port, "nccl")
    impatient = dist.new_group(timeout=datetime.timedelta(seconds=TIMEOUT))
    q = torch.randn(1, 4, 2048, 64, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    for call in range(1_000_000):
        # The first call compiles, which takes one rank longer than the other.
        group = None if call == 0 else impatient
        try:
            out = context_parallel.attention(q, q, q, causal="top-left", method="ring", group=group)
            if call == 2 and rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            out.sum().backward()
            torch.cuda.synchronize()
        except RuntimeError as error:
            print(f"raised: {error}", flush=True)
            os._exit(_RAISED)


def _end_of_the_other(**environment) -> tuple[int, float, str]:
    """(exit status, seconds after the death, output) of the rank that lives on."""
    port = groups.free_port()
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), str(port)],
            env=os.environ | {"NCCL_NVLS_ENABLE": "0", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0"} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in (0, 1)
    ]
    try:
        ranks[1].communicate(timeout=120)
        assert ranks[1].returncode == -signal.SIGKILL
        died = time.monotonic()
        output, _ = ranks[0].communicate(timeout=TIMEOUT + MARGIN)
        return ranks[0].returncode, time.monotonic() - died, output
    finally:
        for process in ranks:
            process.kill()
            process.wait()


def test_a_blocking_wait_raises():
    status, seconds, output = _end_of_the_other(TORCH_NCCL_BLOCKING_WAIT="1")
    assert status == _RAISED, output
    assert "raised:" in output and seconds < TIMEOUT + MARGIN


def test_the_watchdog_aborts():
    status, seconds, output = _end_of_the_other(TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=str(HEARTBEAT))
    assert status != 0 and seconds < TIMEOUT + MARGIN, output
    # A call raises instead if the driver notices first that the peer's memory is gone.
    assert "atchdog" in output or status == _RAISED, output


if __name__ == "__main__":
    _work(int(sys.argv[1]), int(sys.argv[2]))
