"""Prints what the module does over the stub of the library, a JSON list in the order of the calls below."""

import json

from test_native import DTYPES, INPUTS, MERGE, OUT, RESULTS, K, Q, V, merged

from attnjit import _native

from exchange_api import BOOL, FLOAT32, INT32, UINT8, FakeTensor, apart

made = []


def make(sizes, strides, dtype, device):
    made.append([sizes, strides, dtype, device])
    return FakeTensor(0x9000 + 0x100 * len(made), sizes, dtype, strides, device=device)


def text(function, *arguments):
    """What the call raises, or the addresses of its results."""
    try:
        return [t and t.address for t in function(*arguments)]
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def described(values):
    return {name: describe(value) for name, value in values.items()}


def describe(value):
    if isinstance(value, list):
        return [describe(each) for each in value]
    return value.described() if isinstance(value, FakeTensor) else value


context = _native.create_context(None, make, None, DTYPES)
inputs = INPUTS | {
    "mask": FakeTensor(0x5000, (24,), BOOL),
    "bias": FakeTensor(0x6000, (8, 16, 24), FLOAT32, (0, 24, 1), byte_offset=16),
    "sink": FakeTensor(0x6200, (8,), FLOAT32),
    "alibi_slopes": FakeTensor(0x6400, (2, 8), FLOAT32),
    "seqlens_q": FakeTensor(0x8000, (2,), INT32),
    "seqlens_kv": FakeTensor(0x8100, (2,), INT32),
}
scalars = {
    "scale": 512.5,
    "causal": True,
    "diagonal": 2,
    "left": 3,
    "right": -1,
    "softcap": 1.5,
    "offset": -7,
}
results = RESULTS | {
    "lse": FakeTensor(0x7000, (2, 8, 16), FLOAT32),
    "row_max": FakeTensor(0x7180, (2, 8, 16), FLOAT32),
    "max_logits": FakeTensor(0x7200, (8,), FLOAT32),
}
known = {
    "out": OUT,
    "lse": results["lse"],
    "dout": apart(0x4100, OUT.shape),
    "dlse": apart(0x7100, (2, 8, 16), FLOAT32),
}
given = {
    "deterministic": True,
    "dq": Q,
    "dk": K,
    "dv": V,
    "dbias": FakeTensor(0x6100, (8, 16, 24), FLOAT32),
    "dsink": FakeTensor(0x6300, (8,), FLOAT32),
    "of_read": None,
    "stream": None,
}
of_read = {"of_read": [FakeTensor(0x8900, (8, 24), FLOAT32), None, None]}
rows_apart = inputs | {name: apart(t.address, t.shape) for name, t in (("q", Q), ("k", K), ("v", V))}
sequence_major = INPUTS | {"q": FakeTensor(0x1000, Q.shape, strides=(8192, 64, 512, 1))}

packed = INPUTS | {
    **{name: FakeTensor(t.address, (1, *t.shape[1:])) for name, t in (("q", Q), ("k", K), ("v", V))},
    "seqlens_kv": FakeTensor(0x8100, (5,), INT32),
    "cu_seqlens_q": FakeTensor(0x8200, (6,), INT32),
    "cu_seqlens_kv": FakeTensor(0x8300, (6,), INT32),
}
paged = INPUTS | {
    "k": FakeTensor(0x2000, (9, 2, 16, 64)),
    "v": FakeTensor(0x3000, (9, 2, 16, 32)),
    "seqlens_kv": FakeTensor(0x8100, (2,), INT32),
    "block_table": FakeTensor(0x8400, (2, 4), INT32, strides=(7, 1)),
    "tail_mask": FakeTensor(0x8500, (16, 16), BOOL),
}
packed_pages = (
    packed
    | {name: paged[name] for name in ("k", "v")}
    | {
        "cu_seqlens_kv": None,
        "block_table": FakeTensor(0x8400, (5, 4), INT32, strides=(7, 1)),
    }
)
expressions = {
    "score": "s + rel[h, j]",
    "keep": "doc[b, i] == doc[b, j] || all",
    "names": ("rel", "doc", "all"),
    "block_sizes": (16, 8, 0),
}
said = INPUTS | {
    "read": [
        FakeTensor(0x8600, (8, 24), FLOAT32, strides=(1, 8)),
        FakeTensor(0x8700, (2, 24), INT32),
        FakeTensor(0x8800, (), BOOL),
    ],
    "block_indices": FakeTensor(0x8A00, (2, 8, 1, 1), INT32),
    "block_counts": FakeTensor(0x8B00, (2, 8, 1), INT32),
}
memory = FakeTensor(0x5800, (24,), UINT8)
packed_results = RESULTS | {"out": FakeTensor(0x4000, (1, *OUT.shape[1:]))}

print(
    json.dumps(
        [
            _native.version(),
            text(_native.create_context, "/some/libnvrtc.so", None, None, DTYPES),
            text(_native.enqueue_forward, context, *merged(INPUTS, RESULTS)),
            text(_native.enqueue_forward, context, *merged(inputs, results, **scalars)),
            text(
                _native.enqueue_forward,
                context,
                *merged(described(inputs), described(results), **scalars | {"stream": 7}),
            ),
            text(_native.enqueue_backward, context, *merged(inputs, known, given, **scalars)),
            text(_native.enqueue_forward, context, *merged(rows_apart, results, **scalars)),
            made.copy(),
            made.clear(),
            text(_native.forward, context, *merged(sequence_major, scale=0.0), True, True, True, None),
            text(_native.forward, context, *merged(sequence_major, scale=0.0), False, False, False, False),
            text(_native.backward, context, *merged(inputs, known, scale=0.0), True, True, False, None),
            text(_native.backward, context, *merged(sequence_major, known, scale=0.0), *[False] * 3, None),
            made,
            text(_native.enqueue_forward, context, *merged(packed, packed_results)),
            _native.counters(context),
            text(_native.enqueue_merge_lse, context, *MERGE.values()),
            text(
                _native.enqueue_merge_lse, context, *described(MERGE | {"carry": None, "stream": 7}).values()
            ),
            text(_native.enqueue_forward, context, *merged(paged, RESULTS)),
            text(
                _native.enqueue_forward,
                context,
                *merged(INPUTS | {"mask": memory}, RESULTS, prepared=(1, 8, 16, 24, 1), orders=[3, 1, 2, 4]),
            ),
            text(
                _native.enqueue_prepare_mask, context, FakeTensor(0x5000, (16, 24), BOOL), True, memory, None
            ),
            text(
                _native.enqueue_prepare_mask, context, FakeTensor(0x5000, (16, 25), BOOL), True, memory, None
            ),
            text(_native.enqueue_forward, context, *merged(packed_pages, packed_results)),
            text(_native.enqueue_forward, context, *merged(said, RESULTS, **expressions)),
            text(
                _native.enqueue_forward,
                context,
                *merged(described(said), described(RESULTS), **expressions | {"stream": 7}),
            ),
            text(_native.enqueue_backward, context, *merged(said, known, given | of_read, **expressions)),
        ]
    )
)
