"""Models of transformers with tiny random configurations, and their results by eager attention and by attnjit."""

import torch
import transformers

import attnjit
import attnjit.hf

ON_GPU = torch.cuda.is_available()
DEVICE, DTYPE = ("cuda", torch.bfloat16) if ON_GPU else ("cpu", torch.float32)
# Eager attention in bf16 rounds its scores; attnjit does not.
CLOSE = {"rtol": 0.05, "atol": 0.05} if ON_GPU else {"rtol": 1e-4, "atol": 1e-5}

_SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
_TOKENS = {"vocab_size": 100, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
_GROUPED = {"num_key_value_heads": 2, "max_position_embeddings": 64}
_WINDOWS = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4}
_IMAGES = {"image_size": 32, "patch_size": 4, "num_channels": 3}


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**_SIZES, **_TOKENS, **_GROUPED))


def qwen3():
    return transformers.Qwen3ForCausalLM(
        transformers.Qwen3Config(**_SIZES, **_TOKENS, **_GROUPED, head_dim=16)
    )


def mistral():
    config = transformers.MistralConfig(**_SIZES, **_TOKENS, **_GROUPED, sliding_window=4)
    return transformers.MistralForCausalLM(config)


def phi():
    return transformers.PhiForCausalLM(transformers.PhiConfig(**_SIZES, **_TOKENS, **_GROUPED))


def gemma2():
    config = transformers.Gemma2Config(
        **_SIZES, **_TOKENS, **_GROUPED, **_WINDOWS, head_dim=16, attn_logit_softcapping=2.0,
        query_pre_attn_scalar=1,
    )  # fmt: skip
    return transformers.Gemma2ForCausalLM(config)


def _gemma3_text():
    return transformers.Gemma3TextConfig(**_SIZES, **_TOKENS, **_GROUPED, **_WINDOWS, head_dim=16)


def gemma3():
    return transformers.Gemma3ForCausalLM(_gemma3_text())


def gemma3_of_images():
    images = transformers.SiglipVisionConfig(**_SIZES, **_IMAGES, vision_use_head=False)
    config = transformers.Gemma3Config(
        text_config=_gemma3_text(), vision_config=images, mm_tokens_per_image=4, image_token_index=IMAGE_TOKEN
    )
    model = transformers.Gemma3ForConditionalGeneration(config)
    # Its zeros would multiply rounding errors of the images' gradients by a thousand, in the norm after them.
    torch.nn.init.normal_(model.model.multi_modal_projector.mm_input_projection_weight, std=0.1)
    return model


def gpt_oss():
    config = transformers.GptOssConfig(
        **_SIZES, **_TOKENS, **_GROUPED, **_WINDOWS, head_dim=16, num_local_experts=2, num_experts_per_tok=1
    )
    return transformers.GptOssForCausalLM(config)


def t5():
    config = transformers.T5Config(
        vocab_size=100, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4, dropout_rate=0.0,
        decoder_start_token_id=0, eos_token_id=None,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config)


def whisper():
    config = transformers.WhisperConfig(
        vocab_size=100, d_model=64, num_mel_bins=8, max_source_positions=12, max_target_positions=32,
        encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=96, decoder_ffn_dim=96, dropout=0.0, pad_token_id=0, bos_token_id=1, eos_token_id=None,
        decoder_start_token_id=2, suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    return transformers.WhisperForConditionalGeneration(config)


def bert():
    config = transformers.BertConfig(
        **_SIZES, vocab_size=100, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    return transformers.BertForMaskedLM(config)


def modernbert():
    config = transformers.ModernBertConfig(
        **_SIZES, **_TOKENS, local_attention=4, layer_types=["full_attention", "sliding_attention"],
        cls_token_id=1, sep_token_id=2,
    )  # fmt: skip
    return transformers.ModernBertForMaskedLM(config)


def vit():
    return transformers.ViTForImageClassification(transformers.ViTConfig(**_SIZES, **_IMAGES))


def swinv2():
    config = transformers.Swinv2Config(
        **_IMAGES, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, drop_path_rate=0.0
    )
    return transformers.Swinv2ForImageClassification(config)


DECODERS = [llama, qwen3, mistral, phi, gemma2, gemma3, gpt_oss]
IMAGE_TOKEN = 99


def prepared(make):
    """A model that `make` makes, with the same weights each time, in training."""
    attnjit.hf.register()
    torch.manual_seed(0)
    return make().to(DEVICE, DTYPE).train()


def batch(side, rows=12):
    """Tokens (3, rows) with 0, 3 and 7 of padding at a side, and which are none."""
    torch.manual_seed(1)
    tokens = torch.randint(1, IMAGE_TOKEN, (3, rows), device=DEVICE)
    keep = torch.ones_like(tokens)
    for sample, padding in enumerate((0, 3, 7)):
        keep[sample, slice(None, padding) if side == "left" else slice(rows - padding, None)] = 0
    return tokens * keep, keep


def use(model, implementation):
    """Sets what computes attention, in parts that have a config of their own too: transformers 5.17 leaves out
    T5's encoder and decoder."""
    model.set_attn_implementation(implementation)
    for part in model.modules():
        if hasattr(part, "config"):
            part.config._attn_implementation = implementation


def results(model, implementation, keep=..., **inputs):
    """Logits of tokens that are not padding, loss and gradients."""
    use(model, implementation)
    model.zero_grad()
    output = model(**inputs)
    output.loss.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return output.logits[keep], output.loss, gradients


def served():
    """Calls of attention_forward up to now."""
    return attnjit.served().get("hf", {}).get("served", 0)


def assert_same(model, calls, keep=..., **inputs):
    """Compares a step by attnjit, in which the model calls it `calls` times, with one by eager attention."""
    before = served()
    found = results(model, "attnjit", keep, **inputs)
    assert served() - before == calls
    torch.testing.assert_close(found, results(model, "eager", keep, **inputs), **CLOSE)
