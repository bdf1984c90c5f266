"""The interface of transformers: packed sequences, windows and refusals, against eager attention and attnjit.attention.
On a GPU if there is one, else on CPU tensors."""

import pytest
import torch

import attnjit

transformers = pytest.importorskip("transformers", minversion="5")
from transformers import masking_utils

import attnjit.hf
from attnjit import _autograd, _hf_masks

import hf_models
from hf_models import CLOSE, DEVICE, DTYPE, ON_GPU, assert_same, prepared, use

if not ON_GPU:
    pytestmark = pytest.mark.usefixtures("cpu_kernels")


def packed_tokens(lengths=(5, 1, 9)):
    """Sequences behind one another in one row of the batch, as DataCollatorWithFlattening makes it."""
    torch.manual_seed(2)
    tokens = torch.randint(1, 100, (1, sum(lengths)), device=DEVICE)
    positions = torch.cat([torch.arange(length, device=DEVICE) for length in lengths])[None]
    return tokens, {"input_ids": tokens, "labels": tokens, "position_ids": positions, "use_cache": False}


# Not gpt_oss, which makes its masks without position_ids (transformers 5.17 to 5.24), so that they know no sequences.
@pytest.mark.parametrize("make", [hf_models.llama, hf_models.mistral, hf_models.gemma2])
def test_packed_sequences_have_bounds_and_no_mask(make, monkeypatch):
    model = prepared(make)
    _, inputs = packed_tokens()
    given = []
    monkeypatch.setattr(attnjit.hf, "attend", lambda *a, **k: given.append(a[3]) or _autograd.attend(*a, **k))
    assert_same(model, 2, **inputs)
    assert given and all(operands.mask is None for operands in given)
    assert all(operands.cu_seqlens_kv.tolist() == [0, 5, 6, 15] for operands in given)


def test_packed_sequences_of_a_model_that_makes_masks_without_positions():
    model = prepared(hf_models.gpt_oss).eval()
    use(model, "attnjit")
    lengths = (5, 1, 9)
    tokens, inputs = packed_tokens(lengths)
    bounds = torch.tensor([0, *lengths], device=DEVICE).cumsum(0).int()
    with torch.no_grad():
        found = model(**inputs, cu_seq_lens_q=bounds, cu_seq_lens_k=bounds).logits
        alone = [model(input_ids=part, use_cache=False).logits for part in tokens.split(lengths, dim=1)]
    torch.testing.assert_close(found, torch.cat(alone, dim=1), **CLOSE)


def test_other_masks_of_packed_sequences_stay_masks():
    packed = masking_utils.packed_sequence_mask_function(torch.tensor([[0, 0, 1]]))
    causal = masking_utils.causal_mask_function
    every = masking_utils.bidirectional_mask_function
    window = masking_utils.sliding_window_causal_mask_function(2)
    arguments = {"batch_size": 1, "q_length": 3, "kv_length": 3, "allow_is_causal_skip": False}
    make = lambda function, **more: _hf_masks.make_mask(mask_function=function, **(arguments | more))
    both = masking_utils.and_masks
    for function, keys in ((causal, None), (window, 2)):
        bounds, found = make(both(function, packed))
        assert bounds.tolist() == [0, 2, 3] and bounds.dtype == torch.int32 and found == keys
    for function in (every, masking_utils.or_masks(causal, every), both(packed, causal)):
        assert make(both(function, packed)).shape == (1, 1, 3, 3)
    assert make(causal).dtype == torch.bool
    assert make(both(causal, packed), attention_mask=torch.ones(1, 3, dtype=torch.bool)).shape == (1, 1, 3, 3)


@pytest.mark.parametrize("window", [None, 2])
def test_a_packed_mask_says_all_whatever_the_layer_says(window):
    layer = torch.nn.Module()
    q = torch.randn(1, 2, 8, 16, device=DEVICE, dtype=DTYPE)
    mask = _hf_masks.PackedMask(torch.tensor([0, 3, 8], device=DEVICE, dtype=torch.int32), window)
    out, _ = attnjit.hf.attention_forward(layer, q, q, q, mask, is_causal=False, sliding_window=3)
    sides = None if window is None else (window - 1, -1)
    parts = [
        attnjit.attention(part, part, part, causal="top-left", window=sides)
        for part in q.split([3, 5], dim=2)
    ]
    torch.testing.assert_close(out.transpose(1, 2), torch.cat(parts, dim=2))


@pytest.mark.parametrize("is_causal", [True, False])
def test_bounds_that_a_model_passes(is_causal):
    layer = torch.nn.Module()
    q = torch.randn(1, 2, 8, 16, device=DEVICE, dtype=DTYPE)
    bounds = torch.tensor([0, 3, 8], device=DEVICE)
    out, _ = attnjit.hf.attention_forward(
        layer, q, q, q, None, is_causal=is_causal, cu_seq_lens_q=bounds, cu_seq_lens_k=bounds, max_length_q=5
    )
    causal = "top-left" if is_causal else None
    parts = [attnjit.attention(part, part, part, causal=causal) for part in q.split([3, 5], dim=2)]
    torch.testing.assert_close(out.transpose(1, 2), torch.cat(parts, dim=2))
    whole = torch.ones(1, 1, 8, 8, device=DEVICE, dtype=torch.bool)
    mask = whole.tril() if is_causal else whole
    for given in (
        mask,
        torch.zeros(1, 1, 8, 8, device=DEVICE, dtype=DTYPE).masked_fill(~mask, float("-inf")),
    ):
        masked, _ = attnjit.hf.attention_forward(
            layer, q, q, q, given, cu_seq_lens_q=bounds, cu_seq_lens_k=bounds
        )
        torch.testing.assert_close(masked, out)
    with pytest.raises(NotImplementedError, match="position_bias of packed sequences"):
        attnjit.hf.attention_forward(
            layer, q, q, q, None, position_bias=q[..., :8], cu_seq_lens_q=bounds, cu_seq_lens_k=bounds
        )


def test_outputs_are_contiguous_rows_of_heads():
    layer = torch.nn.Module()
    q, k = (
        torch.randn(1, 4, 5, 16, device=DEVICE, dtype=DTYPE),
        torch.randn(1, 2, 5, 16, device=DEVICE, dtype=DTYPE),
    )
    out, weights = attnjit.hf.attention_forward(layer, q, k, k, None, is_causal=False)
    assert out.shape == (1, 5, 4, 16) and out.is_contiguous() and weights is None


def test_a_window_without_a_mask():
    layer = torch.nn.Module()
    q = torch.randn(1, 2, 8, 16, device=DEVICE, dtype=DTYPE)
    out, _ = attnjit.hf.attention_forward(layer, q, q, q, None, sliding_window=3)
    expected = attnjit.attention(q, q, q, causal="top-left", window=(2, -1))
    torch.testing.assert_close(out.transpose(1, 2), expected)
    last, _ = attnjit.hf.attention_forward(layer, q[:, :, -1:], q, q, None, sliding_window=3)
    torch.testing.assert_close(last.transpose(1, 2), expected[:, :, -1:])


@pytest.mark.parametrize("feature", ["cache", "output_attentions"])
def test_what_is_missing_is_named(feature):
    q = torch.randn(1, 2, 8, 16, device=DEVICE, dtype=DTYPE)
    with pytest.raises(NotImplementedError, match=f"{feature}: attnjit has no"):
        attnjit.hf.attention_forward(torch.nn.Module(), q, q, q, None, **{feature: True})


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (transformers.LlamaConfig(attention_dropout=0.1), "attention_dropout"),
        (transformers.BertConfig(), "attention_probs_dropout_prob"),
        (transformers.T5Config(), "dropout_rate"),
        (None, "attention_dropout"),
    ],
)
def test_dropout_says_how_to_turn_it_off(config, name):
    layer = torch.nn.Module()
    layer.config = config
    q = torch.randn(1, 2, 8, 16, device=DEVICE, dtype=DTYPE)
    with pytest.raises(
        NotImplementedError, match=f"^dropout: it is 0.1 in training; make the model with {name}=0,"
    ):
        attnjit.hf.attention_forward(layer, q, q, q, None, dropout=0.1)


def test_a_mask_of_numbers_beside_a_position_bias():
    layer = torch.nn.Module()
    q = torch.randn(1, 2, 8, 16, device=DEVICE, dtype=DTYPE)
    bias, mask = torch.randn(2, 1, 2, 8, 8, device=DEVICE, dtype=DTYPE)
    out, _ = attnjit.hf.attention_forward(layer, q, q, q, mask, position_bias=bias)
    torch.testing.assert_close(out.transpose(1, 2), attnjit.attention(q, q, q, bias=bias + mask))
