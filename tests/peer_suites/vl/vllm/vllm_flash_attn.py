"""vLLM's call of FlashAttention by attnjit, for keys that lie in pages."""

import attnjit


def is_fa_version_supported(version):
    return version == 2


def fa_version_unsupported_reason(version):
    return "attnjit is one version, which takes the tests of FlashAttention 2"


def flash_attn_varlen_func(
    q,
    k,
    v,
    max_seqlen_q,
    cu_seqlens_q,
    max_seqlen_k,
    seqused_k,
    block_table,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    out=None,
    fa_version=2,
    q_descale=None,
    k_descale=None,
    v_descale=None,
):
    """q (tokens, heads, width) against pages (pages, page size, heads, width); copied into `out` where that is given."""
    found = attnjit.attention(
        q.transpose(0, 1).unsqueeze(0),
        k.transpose(1, 2),
        v.transpose(1, 2),
        cu_seqlens_q=cu_seqlens_q,
        seqlens_kv=seqused_k,
        block_table=block_table,
        scale=softmax_scale,
        causal="bottom-right" if causal else None,
        window=None if tuple(window_size) == (-1, -1) else tuple(window_size),
        diagonal="bottom-right",
        softcap=softcap,
    )
    found = found.squeeze(0).transpose(0, 1)
    return found if out is None else out.copy_(found)
