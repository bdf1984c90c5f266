"""attnjit.context_parallel over two GPUs beside one, and over one GPU."""

import random

import pytest
import torch
import torch.distributed as dist

import attnjit
from attnjit import context_parallel

import accuracy
import formulas
import groups
from sharded_calls import random_call, sharded, weights_of

pytestmark = pytest.mark.gpu
needs_two = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")

KINDS, CALLS = 13, 16  # 208 problems


def _compare(rank, ranks, seed):
    mesh = dist.init_device_mesh("cuda", (ranks,), mesh_dim_names=("cp",))
    for index in range(CALLS):
        call = random_call(1000 * seed + index, f"cuda:{rank}", ranks=ranks, kind_seed=seed)
        shape = (*call.q.shape[:3], call.v.shape[3])
        out, lse = call.q.new_empty(shape), call.q.new_empty(shape[:3], dtype=torch.float32)
        weights = weights_of(out, lse, index)
        uses_lse = index % 2 == 0
        method = ("ring", "ring", "gather", None)[index % 4]
        found = sharded(
            call, weights, uses_lse, group=mesh["cp"], method=method, deterministic=index % 3 == 0,
            return_row_max=index % 5 == 0, return_max_logits=index % 5 == 0,
        )  # fmt: skip
        for name in {"row_max", "max_logits"} & found.keys():
            exact = getattr(formulas, name)(call.q, call.k, *call.problem[3:])
            torch.testing.assert_close(found[name].double(), exact, rtol=1e-4, atol=1e-4)
        gradients = [found.get(name) for name in ("dq", "dk", "dv", "dbias", "dsink")]
        dlse = weights[1] if uses_lse else None
        accuracy.check(call.problem, found["out"], found["lse"], gradients, weights[0], dlse)


@needs_two
@pytest.mark.parametrize("seed", range(KINDS))
def test_random_problems(seed):
    groups.run(_compare, seed)


def _compare_expressions(rank, ranks):
    device, rows = f"cuda:{rank}", 700
    group = dist.init_device_mesh("cuda", (ranks,), mesh_dim_names=("cp",))["cp"]
    shard = lambda tensor, dim: context_parallel.shard(tensor.detach(), dim, group)
    generator = torch.Generator(device).manual_seed(0)
    new = lambda *shape: torch.randn(shape, generator=generator, device=device)
    q, k, v = (new(1, 4, rows, 64).bfloat16().requires_grad_() for _ in range(3))
    document = torch.randint(0, 4, (1, rows), generator=generator, device=device).sort(-1).values.int()
    operands = {"rel": new(4, 33).requires_grad_(), "row": new(1, rows).requires_grad_(), "doc": document}
    own = {"rel": operands["rel"].detach(), "row": shard(operands["row"], 1), "doc": shard(document, 1)}
    said = {
        "score": "s * sigmoid(row[b, i]) + rel[h, clamp(j - i, -16, 16) + 16]",
        "keep": "doc[b, i] == doc[b, j] && j <= i",
    }
    mine = [shard(t, 2).requires_grad_() for t in (q, k, v)] + [own["rel"], own["row"]]
    for leaf in mine[3:]:
        leaf.requires_grad_()
    whole = attnjit.attention(q, k, v, **said, operands=operands)
    gradients = torch.autograd.grad(whole.float().square().sum(), (q, k, v, operands["rel"], operands["row"]))
    for method in ("ring", "gather"):
        out = context_parallel.attention(
            *mine[:3], **said, operands=own, group=group, seqlen_q=rows, seqlen_kv=rows, method=method
        )
        torch.testing.assert_close(out, shard(whole, 2), rtol=2e-2, atol=2e-2)
        found = torch.autograd.grad(out.float().square().sum(), mine)
        for gradient, expected, axis in zip(found, gradients, (2, 2, 2, None, 1), strict=True):
            part = expected if axis is None else shard(expected, axis)
            assert (gradient - part).abs().max() <= 0.02 * expected.abs().max()


@needs_two
def test_expressions():
    groups.run(_compare_expressions)


def _one_rank_is_the_plain_call(rank, ranks):
    rng = random.Random(0)
    for seed in rng.sample(range(100), 4):
        call = random_call(seed, "cuda")
        results = []
        for attend in (attnjit.attention, context_parallel.attention):
            out, lse = attend(call.q, call.k, call.v, return_lse=True, deterministic=True, **call.options)
            results.append((out, lse, *torch.autograd.grad(out, call.leaves(), torch.ones_like(out))))
        assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_one_rank_is_the_plain_call_bit_for_bit():
    groups.run(_one_rank_is_the_plain_call, ranks=1)


def _inputs(rank, length, requires_grad=True):
    torch.manual_seed(rank)
    shapes = ((1, 8, length, 128), (1, 2, length, 128), (1, 2, length, 128))
    return [torch.randn(s, dtype=torch.bfloat16, device="cuda", requires_grad=requires_grad) for s in shapes]


def _same_bits(rank, ranks):
    q, k, v = _inputs(rank, 1000)
    runs = []
    for _ in range(3):
        out = context_parallel.attention(q, k, v, causal="top-left", deterministic=True, method="ring")
        runs.append((out, *torch.autograd.grad(out, (q, k, v), torch.ones_like(out))))
    for other in runs[1:]:
        assert all(torch.equal(a, b) for a, b in zip(runs[0], other))


@needs_two
def test_deterministic_gives_the_same_bits():
    groups.run(_same_bits)


def _captured(rank, ranks):
    q, k, v = _inputs(rank, 512, requires_grad=False)
    for method in ("ring", "gather"):
        attend = lambda method=method: context_parallel.attention(q, k, v, causal="top-left", method=method)
        attend()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            out = attend()
        for value in (0.5, -2.0):
            q.mul_(value)
            expected = attend()
            graph.replay()
            torch.cuda.synchronize()
            assert torch.equal(out, expected)


@needs_two
def test_a_captured_forward():
    groups.run(_captured)
