"""What functions of FlexAttention become: texts, their values, and what cannot be said."""

import functools
from importlib.util import find_spec

import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import and_masks, noop_mask, or_masks

from attnjit.flex._kept import _kept

from traced_functions import SIZES, check, trace

B, H, L = SIZES["b"], SIZES["h"], SIZES["i"]
torch.manual_seed(0)
REL = torch.randn(H, 2 * L - 1)
DOC = torch.randint(0, 3, (B, L)).sort(-1).values
FLAGS = torch.rand(L) < 0.5
SLOPE = torch.tensor(0.3)


def causal(b, h, q, k):
    return q >= k


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (causal, "i >= j"),
        (lambda b, h, q, k: (q - k).abs() <= 5, "abs(i - j) <= 5"),
        (lambda b, h, q, k: (k < 7) | (q >= k), "j < 7 || i >= j"),
        (lambda b, h, q, k: (DOC[b, q] == DOC[b, k]) & (q >= k), "t0[b, i] == t0[b, j] && i >= j"),
        (lambda b, h, q, k: DOC[b][q] == DOC[b][k], "t0[b, i] == t0[b, j]"),
        (lambda b, h, q, k: FLAGS[k] & ~FLAGS[q] ^ (h == 1), "(t0[j] && !t0[i]) != (h == 1)"),
        (lambda b, h, q, k: torch.logical_not(FLAGS[k]) | torch.logical_xor(q < 3, k < 3), None),
        (lambda b, h, q, k: (q // 4 == k // 4) & ((q - k) % 3 != 1), "i // 4 == j // 4 && (i - j) % 3 != 1"),
        (lambda b, h, q, k: ((q >> 1) & 3) == ((k << 1) | 1) % 4, None),
        (lambda b, h, q, k: torch.where(h < 2, q >= k, q <= k), "h < 2 ? i >= j : i <= j"),
        (lambda b, h, q, k: 2 ** (q // 4) > k, "1 << i // 4 > j"),
        (lambda b, h, q, k: torch.bitwise_and(q, 3) == torch.bitwise_not(k) + 8, None),
        (lambda b, h, q, k: torch.clamp(q - k, min=0) < torch.minimum(q, k) + 3, None),
        (lambda b, h, q, k: q * (FLAGS[q] + 1) > k, "i * (int(t0[i]) + 1) > j"),
        (lambda b, h, q, k: True & (q.to(torch.float32) / 3 > k.float().sqrt()), None),
        (noop_mask, "true"),
        (or_masks(causal, lambda b, h, q, k: k < 3), "i >= j || j < 3"),
        (and_masks(causal, lambda b, h, q, k: k != 3), "i >= j && j != 3"),
        (and_masks(), "true"),
    ],
)
def test_masks(function, text):
    found = check(function)
    assert text in (None, found)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda s, b, h, q, k: s, "s"),
        (lambda s, b, h, q, k: 20 * torch.tanh(s / 20), "20 * tanh(s / 20)"),
        (lambda s, b, h, q, k: s + REL[h, q - k + L - 1], "s + t0[h, i - j + 24 - 1]"),
        (
            lambda s, b, h, q, k: s + REL[h, torch.clamp(q - k, -2, 2) + 2],
            "s + t0[h, clamp(i - j, -2, 2) + 2]",
        ),
        (lambda s, b, h, q, k: s - SLOPE * (q - k), "s - t0 * (i - j)"),
        (lambda s, b, h, q, k: torch.where(q >= k, s, -float("inf")), "i >= j ? s : -inf"),
        (lambda s, b, h, q, k: s.masked_fill(q < k, -1e9), "i < j ? -1000000000.0 : s"),
        (lambda s, b, h, q, k: s + torch.exp2(-((h + 1) * 8.0 / H)) * (k - q), None),
        (lambda s, b, h, q, k: s + 2 ** (-0.5 * h) * (k - q), None),
        (lambda s, b, h, q, k: (s.abs() + 1) ** 0.5 + s**3 - 1 / (s * s + 1), None),
        (
            lambda s, b, h, q, k: torch.log(torch.sigmoid(s)) + torch.nn.functional.relu(s) - 1.5 * s.exp(),
            None,
        ),
        (lambda s, b, h, q, k: -(0 - s) * 2 - (2 - s) - (s - (s - 1)), None),
        (lambda s, b, h, q, k: s * (q > k) + torch.floor(s) + torch.ceil(s) + (s + 3) // 0.5 + s % 0.3, None),
        (lambda s, b, h, q, k: s + torch.full_like(s, 2.0) + torch.zeros_like(s) + s.new_ones(()), None),
        (
            lambda s, b, h, q, k: torch.maximum(s, REL[h, k]).clamp(max=2.0) + torch.rsqrt(s.square() + 1),
            None,
        ),
        (lambda s, b, h, q, k: 0.0, "0.0"),
        (lambda s, b, h, q, k: torch.where(q < 0, float("nan"), s), "i < 0 ? 0.0 / 0.0 : s"),
        (lambda s, b, h, q, k: s + 1e-300 - 1e300 * 0.0, "s + 0.0 - 0.0"),
    ],
)
def test_scores(function, text):
    found = check(function)
    assert text in (None, found)


def test_negative_indices_count_from_the_end():
    assert check(lambda s, b, h, q, k: s + REL[h, -1]) == "s + t0[h, 46]"
    text = check(lambda s, b, h, q, k: s + REL[h, q - k])
    assert text == "s + t0[h, i - j < 0 ? i - j + 47 : i - j]"
    for place, text in (
        (lambda b, q, k: (q - k).abs(), "abs(i - j)"),
        (lambda b, q, k: (q - k) % 5, "(i - j) % 5"),
        (lambda b, q, k: torch.maximum(q - k, b), "max(i - j, b)"),
        (lambda b, q, k: (k - q) & 7, "j - i & 7"),
        (lambda b, q, k: k * 2 // 3 + (q > k), "j * 2 // 3 + int(i > j)"),
        (lambda b, q, k: torch.where(q > k, 23 - q, k >> 1), "i > j ? 23 - i : j >> 1"),
        (lambda b, q, k: torch.minimum(q, k), "min(i, j)"),
        (lambda b, q, k: -(q - k - 23), "-(i - j - 23)"),
        (lambda b, q, k: 40 - q - b * 3, "40 - i - b * 3"),
    ):
        assert check(lambda s, b, h, q, k: s + REL[h, place(b, q, k)]) == f"s + t0[h, {text}]"  # noqa: B023


def test_conversions_do_not_round():
    assert trace(lambda s, b, h, q, k: s.to(torch.bfloat16).float() + h.float())[0] == "s + float(h)"


def test_numbers_of_numpy():
    np = pytest.importorskip("numpy")
    assert (
        check(lambda s, b, h, q, k: np.float64(0.5) * s + np.int64(3) - np.float32(2)) == "0.5 * s + 3 - 2.0"
    )


def test_captured_tensors():
    """Any way to hold one will do; each is one operand, of the dtype that kernels read."""
    places = torch.randint(0, L, (L,))

    class Bias(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.randn(H, L))

        def mod(self, s, b, h, q, k):
            return s + self.table[h, places[q]] * self.table[h, k]

    bias = Bias()
    text, operands = trace(lambda s, b, h, q, k: bias.mod(s, b, h, q, k))
    assert text == "s + t1[h, t0[i] < 0 ? t0[i] + 24 : t0[i]] * t1[h, j]"
    assert operands["t1"] is bias.table and operands["t0"].dtype == torch.int32
    _, again = trace(lambda s, b, h, q, k: s + places[q])
    assert again["t0"] is operands["t0"]  # made once
    places += 1
    _, again = trace(lambda s, b, h, q, k: s + places[q])
    assert torch.equal(again["t0"], places.int())
    check(functools.update_wrapper(lambda b, h, q, k: functools.partial(causal, b, h)(q, k), causal))


def test_tensors_of_inference_mode_are_made_anew():
    with torch.inference_mode():
        places = torch.arange(L)
        texts = [trace(lambda s, b, h, q, k: s + places[q]) for _ in range(2)]
    assert texts[0][1]["t0"] is not texts[1][1]["t0"]


def test_tensors_are_kept_for_as_long_as_they_live():
    before = len(_kept)
    places = [torch.arange(L)]
    trace(lambda s, b, h, q, k: s + places[0][q])
    assert len(_kept) == before + 1
    places.clear()
    assert len(_kept) == before


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (
            lambda s, b, h, q, k: s if q > k else 0,
            NotImplementedError,
            "mod: a value .* condition of Python; use torch.where",
        ),
        (
            lambda s, b, h, q, k: s + int(q),
            NotImplementedError,
            "mod: a value .* a number or condition of Python",
        ),
        (lambda s, b, h, q, k: torch.sin(s), NotImplementedError, "^mod: aten::sin is no operation"),
        (
            lambda s, b, h, q, k: torch.stack([s, s]).sum(),
            NotImplementedError,
            "mod: aten::stack is no operation",
        ),
        (
            lambda s, b, h, q, k: s + REL,
            NotImplementedError,
            r"^mod: values of shape \(4, 47\); expected single",
        ),
        (lambda s, b, h, q, k: s + REL[h], NotImplementedError, r"^mod: values of shape \(47,\)"),
        (
            lambda s, b, h, q, k: s + REL[h, :],
            NotImplementedError,
            r"mod: slice\(None, .* is an index of a tensor",
        ),
        (
            lambda s, b, h, q, k: s + REL[h, q, k],
            IndexError,
            r"mod: 3 indices of a tensor of shape \(4, 47\)",
        ),
        (lambda s, b, h, q, k: s[0], NotImplementedError, "mod: a single value is indexed"),
        (lambda s, b, h, q, k: s**0.3, NotImplementedError, "mod: a power: expected"),
        (
            lambda s, b, h, q, k: torch.div(q, 2, rounding_mode="trunc"),
            NotImplementedError,
            "mod: rounding_mode",
        ),
        (lambda s, b, h, q, k: s.new_zeros(3)[0], NotImplementedError, r"mod: a new tensor of shape \(3,\)"),
        (
            lambda s, b, h, q, k: "s",
            NotImplementedError,
            "mod: it gives a str; expected a tensor or a number",
        ),
        (lambda s, b, h, q, k: None, NotImplementedError, "mod: it gives a NoneType"),
        (
            lambda s, b, h, q, k: s + REL.double()[h, q],
            TypeError,
            "mod: it reads a tensor .* of torch.float64; expected",
        ),
        (
            lambda s, b, h, q, k: s + REL.to("meta")[h, q],
            ValueError,
            "mod: it reads .* on meta; query is on cpu",
        ),
    ],
)
def test_what_cannot_be_said(function, error, message):
    with pytest.raises(error, match=message):
        trace(function)


def test_brackets_of_long_unions():
    """A union of many masks is no deep text."""
    text = check(or_masks(*[functools.partial(lambda n, b, h, q, k: k == n, n) for n in range(24)]))
    assert "(" not in text


@pytest.mark.skipif(find_spec("attn_gym") is None, reason="there is no attention-gym")
class TestAttentionGym:
    """Masks and scores of attention-gym (PyPI: attn-gym), unmodified."""

    def test_masks(self):
        from attn_gym import masks
        from attn_gym.masks import block_diffusion, document_mask, jetspec, natten, shared_prefix, sta, svg
        from attn_gym.masks.batchify import batchify_mask_mod
        from attn_gym.masks.flamingo import generate_vision_cross_attention_mask_mod
        from attn_gym.masks.global_sliding_window import generate_global_sliding_window
        from attn_gym.masks.vsa import generate_vsa_mask_mod

        offsets = document_mask.length_to_offsets([5, 9, 3, 7], "cpu")
        intervals = torch.tensor([[0, 9], [3, 24]])
        window = masks.generate_sliding_window(5)
        for mask in (
            masks.causal_mask,
            window,
            masks.generate_prefix_lm_mask(6),
            masks.generate_dilated_sliding_window(9, 2),
            batchify_mask_mod(masks.causal_mask, 6),
            block_diffusion.generate_block_diffusion_mask(12, 4),
            document_mask.generate_doc_mask_mod(masks.causal_mask, offsets),
            document_mask.generate_doc_mask_mod(window, offsets),
            document_mask.generate_packed_causal_doc_mask_mod(offsets),
            shared_prefix.generate_shared_prefix_mask_mod(offsets, torch.tensor([0, 0, 2, 2])),
            generate_vision_cross_attention_mask_mod(intervals, 12),
            generate_global_sliding_window(3, FLAGS),
            jetspec.generate_jetspec_tree_causal_mask_mod(4, torch.ones(24, 24).tril().bool()),
            jetspec.generate_jetspec_training_mask_mod(4, 5),
            natten.generate_natten(6, 4, 3, 3),
            natten.generate_tiled_natten(6, 4, 3, 3, 3, 2),
            natten.generate_morton_natten(6, 4, 3, 3),
            sta.generate_sta_mask_mod_2d((4, 6), (2, 3), (2, 3)),
            sta.generate_sta_mask_mod_3d((2, 4, 3), (1, 2, 3), (1, 2, 3)),
            svg.generate_spatial_head_mask_mod(4, 5, 4, 1, round_width=2),
            svg.generate_temporal_head_mask_mod(4, 5, 4, 2),
        ):
            check(mask)
        with pytest.raises(
            NotImplementedError, match="mod: aten::unsqueeze is no operation"
        ):  # it searches a list
            trace(generate_vsa_mask_mod(torch.randint(0, 6, (B, H, 6, 2)), 4))

    def test_scores(self):
        from attn_gym.mods import activation, alibi, graphormer, latent_attention, sandwich, softcapping

        distances = torch.randint(0, 5, (B, L, L), dtype=torch.int32)
        types = torch.randint(0, 3, (B, L, L, 2), dtype=torch.int32)
        for score in (
            alibi.generate_alibi_bias(H),
            softcapping.generate_tanh_softcap(30),
            softcapping.generate_tanh_softcap(30, approx=True),
            sandwich.generate_sandwich_bias(H, L),
            graphormer.generate_graphormer_spatial_bias(torch.randn(H, 5), distances),
            graphormer.generate_graphormer_edge_bias(torch.randn(H, 2, 3), types, distances),
            activation.generate_activation_score_mod(torch.sigmoid),
        ):
            check(score)
        rows = torch.randn(B, H, L, 8)
        with pytest.raises(NotImplementedError, match="mod: aten::dot is no operation"):
            trace(latent_attention.generate_mla_rope_score_mod(rows, rows, 1))
