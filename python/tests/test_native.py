"""The module against a stub of the exchange API, the library and a stub of it; no GPU, no PyTorch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attnjit import _native

from exchange_api import BOOL, FLOAT32, FLOAT64, INT32, FakeTensor, address_of_api, capsule

Q = FakeTensor(0x1000, (2, 8, 16, 64))
K = FakeTensor(0x2000, (2, 2, 24, 64))
V = FakeTensor(0x3000, (2, 2, 24, 32))
OUT = FakeTensor(0x4000, (2, 8, 16, 32))
FORWARD = {
    "q": Q, "k": K, "v": V, "out": OUT, "lse": None, "mask": None, "bias": None, "seqlens_q": None,
    "seqlens_kv": None, "scale": None, "causal": False, "diagonal": 0, "left": -1, "right": -1, "stream": None,
}  # fmt: skip
BACKWARD = {"dout": OUT, "dlse": None, "dq": Q, "dk": K, "dv": V, "dbias": None, "deterministic": False}


def forward(**changes):
    return _native.forward(_native.create_context(None), None, *(FORWARD | changes).values())


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"mask": FakeTensor(0x5000, (3, 16, 24), BOOL)},
            ValueError,
            "mask: head axis is 3; expected 1, 2 .kv",
        ),
        ({"causal": True}, ValueError, "diagonal: unspecified"),
        ({"scale": float("nan")}, ValueError, "scale"),
        (
            {"v": FakeTensor(0x3000, (2, 2, 24, 32), FLOAT64)},
            TypeError,
            "v: dtype is float64; expected bfloat16",
        ),
        (
            {"k": FakeTensor(0x2000, (2, 2, 24, 64), device=1)},
            ValueError,
            "k: it is on cuda:1; q is on cuda:0",
        ),
        (
            {"q": FakeTensor(0x1000, (2, 8, 16, 64), device_type=1)},
            ValueError,
            "q: it is not on a CUDA device",
        ),
        ({"q": FakeTensor(0x1000, (8, 16, 64))}, ValueError, "q: it has 3 axes; expected .batch, head"),
        (
            {"bias": FakeTensor(0x1000, (1, 2, 8, 16, 24))},
            ValueError,
            "bias: it has 5 axes; expected at most 4",
        ),
        ({"seqlens_q": FakeTensor(0x1000, (3,), INT32)}, ValueError, "seqlens_q: .* shape .batch,"),
        (
            {"seqlens_q": FakeTensor(0x1000, (2,), FLOAT32)},
            TypeError,
            "seqlens_q: dtype is float32; expected int32",
        ),
        (
            {"lse": FakeTensor(0x1000, (2, 8, 16), FLOAT32, (128, 1, 8))},
            ValueError,
            "lse: expected a contiguous",
        ),
        ({"v": 3}, TypeError, "v: expected a tensor .* not <class 'int'>"),
        ({"v": (1, 2)}, TypeError, "takes exactly 7 arguments"),
        ({"v": (1, 4, 16, 2, 0, (1,), ())}, ValueError, "v: its shape and strides differ"),
        ({"scale": "half"}, TypeError, "real number"),
        ({"left": 1.5}, TypeError, "float"),
        ({"more": None}, TypeError, "expected 17 arguments, not 18"),
    ],
)
def test_what_is_refused(changes, error, message):
    with pytest.raises(error, match=message):
        forward(**changes)


def test_described_tensors_are_checked_alike():
    described = {name: value.described() for name, value in FORWARD.items() if isinstance(value, FakeTensor)}
    with pytest.raises(ValueError, match="mask: head axis is 3"):
        forward(**described, mask=FakeTensor(0x5000, (3, 16, 24), BOOL).described(), stream=0)
    with pytest.raises(TypeError, match="stream: expected an integer"):
        forward(**described)


def test_versions_of_the_exchange_api():
    older = capsule()
    newer = capsule(2, address_of_api())
    unknown = capsule(2)
    bad_mask = FakeTensor(0x5000, (3, 16, 24), BOOL)
    for api in (older, newer):
        kind = type("Tensor", (FakeTensor,), {"__dlpack_c_exchange_api__": api})
        with pytest.raises(ValueError, match="mask: head axis"):
            forward(q=kind(0x1000, Q.shape), mask=bad_mask)
    kind = type("Tensor", (FakeTensor,), {"__dlpack_c_exchange_api__": unknown})
    with pytest.raises(TypeError, match="q: expected a tensor with"):
        forward(q=kind(0x1000, Q.shape), mask=bad_mask)


def test_a_context_is_no_other_capsule():
    with pytest.raises(ValueError, match="PyCapsule"):
        _native.counters(capsule())
    assert _native.counters(_native.create_context(None))["plans"] == 0


# The script of a child process that has the stub in the place of the library and prints a list of texts.
CHILD = """
import json
import test_native as t
from exchange_api import *
from attnjit import _native

def text(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

context = _native.create_context(None)
kept = []

def allocate(size, device):
    kept.append((size, device))
    return FakeTensor(0x9000, (size,), (1, 8), device=device)

operands = {
    "mask": FakeTensor(0x5000, (24,), BOOL),
    "bias": FakeTensor(0x6000, (8, 16, 24), FLOAT32, (0, 24, 1), byte_offset=16),
    "lse": FakeTensor(0x7000, (2, 8, 16), FLOAT32),
    "seqlens_q": FakeTensor(0x8000, (2,), INT32),
    "seqlens_kv": FakeTensor(0x8100, (2,), INT32),
    "scale": 512.5, "causal": True, "diagonal": 2, "left": 3, "right": -1,
}
everything = t.FORWARD | operands
gradients = t.BACKWARD | {
    "dlse": FakeTensor(0x7100, (2, 8, 16), FLOAT32),
    "dbias": FakeTensor(0x6100, (8, 16, 24), FLOAT32),
    "deterministic": True,
}
described = {n: v.described() if isinstance(v, FakeTensor) else v for n, v in everything.items()}
print(json.dumps([
    _native.version(),
    text(lambda: _native.create_context("/some/libnvrtc.so")),
    text(lambda: _native.forward(context, None, *t.FORWARD.values())),
    text(lambda: _native.forward(context, allocate, *everything.values())),
    text(lambda: _native.forward(context, allocate, *(described | {"stream": 7}).values())),
    text(lambda: _native.backward(context, allocate, *everything.values(), *gradients.values())),
    kept,
    _native.counters(context),
]))
"""


@pytest.mark.skipif("ATTNJIT_STUB_DIR" not in os.environ, reason="ATTNJIT_STUB_DIR names no stub library")
def test_the_arguments_that_the_library_gets():
    environment = os.environ | {
        "LD_LIBRARY_PATH": os.environ["ATTNJIT_STUB_DIR"],
        "PYTHONPATH": f"{Path(__file__).parent}:{os.environ['PYTHONPATH']}",
    }
    child = subprocess.run(
        [sys.executable, "-c", CHILD], env=environment, capture_output=True, text=True, timeout=60
    )
    assert child.returncode == 0, child.stderr
    version, no_nvrtc, plain, full, described, backward, allocations, counters = json.loads(child.stdout)
    q = "q=0x1000:1,2/8192,8/1024,16/64,64/1 "
    k = "k=0x2000:1,2/3072,2/1536,24/64,64/1 "
    v = "v=0x3000:1,2/1536,2/768,24/32,32/1 "
    out = "out=0x4000:1,2/4096,8/512,16/32,32/1 "
    operands = "mask=0x5000:3,1/0,1/0,1/0,24/1 bias=0x6010:2,1/0,8/0,16/24,24/1 "
    arrays = "lse=0x7000 seqlens=0x8000,0x8100 scale=1:512.5 causal=1 diagonal=2 window=1:3,-1 "
    gradients = "".join(f"d{t}" for t in (out.replace("out", "out", 1), q, k, v))
    assert version == "stub"
    assert no_nvrtc == "RuntimeError: no device: nvrtc=/some/libnvrtc.so"
    assert plain == (
        f"ValueError: {q}{k}{v}{out}lse=(nil) seqlens=(nil),(nil) scale=0:0 causal=0 diagonal=0 window=0:-1,-1 "
        "stream=0x5000 workspace=(nil):0"
    )
    assert full == f"ValueError: {q}{k}{v}{out}{operands}{arrays}stream=0x5000 workspace=0x9000:512"
    assert described == full.replace("stream=0x5000", "stream=0x7")
    assert backward == (
        f"ValueError: {q}{k}{v}{out}{operands}{arrays}{gradients}dbias=0x6100:2,1/0,8/384,16/24,24/1 "
        "dlse=0x7100 deterministic=1 stream=0x5000 workspace=0x9000:512"
    )
    assert allocations == [[512, 0]] * 3
    assert (counters["plans"], counters["lock_timeouts"], len(counters)) == (1, 11, 11)
