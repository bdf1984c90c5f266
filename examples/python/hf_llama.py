"""A Llama type with grouped heads and a left-padded batch: transformers with attn_implementation="attnjit"."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import attnjit

attnjit.hf.register()
config = LlamaConfig(
    vocab_size=1000, hidden_size=512, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8,
    num_key_value_heads=2, pad_token_id=0, attn_implementation="attnjit",
)  # fmt: skip
model = LlamaForCausalLM(config).to("cuda", torch.bfloat16)

tokens = torch.randint(1, 1000, (2, 100), device="cuda")
keep = torch.ones_like(tokens)
keep[0, :40] = 0  # padding on the left
labels = tokens.masked_fill(keep == 0, -100)

loss = model(input_ids=tokens, attention_mask=keep, labels=labels).loss
loss.backward()
text = model.generate(tokens, attention_mask=keep, max_new_tokens=10, do_sample=False)
print(f"loss {loss.item():.3f}; generated {text.shape[1] - tokens.shape[1]} tokens; {attnjit.served()}")
