"""Streams, graphs, threads, devices, compilers and errors on a GPU."""

import threading

import pytest
import torch

import attnjit
from attnjit._call import OUTPUT_ALONE, Operands
from attnjit._scalars import TOP_LEFT, Scalars

pytestmark = pytest.mark.gpu


def tensors(device="cuda", length=200, requires_grad=True):
    torch.manual_seed(0)
    make = lambda *shape: torch.randn(shape, dtype=torch.bfloat16, device=device)
    q, k, v = make(2, 8, length, 64), make(2, 2, length, 64), make(2, 2, length, 64)
    bias = make(1, 8, length, length)
    mask = torch.rand(2, 1, 1, length, device=device) < 0.8
    if requires_grad:
        for t in (q, k, v, bias):
            t.requires_grad_()
    return q, k, v, mask, bias


def run(q, k, v, mask, bias):
    return attnjit.attention(q, k, v, mask=mask, bias=bias, causal="top-left", deterministic=True)


def gradients(out, q, k, v, bias):
    return torch.autograd.grad(out.float().square().sum(), (q, k, v, bias))


@pytest.mark.parametrize("dynamic", [False, True])
def test_torch_compile(dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(run, fullgraph=True, dynamic=dynamic)
    for length in (200, 131) if dynamic else (200,):
        q, k, v, mask, bias = tensors(length=length)
        out, expected = compiled(q, k, v, mask, bias), run(q, k, v, mask, bias)
        assert torch.equal(out, expected)
        for a, b in zip(gradients(out, q, k, v, bias), gradients(expected, q, k, v, bias)):
            torch.testing.assert_close(a, b)


def test_opcheck():
    q, k, v, mask, bias = tensors(requires_grad=False)
    sink = torch.randn(q.shape[1], device="cuda")
    operands, scalars = Operands(mask, bias, sink), Scalars(causal=True, diagonal=TOP_LEFT)
    torch.library.opcheck(
        torch.ops.attnjit.forward.default, (q, k, v, *operands, *scalars, True, True, True, False)
    )
    out, lse, *_ = torch.ops.attnjit.forward(q, k, v, *operands, *scalars, True, False, False, False)
    backward = (torch.randn_like(out), None, q, k, v, out, lse, *operands, *scalars, True, True, True)
    torch.library.opcheck(torch.ops.attnjit.backward.default, backward)


def test_both_ways_give_the_same_bits():
    q, k, v, mask, bias = tensors(requires_grad=False)
    out, *_ = torch.ops.attnjit.forward(
        q, k, v, *Operands(mask, bias), *Scalars(causal=True, diagonal=TOP_LEFT), *OUTPUT_ALONE, False
    )
    assert torch.equal(run(q, k, v, mask, bias), out)


def test_tensors_read_through_python(monkeypatch):
    from attnjit import _call, _described, _native

    q, k, v, mask, bias = tensors()
    expected = run(q, k, v, mask, bias)
    expected_gradients = gradients(expected, q, k, v, bias)
    context = _native.create_context(None, _described.new_strided, None, _call._DTYPES)
    monkeypatch.setattr(_call, "_calls", _described)
    monkeypatch.setattr(_call, "context", lambda: context)
    with torch.cuda.stream(torch.cuda.Stream()):
        out = run(q, k, v, mask, bias)
        found = gradients(out, q, k, v, bias)
    torch.cuda.synchronize()
    assert torch.equal(out, expected)
    assert all(map(torch.equal, found, expected_gradients))


def test_graph_capture_and_replay():
    q, k, v, mask, bias = tensors()
    expected = gradients(run(q, k, v, mask, bias), q, k, v, bias)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run(q, k, v, mask, bias)
        found = gradients(out, q, k, v, bias)
    with torch.no_grad():
        for t in (out, *found):
            t.zero_()
        changed = torch.randn_like(q)
        q.copy_(changed)
    graph.replay()
    torch.cuda.synchronize()
    again = run(q, k, v, mask, bias)
    assert torch.equal(out, again)
    assert not torch.equal(found[0], expected[0])
    assert all(map(torch.equal, found, gradients(again, q, k, v, bias)))


def test_results_follow_the_stream():
    """A call waits for what its stream does before it."""
    q, k, v, mask, bias = tensors(requires_grad=False)
    expected = run(q, k, v, mask, bias)
    torch.cuda.synchronize()
    for _ in range(5):
        with torch.cuda.stream(torch.cuda.Stream()) as _:
            late = torch.zeros_like(q)
            torch.cuda._sleep(20_000_000)
            late.copy_(q)
            out = run(late, k, v, mask, bias)
            torch.cuda.current_stream().synchronize()
        assert torch.equal(out, expected)


def test_a_thread_without_a_context():
    q, k, v, mask, bias = tensors(requires_grad=False)
    expected = run(q, k, v, mask, bias)
    results = []
    thread = threading.Thread(target=lambda: results.append(run(q, k, v, mask, bias)))
    thread.start()
    thread.join(60)
    assert torch.equal(results[0], expected)


def test_autocast():
    q, k, v, mask, bias = (t.detach().float() if t.is_floating_point() else t for t in tensors())
    q.requires_grad_()
    with torch.autocast("cuda", torch.bfloat16):
        out = run(q, k, v, mask, bias)
    assert out.dtype == torch.bfloat16
    assert torch.autograd.grad(out.float().sum(), q)[0].dtype == torch.float32


def test_deterministic_follows_torch():
    q, k, v, mask, bias = tensors(length=1000)
    torch.use_deterministic_algorithms(True)
    try:
        runs = [gradients(attnjit.attention(q, k, v, mask=mask, bias=bias), q, k, v, bias) for _ in range(3)]
    finally:
        torch.use_deterministic_algorithms(False)
    for other in runs[1:]:
        assert all(map(torch.equal, runs[0], other))


def test_memory_of_a_result_may_be_used_on_another_stream():
    q, k, v, mask, bias = tensors(requires_grad=False)
    out = run(q, k, v, mask, bias)
    address, other = out.data_ptr(), torch.cuda.Stream()
    with torch.cuda.stream(other):
        torch.cuda._sleep(50_000_000)
    out.record_stream(other)
    del out
    assert torch.empty_like(q).data_ptr() != address


two_devices = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU")


@two_devices
@pytest.mark.parametrize("current", [0, 1])
def test_two_devices(current):
    """Tensors of either device, whichever is the current one, through each way that allocates."""
    expected = None
    for device in ("cuda:1", "cuda:0", "cuda:1"):
        q, k, v, mask, bias = tensors(device)
        with torch.cuda.device(current):
            out = run(q, k, v, mask, bias)
            found = gradients(out, q, k, v, bias)
            assert torch.cuda.current_device() == current
        assert {t.device for t in (out, *found)} == {q.device}
        results = [t.cpu() for t in (out, *found)]
        if expected is not None:
            torch.testing.assert_close(results, expected)
        expected = results
    with pytest.raises(ValueError, match="k: it is on cuda:0; q is on cuda:1"):
        run(q, k.to("cuda:0"), v, mask, bias)


@two_devices
def test_an_installation_on_two_devices():
    import attnjit.torch

    results = []
    with attnjit.torch.install():
        for device in ("cuda:1", "cuda:0"):
            q, k, v, _, bias = tensors(device)
            k, v = (t.repeat_interleave(4, 1) for t in (k, v))
            out = torch.nn.functional.scaled_dot_product_attention(q, k, v, bias)
            results.append([out.cpu(), torch.autograd.grad(out.float().square().sum(), bias)[0].cpu()])
    torch.testing.assert_close(*results)


@two_devices
def test_streams_of_two_devices():
    """A call waits for the stream of q's device, not for that of the current one."""
    q, k, v, mask, bias = tensors("cuda:1", requires_grad=False)
    expected = run(q, k, v, mask, bias)
    torch.cuda.synchronize(1)
    stream = torch.cuda.Stream("cuda:1")
    with torch.cuda.stream(stream):
        late = torch.zeros_like(q)
        torch.cuda._sleep(20_000_000)
        late.copy_(q)
        with torch.cuda.device(0):
            out = run(late, k, v, mask, bias)
    stream.synchronize()
    assert torch.equal(out, expected)


def test_errors():
    q, k, v, mask, _ = tensors(requires_grad=False)
    with pytest.raises(ValueError, match="k: it is not on a CUDA device"):
        attnjit.attention(q, k.cpu(), v)
    with pytest.raises(ValueError, match="CPU"):
        attnjit.attention(q.cpu(), k.cpu(), v.cpu())
    with pytest.raises(ValueError, match="mask: head axis is 3"):
        attnjit.attention(q, k, v, mask=mask.expand(2, 3, 200, 200))
    with pytest.raises(ValueError, match="bias: dtype is bool"):
        attnjit.attention(q, k, v, bias=mask)
    with pytest.raises(TypeError, match="v: dtype is float64"):
        attnjit.attention(q, k, v.double())
    with pytest.raises(ValueError, match="dtype"):
        attnjit.attention(q.float(), k.float(), v.float())
