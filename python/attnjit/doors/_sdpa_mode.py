"""`attnjit.sdpa_mode`."""

from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from .._sdpa import sdpa
from ._served import count
from ._support import why_unserved


class sdpa_mode(TorchFunctionMode):
    """Serves calls of torch.nn.functional.scaled_dot_product_attention inside of a with statement.

        with attnjit.sdpa_mode():
            model(batch)

    It sees the mask and enable_gqa as the caller wrote them, so that grouped heads with a mask, which PyTorch
    computes from the formulas, are served too. What attnjit does not serve goes on to PyTorch;
    `attnjit.served` counts both.
    """

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is not scaled_dot_product_attention:
            return function(*args, **kwargs)
        reason = _why_not(*args, **kwargs)
        count("sdpa_mode", reason)
        return (sdpa if reason is None else function)(*args, **kwargs)


def _why_not(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
) -> str | None:
    if reason := why_unserved(query, key, value, dropout_p):
        return reason
    if query.shape[-3] != key.shape[-3] and not enable_gqa or attn_mask is not None and is_causal:
        return "arguments"
    return None
