"""Numbers of Python in functions of FlexAttention: literals, and operands once they change from call to call."""

import functools
import gc
import math
import weakref

import pytest
import torch
from torch.nn.attention.flex_attention import and_masks, or_masks

from attnjit.flex import _numbers

from traced_functions import SIZES, check, trace

H, L = SIZES["h"], SIZES["i"]


@pytest.fixture(autouse=True)
def nothing_seen(monkeypatch):
    monkeypatch.setattr(_numbers, "_histories", {})


def texts(make, *numbers):
    """Of the functions that `make` makes, each with its own values."""
    return [check(make(number)) for number in numbers]


def causal(b, h, q, k):
    return q >= k


def window(n):
    return lambda b, h, q, k: q - k <= n


def softcap(c):
    return lambda s, b, h, q, k: c * torch.tanh(s / c)


def default(n):
    def mask(b, h, q, k, size=n):
        return q - k <= size

    return mask


def keyword_default(n):
    def mask(b, h, q, k, *, size=n):
        return q - k <= size

    return mask


def partial(n):
    return functools.partial(lambda size, b, h, q, k: q - k <= size, n)


def keyword(n):
    def mask(b, h, q, k, size):
        return q - k <= size

    return functools.partial(mask, size=n)


class Window:
    def __init__(self, size):
        self.size = size

    def __call__(self, b, h, q, k):
        return q - k <= self.size


@pytest.mark.parametrize(
    "make", [window, default, keyword_default, partial, keyword, Window], ids=lambda make: make.__name__
)
def test_a_number_that_changes_becomes_an_operand(make):
    assert texts(make, 5, 5, 7, 9, 5) == ["i - j <= 5"] * 2 + ["i - j <= n0"] * 3
    operand = trace(make(11))[1]["n0"]
    assert operand.dtype == torch.int32 and operand.shape == () and operand == 11


def test_numbers_of_functions_that_a_function_holds():
    make = lambda n: and_masks(causal, or_masks(window(n), lambda b, h, q, k: k < 3))
    text = "i >= j && (i - j <= {} || j < 3)".format
    assert texts(make, 5, 7, 9) == [text(5), text("n0"), text("n0")]


def test_floats():
    make = lambda x: lambda s, b, h, q, k: s * x
    assert texts(make, 0.5, 1e-5, 2.5e20, 0.1) == ["s * 0.5"] + ["s * n0"] * 3
    assert trace(make(0.25))[1]["n0"].dtype == torch.float32


def test_bools_stay_literals():
    make = lambda flag: lambda b, h, q, k: torch.where(q >= k, k < 9, flag)
    assert texts(make, True, False, True)[1:] == ["i >= j ? j < 9 : false", "i >= j ? j < 9 : true"]


def test_constants_stay_literals():
    assert texts(softcap, 30.0, 30.0, 30.0) == ["30.0 * tanh(s / 30.0)"] * 3
    both = and_masks(window(9), lambda b, h, q, k: q - k >= 4)
    assert [check(both) for _ in range(3)] == ["i - j <= 9 && i - j >= 4"] * 3


class Masks:
    def three(self, b, h, q, k):
        return k < 3

    def four(self, b, h, q, k):
        return k < 4


def holding(function):
    return lambda b, h, q, k: function(b, h, q, k)


def holding_in_list(function):
    functions = [function]
    return lambda b, h, q, k: functions[0](b, h, q, k)


def holding_by_default(function):
    return lambda b, h, q, k, f=function: f(b, h, q, k)


def holding_by_keyword_default(function):
    return lambda b, h, q, k, *, f=function: f(b, h, q, k)


def holding_in_partial(function):
    return functools.partial(lambda f, b, h, q, k: f(b, h, q, k), function)


def holding_by_keyword(function):
    def mask(b, h, q, k, f):
        return f(b, h, q, k)

    return functools.partial(mask, f=function)


@pytest.mark.parametrize(
    "hold",
    [
        holding,
        and_masks,
        holding_in_list,
        holding_by_default,
        holding_by_keyword_default,
        holding_in_partial,
        holding_by_keyword,
    ],
    ids=lambda hold: hold.__name__,
)
@pytest.mark.parametrize(
    "functions",
    [(lambda b, h, q, k: k < 3, lambda b, h, q, k: k < 4), (Masks().three, Masks().four)],
    ids=["functions", "methods"],
)
def test_literals_of_code_stay_literals(hold, functions):
    """Of the code of functions that are held too."""
    assert texts(lambda function: hold(hold(function)), *functions, *functions) == ["j < 3", "j < 4"] * 2


def test_functions_that_hold_themselves():
    def make(n):
        def mask(b, h, q, k, times=2):
            return mask(b, h, q, k, times - 1) if times else q - k <= n

        return mask

    assert texts(make, 5, 7, 9)[1:] == ["i - j <= n0"] * 2


def test_functions_that_hold_a_name_without_a_value():
    def make(n, other=None):
        if other is not None:
            unset = other
        return lambda b, h, q, k: q - k <= n if other is None else unset

    assert texts(make, 5, 7, 9)[1:] == ["i - j <= n0"] * 2


def test_a_number_in_several_places_is_one_operand():
    assert texts(softcap, 30.0, 20.0, 10.0) == ["30.0 * tanh(s / 30.0)"] + ["n0 * tanh(s / n0)"] * 2
    make = lambda n: lambda b, h, q, k: torch.clamp(q - k, -n, n) < n // 2
    assert texts(make, 8, 6, 4)[1:] == ["clamp(i - j, -n0, n0) < n1"] * 2


def test_each_of_two_numbers_changes_for_itself():
    make = lambda sizes: and_masks(*map(window, sizes))
    assert texts(make, (4, 9), (4, 9), (4, 8), (3, 8), (9, 9)) == [
        "i - j <= 4 && i - j <= 9",
        "i - j <= 4 && i - j <= 9",
        "i - j <= 4 && i - j <= n0",
        "i - j <= n0 && i - j <= n1",
        "i - j <= n0 && i - j <= n1",
    ]


def test_numbers_that_were_the_same_by_chance():
    make = lambda sizes: and_masks(*map(window, sizes))
    assert texts(make, (4, 4), (5, 5), (6, 7), (8, 8))[1:] == [
        "i - j <= n0 && i - j <= n0",
        "i - j <= n0 && i - j <= n1",
        "i - j <= n0 && i - j <= n1",
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda n: lambda b, h, q, k: q - k <= n if n > 4 else q >= k,
        lambda n: lambda b, h, q, k: functools.reduce(torch.logical_or, [k == 3 * m for m in range(n)]),
        lambda n: lambda b, h, q, k: q - k <= math.sqrt(n) * 2,
        lambda n: lambda b, h, q, k: (q * 2**-n > k) & (k % n == 0),
        lambda n: lambda b, h, q, k: k < min(n, 5) + abs(3 - n),
        lambda n: lambda b, h, q, k: q - k <= {4: 7}.get(n, n * 0.7),
        lambda n: lambda b, h, q, k: torch.arange(n)[-1] > q - k,
        lambda n: lambda s, b, h, q, k: s**n + (n + 0.5) ** -h + (s + n) // n,
        lambda n: lambda s, b, h, q, k: torch.full_like(s, n / 3) + s.new_full((), -n),
        lambda n: lambda s, b, h, q, k: s.masked_fill(q - k > n, -float(n)),
    ],
)
def test_what_python_does_with_numbers(make):
    """They are its own numbers in the function."""
    texts(make, 4, 5, 6, 7, 3)


def test_what_python_makes_of_a_number_is_an_operand():
    make = lambda n: lambda b, h, q, k: q - k <= math.sqrt(n) * 2
    assert texts(make, 4, 5, 6)[1:] == ["i - j <= n0"] * 2
    make = lambda n: lambda s, b, h, q, k: torch.full_like(s, n) * float(n) ** -h
    assert texts(make, 4, 5, 6)[1:] == ["n0 * exp(-h * n1)"] * 2


@pytest.mark.parametrize("number", [2**31, -(2**31), 2**40, 1e300, -1e300, math.inf, -math.inf, math.nan])
def test_numbers_that_no_operand_holds(number):
    make = lambda n: lambda s, b, h, q, k: torch.where(s * 0 < n, s, h)
    before = texts(make, *map(type(number), (1, 2)))[1]
    assert before == "s * 0 < n0 ? s : h"
    assert "n0" not in check(make(number))
    assert check(make(type(number)(3))) == before


def test_signs_and_types_have_texts_of_their_own():
    assert texts(window, 5, -5, 6, -6, 5.5) == [
        "i - j <= 5", "i - j <= -5", "i - j <= n0", "i - j <= -n0", "i - j <= n0"
    ]  # fmt: skip


def test_as_many_as_a_call_may_have():
    tables = [torch.randn(H) for _ in range(14)]

    def make(first):
        def score(s, b, h, q, k):
            for table in tables:
                s = s + table[h]
            return (s + first) * (first + 1) - (first + 2)

        return score

    text, operands = [trace(make(n)) for n in (3, 4, 3)][-1]
    assert text.endswith("+ t13[h] + n14) * n15 - 5") and len(operands) == 16
    check(make(9))


def test_indices():
    """Literals where a gradient is added up, the way of which depends on them."""
    numbers, weights = torch.randn(9, H, L), torch.randn(9, H, L, requires_grad=True)
    make = lambda table: lambda n: lambda s, b, h, q, k: s + table[n, h, k]
    assert texts(make(numbers), 3, 4, 5)[1:] == ["s + t0[n1, h, j]"] * 2
    assert texts(make(weights), 3, 4, 5) == [f"s + t0[{n}, h, j]" for n in (3, 4, 5)]
    with torch.no_grad():
        assert texts(make(weights), 6, 7) == ["s + t0[n1, h, j]"] * 2
    assert texts(make(numbers), -1, -3) == ["s + t0[n1, h, j]"] * 2
    make = lambda length: lambda s, b, h, q, k: s + torch.ones(length)[q - k]
    assert texts(make, 24, 25, 26)[1:] == ["s + t0[i - j < 0 ? i - j + n1 : i - j]"] * 2


def test_what_was_seen_keeps_nothing_alive():
    def see():
        table = torch.ones(H)
        make = lambda n: lambda b, h, q, k: table[h] * k < n
        masks = [make(n) for n in (3, 4, 5)]
        code = masks[0].__code__.replace(co_name="of_its_own")
        for mask in masks:
            mask.__code__ = code
            check(and_masks(mask))
        return [weakref.ref(x) for x in (table, code, *masks)]

    seen = see()
    gc.collect()
    assert not any(reference() for reference in seen)


def test_no_more_than_some_texts_are_remembered(monkeypatch):
    monkeypatch.setattr(_numbers, "_MOST_TEXTS", 3)
    chains = lambda n: and_masks(*[window(1)] * n)
    texts(chains, 1, 2, 3, 4, 5)
    assert len(_numbers._histories) == 2
