"""The module against a stub of the exchange API, the library and a stub of it; no GPU, no PyTorch."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from attnjit import _native

from exchange_api import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    UINT8,
    FakeTensor,
    address_of_api,
    capsule,
    dense,
)

Q = FakeTensor(0x1000, (2, 8, 16, 64))
K = FakeTensor(0x2000, (2, 2, 24, 64))
V = FakeTensor(0x3000, (2, 2, 24, 32))
OUT = FakeTensor(0x4000, (2, 8, 16, 32))
DTYPES = (FLOAT16, BFLOAT16, FLOAT32, UINT8)
INPUTS = {
    "q": Q,
    "k": K,
    "v": V,
    "mask": None,
    "bias": None,
    "sink": None,
    "alibi_slopes": None,
    "seqlens_q": None,
    "seqlens_kv": None,
    "cu_seqlens_q": None,
    "cu_seqlens_kv": None,
    "block_table": None,
    "tail_mask": None,
    "block_indices": None,
    "block_counts": None,
    "full_block_indices": None,
    "full_block_counts": None,
    "key_indices": None,
    "read": None,
}
SCALARS = {
    "scale": None,
    "causal": False,
    "diagonal": 0,
    "left": -1,
    "right": -1,
    "softcap": 0.0,
    "offset": 0,
    "prepared": None,
    "orders": None,
    "score": None,
    "keep": None,
    "names": (),
    "row_offset": 0,
    "key_offset": 0,
    "block_sizes": None,
}
RESULTS = {"out": OUT, "lse": None, "row_max": None, "max_logits": None, "stream": None}
MERGE = {
    "parts": OUT,
    "part_stride": 8192,
    "num_parts": 3,
    "part_lses": FakeTensor(0x7000, (3, 2, 8, 16), FLOAT32),
    "carry": FakeTensor(0x4800, OUT.shape, FLOAT32),
    "carry_lse": FakeTensor(0x7100, (2, 8, 16), FLOAT32),
    "out": FakeTensor(0x4900, OUT.shape, FLOAT16),
    "lse": None,
    "stream": None,
}


def merged(inputs, *rest, **changes):
    """The arguments of a function of the module, in order: the scalars as one, behind the inputs."""
    scalars = tuple((SCALARS | {name: changes.pop(name) for name in SCALARS if name in changes}).values())
    values = inputs | {"scalars": scalars}
    for more in rest:
        values |= more
    assert changes.keys() <= values.keys() | {"more"}
    return (values | changes).values()


def context(make=None, make_on_current=None):
    return _native.create_context(None, make, make_on_current, DTYPES)


def forward(**changes):
    return _native.enqueue_forward(context(), *merged(INPUTS, RESULTS, **changes))


def operands(**tensors):
    """The changes that give a call operands of expressions."""
    return {"names": tuple(tensors), "read": tuple(tensors.values())}


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
        ({"sink": FakeTensor(0x1000, (3,))}, ValueError, "sink: head axis is 3; expected 8"),
        (
            {"alibi_slopes": FakeTensor(0x1000, (8,)), "diagonal": 1},
            ValueError,
            "alibi_slopes: dtype is bf16; expected fp32",
        ),
        (
            {"alibi_slopes": FakeTensor(0x1000, (2, 1, 8), FLOAT32)},
            ValueError,
            "alibi_slopes: it has 3 axes; expected .heads of q,. or .batch, heads",
        ),
        (
            {"block_table": FakeTensor(0x1000, (3, 4), INT32)},
            ValueError,
            "block_table: expected .batch or sequences, pages",
        ),
        ({"block_table": FakeTensor(0x1000, (2, 0), INT32)}, ValueError, "block_table: .* a page or more"),
        (
            {"block_table": FakeTensor(0x1000, (2, 4), INT32, strides=(8, 2))},
            ValueError,
            "neighbours in a row",
        ),
        (
            {"block_table": FakeTensor(0x1000, (2, 4))},
            TypeError,
            "block_table: dtype is bfloat16; expected int32",
        ),
        (
            {"block_table": FakeTensor(0x1000, (2, 4), INT32)},
            ValueError,
            "seqlens_kv: null with block_table",
        ),
        (
            {"block_indices": FakeTensor(0x1000, (2, 8, 1, 1)), "block_counts": FakeTensor(0x1000, (2, 8, 1), INT32)},
            TypeError,
            "blocks.indices: dtype is bfloat16; expected int32",
        ),
        (
            {
                "block_indices": FakeTensor(0x1000, (2, 8, 1, 1), INT32),
                "block_counts": FakeTensor(0x1000, (2, 8, 1, 1), INT32),
            },
            ValueError,
            "blocks.counts: it has 4 axes; expected 3",
        ),
        (
            {
                "block_indices": FakeTensor(0x1000, (2, 8, 2, 1), INT32),
                "block_counts": FakeTensor(0x1000, (2, 8, 2), INT32),
                "block_sizes": (16, 8, 0),
            },
            ValueError,
            "blocks.indices: axis of row blocks is 2; expected 1",
        ),
        (
            {"tail_mask": FakeTensor(0x1000, (8, 16), BOOL)},
            ValueError,
            "tail_mask: sequence axis is 8; expected 16",
        ),
        ({"sink": FakeTensor(0x1000, (1, 8))}, ValueError, "sink: it has 2 axes; expected .heads of q,."),
        ({"seqlens_q": FakeTensor(0x1000, (3,), INT32)}, ValueError, "seqlens_q: .* shape .batch,"),
        ({"cu_seqlens_q": FakeTensor(0x1000, (1,), INT32)}, ValueError, "cu_seqlens_q: expected .sequences"),
        (
            {
                name: FakeTensor(0x1000, (n,), INT32)
                for name, n in (("cu_seqlens_q", 3), ("cu_seqlens_kv", 4))
            },
            ValueError,
            "cu_seqlens_kv: expected .*as many as the other",
        ),
        (
            {"cu_seqlens_kv": FakeTensor(0x1000, (3,), FLOAT32)},
            TypeError,
            "cu_seqlens_kv: dtype is float32; expected int32",
        ),
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
        (
            {"row_max": FakeTensor(0x1000, (2, 8), FLOAT32)},
            ValueError,
            "row_max: .* shape .batch, heads of q,",
        ),
        (
            {"row_max": FakeTensor(0x1000, (2, 8, 16))},
            TypeError,
            "row_max: dtype is bfloat16; expected float32",
        ),
        ({"max_logits": FakeTensor(0x1000, (2,), FLOAT32)}, ValueError, "max_logits: .* shape .heads of q,"),
        (
            {"max_logits": FakeTensor(0x1000, (8,), BFLOAT16)},
            TypeError,
            "max_logits: dtype is bfloat16; expected float32",
        ),
        ({"v": 3}, TypeError, "v: expected a tensor .* not <class 'int'>"),
        ({"v": (1, 2)}, TypeError, "takes exactly 7 arguments"),
        ({"scalars": None}, TypeError, "scalars: expected a tuple, not None"),
        ({"scalars": (None, False)}, TypeError, "takes exactly 15 arguments"),
        ({"v": (1, 4, 16, 2, 0, (1,), ())}, ValueError, "v: its shape and strides differ"),
        ({"orders": (1, 0)}, TypeError, "takes exactly 4 arguments"),
        ({"scale": "half"}, TypeError, "real number"),
        ({"left": 1.5}, TypeError, "float"),
        ({"keep": "j @ i"}, ValueError, r"  j @ i\n    \^"),
        ({"keep": "j <= k", "diagonal": 1}, ValueError, r"k is no index.*\n  j <= k\n       \^"),
        ({"keep": "i\0"}, ValueError, "embedded null character"),
        ({"score": 3}, TypeError, "str or None, not int"),
        (
            {"keep": "j < n"} | operands(n=FakeTensor(0x1000, (), INT64)),
            TypeError,
            "n: dtype is int64; .* int32",
        ),
        (
            {"keep": "j < n"} | operands(n=FakeTensor(0x1000, (), UINT8)),
            TypeError,
            "n: dtype is uint8; .* bool",
        ),
        (
            {"keep": "j < n"} | operands(n=FakeTensor(0x1000, (), FLOAT64)),
            TypeError,
            "n: dtype is float64; .*16",
        ),
        ({"keep": "j < n"} | operands(n=FakeTensor(0x1000, (1,) * 5)), ValueError, "n: it has 5 axes; .* 4"),
        ({"keep": "j < n"} | operands(n=FakeTensor(0x1000, (), device=1)), ValueError, "n: it is on cuda:1"),
        ({"keep": "j < n"} | operands(n=FakeTensor(0x1000, (2,), INT32)), ValueError, "n"),
        (
            {"keep": "j < i"} | operands(n=FakeTensor(0x1000, (), INT32)),
            ValueError,
            "n: no expression reads it",
        ),
        (operands(n=FakeTensor(0x1000, (), INT32)), ValueError, "operands: 1 without score and keep"),
        ({"names": ("n", "m"), "read": (Q,)}, ValueError, "operands: 2 names and 1 tensors"),
        ({"names": (3,), "read": (Q,)}, TypeError, "bad argument type|str"),
        ({"read": 3}, TypeError, "int"),
        ({"more": None}, TypeError, "expected 26 arguments, not 27"),
    ],
)
def test_what_is_refused(changes, error, message):
    with pytest.raises(error, match=message):
        forward(**changes)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"num_parts": 2}, ValueError, "part_lses: expected .* an element per row of each part"),
        ({"num_parts": 0, "part_lses": None}, ValueError, "num_parts: 0; expected 1"),
        ({"num_parts": "3"}, TypeError, "integer"),
        ({"part_lses": None}, ValueError, "part_lses: null"),
        ({"lse": FakeTensor(0x1000, (2, 8, 17), FLOAT32)}, ValueError, "lse: .* per row of out"),
        ({"carry": OUT}, ValueError, "carry: dtype is bf16; expected fp32"),
        ({"carry": None}, ValueError, "carry_lse: there is no carry"),
        ({"out": FakeTensor(0x1000, OUT.shape, device=1)}, ValueError, "out: it is on cuda:1; the parts"),
    ],
)
def test_what_a_merge_refuses(changes, error, message):
    with pytest.raises(error, match=message):
        _native.enqueue_merge_lse(context(), *(MERGE | changes).values())


def without_rows(batch, length, keys=24, heads=8):
    """Inputs of which PyTorch would allocate nothing, so that they have no address."""
    return INPUTS | {
        "q": FakeTensor(0, (batch, heads, length, 64)),
        "k": FakeTensor(0x2000 if batch * keys else 0, (batch, 2, keys, 64)),
        "v": FakeTensor(0x3000 if batch * keys else 0, (batch, 2, keys, 32)),
    }


def make_nothing(sizes, strides, dtype, device):
    assert 0 in sizes
    return FakeTensor(0, sizes, dtype, strides, device=device)


@pytest.mark.parametrize("described", [False, True])
@pytest.mark.parametrize(("batch", "length"), [(0, 16), (2, 0), (0, 0)])
def test_a_forward_without_rows(batch, length, described):
    inputs = without_rows(batch, length)
    found = _native.forward(context(make_nothing), *merged(inputs), True, True, False, None)
    assert [t and t.shape for t in found] == [
        (batch, 8, length, 32), (batch, 8, length), (batch, 8, length), None,
    ]  # fmt: skip
    results = {"out": found[0], "lse": found[1], "row_max": found[2], "max_logits": None, "stream": 0}
    # Strides that say nothing: those of an expanded tensor, and of one whose axes were swapped.
    for strides in ((0, 0, 0), (1, 2, 3)):
        results["lse"] = FakeTensor(0, (batch, 8, length), FLOAT32, strides)
        results["out"] = FakeTensor(0, (batch, 8, length, 32), strides=(*strides, 7))
        values = merged(inputs, results)
        if described:
            values = [t.described() if isinstance(t, FakeTensor) else t for t in values]
        _native.enqueue_forward(context(), *values)


@pytest.mark.parametrize(("batch", "keys"), [(0, 24), (2, 0)])
@pytest.mark.parametrize("strides", [(0, 0, 0, 0), (1, 2, 3, 4)])
def test_a_backward_without_rows_and_keys(batch, keys, strides):
    inputs = without_rows(batch, 0, keys)
    shape = (batch, 8, 0, 32)
    known = {
        "out": FakeTensor(0, shape, strides=strides),
        "lse": FakeTensor(0, shape[:3], FLOAT32, strides[:3]),
        "dout": FakeTensor(0, shape, strides=strides),
        "dlse": FakeTensor(0, shape[:3], FLOAT32, strides[1:]),
    }
    found = _native.backward(context(make_nothing), *merged(inputs, known), False, False, True, None)
    assert [t and t.shape for t in found] == [
        inputs["q"].shape, inputs["k"].shape, inputs["v"].shape, None, None,
    ]  # fmt: skip


def test_a_copy_of_rows_is_noted_once_in_a_context():
    known = {"out": FakeTensor(0, (2, 8, 0, 32), strides=(1, 2, 3, 4)), "lse": FakeTensor(0, (2, 8, 0), FLOAT32)}
    known |= {"dout": FakeTensor(0, (2, 8, 0, 32)), "dlse": None}
    arguments = context(make_nothing), *merged(without_rows(2, 0, 0), known), False, False, True, None
    with pytest.warns(UserWarning, match="attnjit copies out in each call: the elements of a row are no neighbours"):
        _native.backward(*arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _native.backward(*arguments)


@pytest.mark.parametrize("shape", [(0, 8, 16, 32), (2, 8, 0, 32)])
@pytest.mark.parametrize("strides", [None, (0, 0, 0, 0), (1, 2, 3, 4)])
def test_a_merge_without_rows(shape, strides):
    tensor = FakeTensor(0, shape, FLOAT32, strides)
    lses = FakeTensor(0, shape[:3], FLOAT32, strides and strides[:3])
    part_lses = FakeTensor(0, (3, *shape[:3]), FLOAT32, strides)
    values = MERGE | {
        "parts": tensor,
        "part_lses": part_lses,
        "carry": tensor,
        "carry_lse": lses,
        "out": tensor,
        "lse": lses,
    }
    _native.enqueue_merge_lse(context(), *values.values())


def test_pages_of_no_batch_element():
    """A table without rows has no address, but it is there."""
    pages = without_rows(0, 16) | {
        "k": FakeTensor(0x2000, (9, 2, 16, 64)),
        "v": FakeTensor(0x3000, (9, 2, 16, 32)),
        "seqlens_kv": FakeTensor(0, (0,), INT32),
        "block_table": FakeTensor(0, (0, 4), INT32, strides=(1, 2)),
    }
    found = _native.forward(context(make_nothing), *merged(pages), True, True, False, None)
    assert [t and t.shape for t in found] == [(0, 8, 16, 32), (0, 8, 16), (0, 8, 16), None]


def test_described_tensors_are_checked_alike():
    values = INPUTS | RESULTS
    described = {name: value.described() for name, value in values.items() if isinstance(value, FakeTensor)}
    with pytest.raises(ValueError, match="mask: head axis is 3"):
        forward(**described, mask=FakeTensor(0x5000, (3, 16, 24), BOOL).described(), stream=0)
    with pytest.raises(TypeError, match="stream: expected an integer"):
        forward(**described)


def test_plain_types():
    other = type("Subclass", (FakeTensor,), {})(0x1000, (1,))
    types = (FakeTensor, int)
    assert _native.are_plain(types, Q, None, 3)
    assert not _native.are_plain(types, Q, other)
    assert not _native.are_plain(types, 3.0)
    assert _native.are_plain(types, 3, (Q, 3), ())
    assert not _native.are_plain(types, 3, (Q, 3.0))
    with pytest.raises(TypeError, match="expected a tuple of types"):
        _native.are_plain(FakeTensor, Q)


def test_sizes_beyond_any_memory():
    q = FakeTensor(0x1000, (2**31, 2**31, 16, 64), strides=(0, 0, 64, 1))
    with pytest.raises(ValueError, match="more than 2.63 elements"):
        _native.forward(context(), *merged(INPUTS | {"q": q}), False, False, False, False)


def test_what_a_context_needs():
    with pytest.raises(TypeError, match="dtypes: expected a tuple of 4"):
        _native.create_context(None, None, None, DTYPES[:3])


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
    assert _native.counters(context())["plans"] == 0


@pytest.mark.skipif("ATTNJIT_STUB_DIR" not in os.environ, reason="ATTNJIT_STUB_DIR names no stub library")
def test_the_arguments_that_the_library_gets():
    environment = os.environ | {
        "LD_LIBRARY_PATH": os.environ["ATTNJIT_STUB_DIR"],
    }
    child = subprocess.run(
        [sys.executable, Path(__file__).with_name("stub_calls.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert child.returncode == 0, child.stderr
    (
        version, no_nvrtc, plain, full, described, backward, rows_apart, workspaces, _,
        as_q, heads_major, gradients, gradients_as_inputs, made, packed, counters, merge, merge_described, paged,
        prepared, prepare, prepare_elsewhere, packed_pages, said, said_described, said_backward,
    ) = json.loads(child.stdout)  # fmt: skip
    q = "q=0x1000:1,2/8192,8/1024,16/64,64/1 "
    k = "k=0x2000:1,2/3072,2/1536,24/64,64/1 "
    v = "v=0x3000:1,2/1536,2/768,24/32,32/1 "
    out = "out=0x4000:1,2/4096,8/512,16/32,32/1 "
    operands = "mask=0x5000:3,1/0,1/0,1/0,24/1 bias=0x6010:2,1/0,8/0,16/24,24/1 sink=0x6200:2,1/0,8/1,1/0,1/0 slopes=0x6400:2,2/8,8/1,1/0,1/0 "
    arrays = (
        "lse=0x7000 seqlens=0x8000,0x8100 cu_seqlens=(nil),(nil),0 scale=1:512.5 causal=1 diagonal=2 window=1:3,-1 "
        "softcap=1.5 offset=-7 "
    )
    maxima = "row_max=0x7180 max_logits=0x7200 "
    no_arrays = "lse=(nil) seqlens=(nil),(nil) cu_seqlens=(nil),(nil),0 scale=0:0 causal=0 diagonal=0 window=0:-1,-1 softcap=0 offset=0 "
    assert version == "stub"
    assert no_nvrtc == "RuntimeError: no device: nvrtc=/some/libnvrtc.so"
    assert plain == f"ValueError: {q}{k}{v}{out}{no_arrays}stream=0x5000 workspace=(nil):0"
    assert full == f"ValueError: {q}{k}{v}{out}{operands}{arrays}{maxima}stream=0x5000 workspace=0x9100:512"
    assert described == full.replace("stream=0x5000", "stream=0x7").replace("0x9100", "0x9200")
    # A row that was apart is a copy, 16 bytes behind.
    dout = out.replace("out=0x4000", "dout=0x4110")
    dbias = "dbias=0x6100:2,1/0,8/384,16/24,24/1 dsink=0x6300:2,1/0,8/1,1/0,1/0 dlse=0x7110 deterministic=1 "
    assert backward == (
        f"ValueError: {q}{k}{v}{out}{operands}{arrays}{dout}d{q}d{k}d{v}{dbias}"
        "stream=0x5000 workspace=0x9300:512"
    )
    copies = (
        full.replace("q=0x1000", "q=0x1010").replace("k=0x2000", "k=0x2010").replace("v=0x3000", "v=0x3010")
    )
    assert rows_apart == copies.replace("0x9100", "0x9400")
    assert workspaces == [[[512], [1], list(UINT8), 0]] * 4

    def of(*sizes, dtype=BFLOAT16, sequence_major=False):
        _, heads, length, width = sizes
        strides = [heads * length * width, width, heads * width, 1] if sequence_major else list(dense(sizes))
        return [list(sizes), strides, list(dtype), 0]

    of_k, of_v, of_row = of(2, 2, 24, 64), of(2, 2, 24, 32), [[2, 8, 16], [128, 16, 1], list(FLOAT32), 0]
    of_head = [[8], [1], list(FLOAT32), 0]
    assert (as_q, heads_major) == ([0x9100, 0x9200, 0x9300, 0x9400], [0x9500, None, None, None])
    assert made[:5] == [of(2, 8, 16, 32, sequence_major=True), of_row, of_row, of_head, of(2, 8, 16, 32)]
    assert (gradients, gradients_as_inputs) == (
        [0x9600, 0x9700, 0x9800, 0x9900, 0x9A00],
        [0x9B00, 0x9C00, 0x9D00, None, None],
    )
    of_bias = [[8, 16, 24], [384, 24, 1], list(FLOAT32), 0]
    assert made[5:10] == [of(2, 8, 16, 64), of_k, of_v, of_bias, of_head]
    assert made[10:] == [of(2, 8, 16, 64, sequence_major=True), of_k, of_v]
    assert "seqlens=(nil),0x8100 cu_seqlens=0x8200,0x8300,5 " in packed
    assert "k=0x2000:1,9/2048,2/1024,16/64,64/1 " in paged
    assert "tail=0x8500:3,1/0,1/0,16/16,16/1 pages=0x8400,7,4 " in paged
    assert "seqlens=(nil),0x8100 cu_seqlens=0x8200,(nil),5 " in packed_pages
    assert "pages=0x8400,7,4 " in packed_pages
    assert (counters["plans"], counters["lock_timeouts"], len(counters)) == (1, 11, 11)
    parts = out.replace("out=0x4000:1", "parts=0x4000:1")
    carry, merged_out = out.replace("out=0x4000:1", "carry=0x4800:2"), out.replace("0x4000:1", "0x4900:0")
    rest = "part_stride=8192 num_parts=3 lses=0x7000,0x7100,(nil) stream="
    assert merge == f"ValueError: {parts}{carry}{merged_out}{rest}0x5000"
    assert merge_described == f"ValueError: {parts}{merged_out}{rest}0x7"
    given = no_arrays + "orders=3,1,2,4 prepared=0x5800:1,8,16,24:1 "
    assert prepared == f"ValueError: {q}{k}{v}{out}{given}stream=0x5000 workspace=(nil):0"
    texts = (
        "blocks=16,8,0 listed=0x8a00:4,2/8,8/1,1/1,1/1 counts=0x8b00:4,2/8,8/1,1/1,1/0 "
        "score=s + rel[h, j] keep=doc[b, i] == doc[b, j] || all rank=2 rel=0x8600:2,8/1,24/8,1/0,1/0 "
        "rank=2 doc=0x8700:4,2/24,24/1,1/0,1/0 rank=0 all=0x8800:3,1/0,1/0,1/0,1/0 "
    )
    assert said == f"ValueError: {q}{k}{v}{out}{no_arrays}{texts}stream=0x5000 workspace=(nil):0"
    assert said_described == said.replace("stream=0x5000", "stream=0x7")
    assert f" {texts}d{out}" in said_backward.replace("dout=0x4110", "dout=0x4000")
    assert "drel=0x8900:2,8/24,24/1,1/0,1/0 dlse=" in said_backward
    mask = "mask=0x5000:3,1/0,1/0,16/24,24/1 "
    assert prepare == f"ValueError: {mask}for_backward=1 memory=0x5800 stream=0x5000"
    assert prepare_elsewhere == "ValueError: memory: 24 bytes; expected 25"
