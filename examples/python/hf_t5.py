"""T5: its position bias stays an operand beside the padding mask, and learns."""

import torch
from transformers import T5Config, T5ForConditionalGeneration

import attnjit

attnjit.hf.register()
config = T5Config(
    vocab_size=1000, d_model=512, d_kv=64, d_ff=1024, num_layers=4, num_heads=8, dropout_rate=0.0,
    decoder_start_token_id=0, attn_implementation="attnjit",
)  # fmt: skip
model = T5ForConditionalGeneration(config).to("cuda", torch.bfloat16).train()

tokens = torch.randint(1, 1000, (2, 120), device="cuda")
keep = torch.ones_like(tokens)
keep[1, 80:] = 0  # padding
labels = torch.randint(1, 1000, (2, 30), device="cuda")

loss = model(input_ids=tokens, attention_mask=keep, labels=labels).loss
loss.backward()
table = model.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight
print(
    f"loss {loss.item():.3f}; gradient of the position bias {table.grad.norm().item():.2e}; {attnjit.served()}"
)
assert table.grad.any()
