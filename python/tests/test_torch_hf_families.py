"""Families of models of transformers with random weights through attnjit, against their own eager attention: steps of
training with padding, and generation. On a GPU if there is one, else on CPU tensors."""

import pytest
import torch

transformers = pytest.importorskip("transformers", minversion="5")

import hf_models
from hf_models import CLOSE, DEVICE, DTYPE, IMAGE_TOKEN, ON_GPU, assert_same, batch, prepared, served, use

if not ON_GPU:
    pytestmark = pytest.mark.usefixtures("cpu_kernels")


def normal(*shape):
    torch.manual_seed(3)
    return torch.randn(shape, device=DEVICE, dtype=DTYPE)


def numbers(*shape):
    torch.manual_seed(4)
    return torch.randint(1, 99, shape, device=DEVICE)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("make", hf_models.DECODERS)
def test_decoders(make, side):
    tokens, keep = batch(side)
    # Neither padding nor the first token after it, which a row of padding predicts.
    is_label = keep.bool() & keep.roll(1, 1).bool()
    labels = tokens.masked_fill(~is_label, -100)
    assert_same(prepared(make), 2, keep.bool(), input_ids=tokens, attention_mask=keep, labels=labels)


@pytest.mark.parametrize("make", hf_models.DECODERS)
def test_decoders_without_padding(make):
    tokens = numbers(2, 12)
    assert_same(prepared(make), 2, input_ids=tokens, labels=tokens)


def test_gemma3_with_an_image():
    """Tokens of an image see each other."""
    tokens = numbers(2, 12)
    tokens[:, 3:7] = IMAGE_TOKEN
    of_image = (tokens == IMAGE_TOKEN).int()
    model = prepared(hf_models.gemma3_of_images)
    assert_same(
        model, 4, input_ids=tokens, labels=tokens, token_type_ids=of_image, pixel_values=normal(2, 3, 32, 32)
    )


def test_t5():
    """With the gradient of the position bias."""
    tokens, keep = batch("right")
    decoder_tokens, decoder_keep = batch("right", rows=9)
    labels = decoder_tokens.masked_fill(decoder_keep == 0, -100)
    model = prepared(hf_models.t5)
    assert_same(
        model, 6, input_ids=tokens, attention_mask=keep, labels=labels, decoder_attention_mask=decoder_keep
    )
    assert any("relative_attention_bias" in name for name, _ in model.named_parameters())


def test_whisper():
    tokens, keep = batch("right", rows=9)
    labels = tokens.masked_fill(keep == 0, -100)
    model = prepared(hf_models.whisper)
    features = normal(3, 8, 24)
    assert_same(model, 6, input_features=features, labels=labels, decoder_attention_mask=keep)


@pytest.mark.parametrize("make", [hf_models.bert, hf_models.modernbert])
@pytest.mark.parametrize("padded", [False, True])
def test_encoders(make, padded):
    tokens, keep = batch("right") if padded else (numbers(2, 12), torch.ones(2, 12, device=DEVICE, dtype=int))
    labels = tokens.masked_fill(keep == 0, -100)
    assert_same(prepared(make), 2, keep.bool(), input_ids=tokens, attention_mask=keep, labels=labels)


def test_vit():
    labels = torch.tensor([0, 1], device=DEVICE)
    assert_same(prepared(hf_models.vit), 2, pixel_values=normal(2, 3, 32, 32), labels=labels)


def test_swin_v2_computes_its_attention_itself():
    labels = torch.tensor([0, 1], device=DEVICE)
    assert_same(prepared(hf_models.swinv2), 0, pixel_values=normal(2, 3, 32, 32), labels=labels)


def inputs_of(make):
    """What `generate` reads of a model of each kind."""
    if make is hf_models.whisper:
        return {"input_features": normal(3, 8, 24)}
    tokens, keep = batch("right" if make is hf_models.t5 else "left")
    return {"input_ids": tokens, "attention_mask": keep}


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("make", [*hf_models.DECODERS, hf_models.t5, hf_models.whisper])
def test_generation(make, cache):
    """Logits of every step, with the tokens that eager attention chose: enough of them to leave a window of 4."""
    model = prepared(make).eval()
    inputs = inputs_of(make)

    def generate(implementation, allowed=None):
        use(model, implementation)
        return model.generate(
            **inputs, max_new_tokens=6, do_sample=False, cache_implementation=cache, output_logits=True,
            return_dict_in_generate=True, disable_compile=True, prefix_allowed_tokens_fn=allowed,
        )  # fmt: skip

    expected = generate("eager")
    before = served()
    found = generate("attnjit", lambda sample, tokens: [expected.sequences[sample, len(tokens)].item()])
    assert served() > before and len(found.logits) == 6
    torch.testing.assert_close(found.logits, expected.logits, **CLOSE)
