"""vLLM's attention over the tokens of prompts by attnjit."""

import torch

import attnjit


def context_attention_fwd(
    q,
    k,
    v,
    o,
    b_start_loc,
    b_seq_len,
    max_input_len,
    is_causal=True,
    softmax_scale=None,
    sliding_window_q=None,
    sliding_window_k=None,
):
    """q, k, v (tokens, heads, width) of sequences behind one another; writes o. A window of 0 or None is open."""
    end = b_start_loc[-1:] + b_seq_len[-1:]
    begins = torch.cat([b_start_loc, end]).int()
    window = (sliding_window_q or -1, sliding_window_k or -1)
    o.copy_(
        attnjit.flash_attn_varlen_func(
            q, k, v, begins, begins, max_input_len, max_input_len, 0.0, softmax_scale, is_causal, window
        )
    )
