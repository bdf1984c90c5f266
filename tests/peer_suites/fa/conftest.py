"""A sample of the tests. Each has tens of thousands of combinations, so they are drawn before they are made into tests."""

import itertools
import os
import random

import pytest
import suite
import torch

if os.environ.get("SUITE_ON_CPU"):
    import cpu_kernels

    cpu_library = cpu_kernels.install()
    torch.cuda.get_device_capability = lambda *_: (9, 0)  # asked for when the tests are imported

# Combinations that are drawn of each test.
SAMPLE = {
    "test_flash_attn_qkvpacked": 70,
    "test_flash_attn_varlen_qkvpacked": 60,
    "test_flash_attn_output": 150,
    "test_flash_attn_varlen_output": 120,
    "test_flash_attn_causal": 60,
    "test_flash_attn_varlen_causal": 90,
    "test_flash_attn_splitkv": 80,
    "test_flash_attn_kvcache": 150,
    "test_flash_attn_race_condition": 6,
    "test_flash_attn_deterministic": 16,
    "test_flash_attn_varlen_deterministic": 16,
}
# Values that attnjit has no door for are left out: dropout, keys that the call appends (and turns), padding at the left
# of a cache. Few head dims, for few kernels.
VALUES = {
    "d": lambda d: d in (64, 128),
    "dropout_p": lambda p: p == 0,
    "new_kv": lambda new: not new,
    "rotary_fraction": lambda share: share == 0,
    "rotary_interleaved": lambda interleaved: not interleaved,
    "has_leftpad": lambda padded: not padded,
    "has_batch_idx": lambda indexed: not indexed,
    "seqlen_new_eq_seqlen_q": lambda equal: equal,
    "num_splits": lambda splits: splits == 0,
    "seqlen": lambda rows: rows <= 1100,
    "seqlen_q": lambda rows: rows <= 1100,
    "seqlen_k": lambda rows: rows <= 1100 or rows > 3000,
}


def served(name, value):
    return VALUES.get(name, lambda _: True)(value)


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc):
    marks = [mark for mark in metafunc.definition.own_markers if mark.name == "parametrize"]
    if not marks:
        return
    names, axes = [], []
    for mark in marks:
        own = (
            [name.strip() for name in mark.args[0].split(",")]
            if isinstance(mark.args[0], str)
            else mark.args[0]
        )
        values = [value if len(own) > 1 else (value,) for value in mark.args[1]]
        names += own
        axes.append([value for value in values if all(map(served, own, value))])
        metafunc.definition.own_markers.remove(mark)
    combinations = [sum(parts, ()) for parts in itertools.product(*axes)]
    count = SAMPLE.get(metafunc.function.__name__, len(combinations))
    if count < len(combinations):
        combinations = random.Random(metafunc.function.__name__).sample(combinations, count)
    metafunc.parametrize(names, combinations)


def family(item):
    values = item.callspec.params
    kernels = ("dtype", "d", "causal", "local", "alibi", "softcap", "deterministic")
    kind = "varlen" if "varlen" in item.name else "cache" if "cache" in item.name else "batch"
    return f"{kind} {[values.get(name) for name in kernels]}"


def pytest_collection_modifyitems(config, items):
    suite.keep(config, items, suite.mine(items, family))
