def apply_rotary_emb(*arguments, **options):
    raise NotImplementedError(
        "asked for with new keys alone, which attnjit.flash_attn_with_kvcache does not append"
    )
