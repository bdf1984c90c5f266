"""attnjit as an attention implementation of Hugging Face transformers 5:

attnjit.hf.register()
model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="attnjit", dtype=torch.bfloat16)
"""

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from ._attention import autocast, scalars_of
from ._autograd import attend
from ._call import Operands
from ._hf_masks import PackedMask, make_mask, within_sequences
from .doors._served import count

__all__ = ["attention_forward", "register"]

# Names of the dropout of attention in configurations; T5's dropout_rate is that of other layers too.
_DROPOUT_NAMES = ("attention_dropout", "attention_probs_dropout_prob", "attn_pdrop", "dropout_rate")


def register(name: str = "attnjit") -> None:
    """Makes attnjit known to transformers as attn_implementation=`name`, with the function that makes its masks:
    without that one, transformers would drop padding in silence."""
    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, make_mask)


def attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | PackedMask | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    cu_seq_lens_q: Tensor | None = None,
    cu_seq_lens_k: Tensor | None = None,
    **features,
) -> tuple[Tensor, None]:
    """Attention of a layer, as transformers calls it.

    Args:
        module: the layer; its is_causal counts where the argument is None.
        query: (batch, heads, length, width).
        key, value: (batch, key and value heads, length, width); not repeated.
        attention_mask: None, bool with True = keep, numbers to add, or the PackedMask of packed sequences, which
            says all that is_causal and sliding_window would.
        position_bias: added to the scores beside the mask, with a gradient.
        scaling: of the scores; 1 / sqrt(width) by default.
        is_causal: query i keeps keys j <= i, unless there is a mask, which then says so itself.
        sliding_window: keys of a causal row, itself included; likewise.
        softcap: c turns scaled scores s into c tanh(s / c), before bias and mask.
        s_aux: (heads,), sinks: a further score of each row of a head, without a key, with a gradient.
        cu_seq_lens_q, cu_seq_lens_k: bounds of packed sequences, (sequences + 1,), of rows and of keys. Causal
            rows end with their sequence's keys, and a mask drops those of other sequences too.

    Returns:
        (batch, length, heads, width), contiguous, and None for the weights.

    Raises:
        NotImplementedError: for a feature that attnjit lacks, with its name: dropout, cache (paged),
            output_attentions, position_bias of packed sequences. Otherwise as `attnjit.attention`.
    """
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    if isinstance(attention_mask, PackedMask):
        cu_seq_lens_q = cu_seq_lens_k = attention_mask.cu_seqlens
        is_causal, sliding_window = True, attention_mask.window
        attention_mask = None
    packed = cu_seq_lens_q is not None and cu_seq_lens_k is not None
    if packed and attention_mask is not None:
        attention_mask = within_sequences(attention_mask, cu_seq_lens_q, cu_seq_lens_k)
        packed = False
    _refuse_dropout(module, dropout)
    _refuse("position_bias of packed sequences", position_bias if packed else None)
    for name in ("cache", "output_attentions"):
        _refuse(name, features.get(name))
    is_causal = is_causal and attention_mask is None
    rows, keys = query.shape[2], key.shape[2]
    window = (sliding_window - 1, -1) if is_causal and sliding_window and sliding_window < keys else None
    if packed:
        scalars = scalars_of(scaling, "bottom-right" if is_causal else None, window, None, softcap)
    elif rows > 1:  # a cache that is longer than the rows has nothing behind them
        scalars = scalars_of(scaling, "top-left" if is_causal else None, window, None, softcap)
    else:  # the last one of its sequence
        scalars = scalars_of(scaling, None, window, "bottom-right" if window else None, softcap)
    is_mask = attention_mask is not None and not attention_mask.is_floating_point()
    bias = position_bias
    if attention_mask is not None and not is_mask:
        bias = attention_mask if bias is None else bias + attention_mask
    q, k, v, bias, sink = autocast(query, key, value, bias, s_aux)
    operands = Operands(attention_mask if is_mask else None, bias, sink)
    if packed:
        operands = operands._replace(cu_seqlens_q=cu_seq_lens_q.int(), cu_seqlens_kv=cu_seq_lens_k.int())
    out, *_ = attend(q, k, v, operands, scalars, sequence_major=True, deterministic=None)
    count("hf", None)
    return out.transpose(1, 2), None


def _refuse_dropout(module: nn.Module, dropout: float) -> None:
    if dropout:
        config = getattr(module, "config", None)
        name = next((name for name in _DROPOUT_NAMES if getattr(config, name, 0)), "attention_dropout")
        raise NotImplementedError(
            f"dropout: it is {dropout} in training; make the model with {name}=0, for attnjit has no dropout"
        )


def _refuse(name: str, value) -> None:
    if value is not None and value is not False:
        raise NotImplementedError(
            f"{name}: attnjit has no attention with it; use another attn_implementation"
        )
