"""attnjit.context_parallel over processes on CPU tensors (gloo), beside one process."""

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import attnjit
from attnjit import context_parallel

import cpu_kernels
import groups
from sharded_calls import random_call, sharded, weights_of, whole

PROBLEMS = 40


def _assert_same(found, expected, message):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        describe = lambda text, name=name: f"{message}, {name}: {text}"
        torch.testing.assert_close(found[name], tensor, rtol=2e-4, atol=2e-4, msg=describe)


def _compare_one(seed, ranks, group):
    call = random_call(seed, "cpu", torch.float32, ranks)
    method = ("ring", "gather", None)[seed % 3]
    shape = (*call.q.shape[:3], call.v.shape[3])
    weights = weights_of(torch.empty(shape), torch.empty(shape[:3]), seed)
    uses_lse = seed % 2 == 0
    maxima = {"return_row_max": True, "return_max_logits": True} if seed % 5 < 2 else {}
    expected = whole(call, weights, uses_lse, **maxima)
    found = sharded(call, weights, uses_lse, group=group, method=method, **maxima)
    _assert_same(found, expected, f"problem {seed} on {ranks} ranks by {method}")
    if ranks == 1:  # on the same tensors: products of the CPU depend on how these lie
        plain = whole(call, weights, uses_lse, attention=context_parallel.attention, **maxima)
        assert all(torch.equal(plain[name], tensor) for name, tensor in expected.items())


def _compare(rank, ranks, port):
    torch.set_num_threads(1)
    library = cpu_kernels.install()
    groups.join_group(rank, ranks, port, "gloo")
    mesh = dist.init_device_mesh("cpu", (ranks,), mesh_dim_names=("cp",))
    for seed in range(PROBLEMS):
        _compare_one(seed, ranks, mesh)
    _check_a_bias_over_few_keys(mesh)
    _check_a_bias_of_rows_beside_sinks(mesh, ranks)
    _check_expressions(mesh, ranks)
    if ranks > 1:
        _check_sinks_of_dead_rows(mesh, ranks)
    _check_messages(ranks)
    if ranks == 4:
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "cp"))
        for seed in range(6):
            _compare_one(seed, 2, mesh["cp"])
        with pytest.raises(ValueError, match="group: the mesh has 2 dimensions; expected 1"):
            context_parallel.shard(torch.zeros(4), 0, mesh)
    dist.destroy_process_group()
    library._destroy()


def _check_expressions(group, ranks):
    """Operands by rows, by keys and of neither, of which ranks have their shares, and their gradients."""
    torch.manual_seed(0)
    rows, keys = 6 * ranks + 1, 4 * ranks + 3
    shard = lambda tensor, dim: context_parallel.shard(tensor.detach(), dim, group)
    q, k, v = (torch.randn(2, 2, length, 8, requires_grad=True) for length in (rows, keys, keys))
    operands = {
        "rel": torch.randn(2, 9, requires_grad=True),
        "row": torch.randn(2, rows, requires_grad=True),
        "key": torch.randn(keys, requires_grad=True),
        "doc": torch.randint(0, 3, (2, keys), dtype=torch.int32),
        "pad": torch.rand(2, keys) > 0.1,
        "n": 4,
    }
    said = {
        "score": "s + rel[h, clamp(j - i, -4, 4) + 4] * row[b, i] + key[ j ] / Lq",
        "keep": "doc[b, j] == doc[b, max(j - 1, 0)] && (j <= i + off || j < n) && pad[b, j]",
        "diagonal": "bottom-right",
    }
    shared = {"row": 1, "key": 0, "doc": 1, "pad": 1}
    own = {
        name: shard(t, shared[name]) if name in shared else t.detach() if isinstance(t, torch.Tensor) else t
        for name, t in operands.items()
    }
    leaves = ("rel", "row", "key")
    for name in leaves:
        own[name].requires_grad_()
    mine = [shard(t, 2).requires_grad_() for t in (q, k, v)]
    expected = attnjit.attention(q, k, v, **said, operands=operands)
    wanted = torch.autograd.grad(expected.square().sum(), (q, k, v, *(operands[n] for n in leaves)))
    axes = (2, 2, 2, None, 1, 0)
    for method in ("ring", "gather"):
        options = {"group": group, "seqlen_q": rows, "seqlen_kv": keys, "method": method}
        out = context_parallel.attention(*mine, **said, operands=own, **options)
        torch.testing.assert_close(out, shard(expected, 2), rtol=2e-4, atol=2e-4)
        found = torch.autograd.grad(out.square().sum(), (*mine, *(own[n] for n in leaves)))
        for gradient, whole_gradient, axis in zip(found, wanted, axes):
            part = whole_gradient if axis is None else shard(whole_gradient, axis)
            torch.testing.assert_close(gradient, part, rtol=1e-3, atol=1e-3)
    if ranks == 1:
        return
    with pytest.raises(ValueError, match="axis 0 of key is 2; expected 1 or"):
        options = {"group": group, "seqlen_q": rows, "seqlen_kv": keys}
        context_parallel.attention(*mine, score="s + key[j]", operands={"key": torch.ones(2)}, **options)
    with pytest.raises(NotImplementedError, match="pair is read by rows and by keys"):
        pair = torch.zeros(mine[0].shape[2], mine[1].shape[2])
        context_parallel.attention(*mine, score="s + pair[i, j]", operands={"pair": pair}, **options)


def _check_a_bias_over_few_keys(group):
    """Shares of one key, whose gradient no call for that share knows."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, length, 8) for length in (16, 3, 3))
    bias = torch.randn(2, 16, 3, requires_grad=True)
    own = context_parallel.shard(bias.detach(), 1, group).requires_grad_()
    mine = [context_parallel.shard(t, 2, group) for t in (q, k, v)]
    out = context_parallel.attention(*mine, bias=own, group=group, seqlen_q=16, seqlen_kv=3, method="ring")
    (found,) = torch.autograd.grad(out.square().sum(), own)
    (expected,) = torch.autograd.grad(attnjit.attention(q, k, v, bias=bias).square().sum(), bias)
    torch.testing.assert_close(found, context_parallel.shard(expected, 1, group), rtol=1e-4, atol=1e-5)


def _check_a_bias_of_rows_beside_sinks(group, ranks):
    """The gradient of a bias that all keys of a row share comes from lse and the weight of the sink alone."""
    torch.manual_seed(0)
    length = 6 * ranks
    q, k, v = (torch.randn(2, 2, length, 8) for _ in range(3))
    bias, sink = torch.randn(2, length, 1, requires_grad=True), torch.randn(2, requires_grad=True)
    own = context_parallel.shard(bias.detach(), 1, group).requires_grad_()
    mine = [context_parallel.shard(t, 2, group) for t in (q, k, v)]
    loss = lambda out, lse: out.square().sum() + lse.cos().sum()
    found = context_parallel.attention(*mine, bias=own, sink=sink, group=group, return_lse=True)
    expected = attnjit.attention(q, k, v, bias=bias, sink=sink, return_lse=True)
    dbias, dsink = torch.autograd.grad(loss(*expected), (bias, sink))
    own_dbias, own_dsink = torch.autograd.grad(loss(*found), (own, sink))
    torch.testing.assert_close(own_dbias, context_parallel.shard(dbias, 1, group), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(own_dsink, dsink, rtol=1e-4, atol=1e-5)


def _check_sinks_of_dead_rows(group, ranks):
    """A row without a key has its sink as lse, or -inf; a live one lies above its sink even where that hides its keys.
    dout of a dead row is not looked at."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 3, 6 * ranks, 8) for _ in range(3))
    q, k, v = (context_parallel.shard(t, 2, group).requires_grad_() for t in (q, k, v))
    sink = torch.tensor([3.0, -torch.inf, 200.0], requires_grad=True)
    mask = torch.ones(6, 6 * ranks, dtype=torch.bool)
    mask[2] = False
    out, lse = context_parallel.attention(q, k, v, mask=mask, sink=sink, group=group, return_lse=True)
    assert out[:, :, 2].abs().max() == 0 and lse[0, :, 2].tolist() == [3.0, -torch.inf, 200.0]
    assert (lse[0, 2, [0, 1, 3, 4, 5]] > 200).all()
    dout, dlse = torch.ones_like(out), torch.ones_like(lse)
    dout[:, :, 2] = torch.nan
    dq, dk, dv, dsink = torch.autograd.grad((out, lse), (q, k, v, sink), (dout, dlse))
    assert all(t.isfinite().all() for t in (dk, dv, dsink)) and dq[:, :, 2].abs().max() == 0
    assert dsink[1] == 0 and abs(dsink[2] - 6 * ranks) < 1e-3  # where its weight is 1, dlse


def _check_messages(ranks):
    q = torch.randn(1, 2, 6, 8)
    lengths = torch.tensor([0, 6], dtype=torch.int32)
    with pytest.raises(NotImplementedError, match="cu_seqlens_q: context_parallel.attention takes no packed"):
        context_parallel.attention(q, q, q, cu_seqlens_q=lengths, cu_seqlens_kv=lengths)
    with pytest.raises(TypeError, match="keep: expected a text, not function"):
        context_parallel.attention(q, q, q, keep=lambda: None)
    with pytest.raises(TypeError, match="unexpected keyword argument 'sinks'"):
        context_parallel.attention(q, q, q, sinks=torch.zeros(2))
    with pytest.raises(ValueError, match="method: 'tree'"):
        context_parallel.attention(q, q, q, method="tree")
    with pytest.raises(ValueError, match="seqlen_q: this rank has 6 of 100"):
        context_parallel.attention(q, q, q, seqlen_q=100)
    with pytest.raises(ValueError, match="window: say diagonal="):
        context_parallel.attention(q, q, q, window=(1, 1))
    if ranks > 1:
        with pytest.raises(ValueError, match=r"sink: shape is \(3,\); expected \(2,\)"):
            context_parallel.attention(q, q, q, sink=torch.zeros(3))
        with pytest.raises(TypeError, match="sink: dtype is torch.float64"):
            context_parallel.attention(q, q, q, sink=torch.zeros(2).double())
        with pytest.raises(ValueError, match="diagonal: unspecified with alibi_slopes"):
            context_parallel.attention(q, q[:, :, :4], q[:, :, :4], alibi_slopes=torch.ones(2))
        with pytest.raises(ValueError, match=f"mask: key axis is 5; expected 1 or {6 * ranks}"):
            context_parallel.attention(q, q, q, mask=torch.ones(6, 5) > 0)
        short = torch.randn(1, 2, 1, 8)
        with pytest.raises(ValueError, match="bias: its gradient needs two rows on each rank"):
            context_parallel.attention(
                short,
                short,
                short,
                bias=torch.zeros(1, 1, requires_grad=True),
                seqlen_q=ranks,
                seqlen_kv=ranks,
            )


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_random_problems_beside_one_process(ranks):
    mp.spawn(_compare, (ranks, groups.free_port()), nprocs=ranks)


def test_merge_lse_checks_its_arguments():
    parts, lses = torch.zeros(2, 1, 3, 4, 8), torch.zeros(2, 1, 3, 4)
    with pytest.raises(ValueError, match="they are on the CPU"):
        attnjit.merge_lse(parts, lses)
    with pytest.raises(ValueError, match="parts: shape"):
        attnjit.merge_lse(parts[0], lses)
    with pytest.raises(ValueError, match="part_lses: shape"):
        attnjit.merge_lse(parts, lses[:1])
    with pytest.raises(ValueError, match="carry: expected a pair"):
        attnjit.merge_lse(parts, lses, carry=(parts, lses))
    with pytest.raises(NotImplementedError, match="no gradient"):
        attnjit.merge_lse(parts.requires_grad_(), lses)


@pytest.mark.usefixtures("cpu_kernels")
def test_parts_of_a_call_merge_into_the_call():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 9, 8) for _ in range(3))
    mask = torch.rand(9, 9) > 0.4
    mask[3] = False
    shares = [slice(0, 2), slice(2, 5), slice(5, 9)]
    results = [attnjit.attention(q, k[:, :, s], v[:, :, s], mask=mask[:, s], return_lse=True) for s in shares]
    outs, lses = (torch.stack(t) for t in zip(*results))
    expected = attnjit.attention(q, k, v, mask=mask, return_lse=True)
    torch.testing.assert_close(attnjit.merge_lse(outs, lses), expected)
    first = attnjit.merge_lse(outs[:1], lses[:1], dtype=torch.float32)
    torch.testing.assert_close(attnjit.merge_lse(outs[1:], lses[1:], carry=first), expected)
