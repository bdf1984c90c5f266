"""`attnjit.nn.Attention`."""

from torch import Tensor, nn

from .._attention import Diagonal, attention, scalars_of, sides


class Attention(nn.Module):
    """`attnjit.attention` with options that stay the same from call to call, as a layer of a model.

    Args:
        causal, window, diagonal, diagonal_offset, scale, softcap, score, keep, return_lse, return_row_max,
            return_max_logits, deterministic: those of `attnjit.attention`.

    Raises:
        ValueError: options that contradict one another.
        TypeError: a window that is not two integers.

    It has no parameters, so that it adds nothing to a state dict: a learned sink, bias or operand is a parameter of the
    module around it and comes with each call.
    """

    def __init__(
        self,
        *,
        causal: Diagonal | None = None,
        window: tuple[int, int] | None = None,
        diagonal: Diagonal | None = None,
        diagonal_offset: int = 0,
        scale: float | None = None,
        softcap: float | None = None,
        score: str | None = None,
        keep: str | None = None,
        return_lse: bool = False,
        return_row_max: bool = False,
        return_max_logits: bool = False,
        deterministic: bool | None = None,
    ):
        super().__init__()
        if window is not None:
            window = sides("window", window)
        scalars_of(scale, causal, window, diagonal)
        self.options = {
            "causal": causal,
            "window": window,
            "diagonal": diagonal,
            "diagonal_offset": diagonal_offset,
            "scale": scale,
            "softcap": softcap,
            "score": score,
            "keep": keep,
            "return_lse": return_lse,
            "return_row_max": return_row_max,
            "return_max_logits": return_max_logits,
            "deterministic": deterministic,
        }

    def forward(self, q: Tensor, k: Tensor, v: Tensor, **operands) -> Tensor | tuple[Tensor, ...]:
        """Attention of a call.

        Args:
            q: (B, Hq, Lq, D), fp16 or bf16, on a CUDA device.
            k, v: (B, Hkv, Lk, D) and (B, Hkv, Lk, Dv), q's dtype.
            operands: the other arguments of `attnjit.attention`, by name: mask, bias, sink, alibi_slopes, lengths,
                block_table, tail_mask, operands, row_offset, key_offset.

        Returns:
            (B, Hq, Lq, Dv) in q's dtype, or a tuple, as `attnjit.attention`.

        Raises:
            TypeError: an option that the module keeps. Otherwise as `attnjit.attention`.
        """
        return attention(q, k, v, **operands, **self.options)

    def extra_repr(self) -> str:
        """The options that are not the default."""
        defaults = Attention.__init__.__kwdefaults__
        return ", ".join(f"{name}={v!r}" for name, v in self.options.items() if v != defaults[name])
