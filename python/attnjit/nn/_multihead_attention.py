"""`attnjit.nn.MultiheadAttention`."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from .._attention import attention
from ..doors._served import count
from ..doors._support import why_no_kernel


class MultiheadAttention(nn.MultiheadAttention):
    """torch.nn.MultiheadAttention whose attention runs in attnjit's kernels: the same constructor, parameters, state
    dict and meaning of the arguments.

    Calls of fp16 or bf16 on a CUDA device, or in such an autocast region, with need_weights=False and without dropout
    go to `attnjit.attention`. All others (need_weights=True, which is the default of `forward`; dropout > 0 in
    training; fp32; heads of more than 256 columns; other devices; nested tensors) run in PyTorch as they do in its own
    module. `attnjit.served` counts both as "nn", and a warning tells of the first call for each reason.

    In attnjit's kernels a row that keeps no key has the attention 0, so that its output is the bias of out_proj.
    PyTorch gives NaN where it returns weights and on its fast path in eval mode, and 0 elsewhere. The
    keys of add_bias_kv and add_zero_attn are kept by every row, while PyTorch drops them from causal ones where it
    takes the hint is_causal. TorchScript is not supported.
    """

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attention of a layer, with N the batch and H the heads.

        Args:
            query: (L, N, E), (N, L, E) if batch_first, or (L, E).
            key: (S, N, kdim), (N, S, kdim) if batch_first, or (S, kdim).
            value: (S, N, vdim), (N, S, vdim) if batch_first, or (S, vdim).
            key_padding_mask: (N, S), or (S,) beside a query of two axes. bool, True drops a key; or numbers that are
                added to its scores.
            need_weights: whether PyTorch computes the call and returns its weights.
            attn_mask: (L, S) or (N * H, L, S). bool, True drops; or numbers that are added to the scores, of the dtype
                of the projected query or fp32. The two masks need not be of one type.
            average_attn_weights: whether weights are averaged over heads.
            is_causal: says that attn_mask is the causal mask, query i keeping keys j <= i. attn_mask must be given
                and is not read unless there is a key_padding_mask or add_bias_kv.

        Returns:
            The output, of query's shape, and the weights, or None unless need_weights. Gradients of all parameters,
            inputs and masks of numbers are computed where they are required.

        Raises:
            ValueError: a shape that breaks a rule, is_causal without attn_mask.
            TypeError: a mask that is neither bool nor of floating-point numbers.
            Otherwise as `attnjit.attention`. What PyTorch computes raises as PyTorch does.
        """
        reason = self._why_unserved(query, key, value, need_weights)
        count("nn", reason)
        if reason is not None:
            return super().forward(
                query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
            )
        if query.dim() not in (2, 3) or key.dim() != query.dim() or value.dim() != query.dim():
            raise ValueError(
                f"query, key, value: they have {query.dim()}, {key.dim()} and {value.dim()} axes; expected 3 of all,"
                " or 2 without a batch"
            )
        if is_causal and attn_mask is None:
            raise ValueError("is_causal: it says that attn_mask is the causal mask, and there is none")
        is_batched = query.dim() == 3
        q, k, v = self._project(query, key, value)
        if not is_batched:
            q, k, v = (t.unsqueeze(0) for t in (q, k, v))
        elif not self.batch_first:
            q, k, v = (t.transpose(0, 1) for t in (q, k, v))

        takes_hint = is_causal and key_padding_mask is None and self.bias_k is None
        batch, rows, keys = q.shape[0], q.shape[1], k.shape[1]
        if key_padding_mask is not None:
            _expect("key_padding_mask", key_padding_mask, (batch, keys) if is_batched else (keys,))
            key_padding_mask = key_padding_mask.reshape(batch, 1, 1, keys)
        if attn_mask is not None:
            _expect("attn_mask", attn_mask, (rows, keys), (batch * self.num_heads, rows, keys))
            attn_mask = attn_mask if attn_mask.dim() == 2 else attn_mask.unflatten(0, (batch, self.num_heads))
        dropped, bias = _merged(key_padding_mask, None if takes_hint else attn_mask)
        if self.bias_k is not None:
            pairs = (k, self.bias_k), (v, self.bias_v)
            k, v = (torch.cat([t, one.expand(batch, 1, -1)], 1) for t, one in pairs)
            dropped, bias = (t if t is None else pad(t, (0, 1)) for t in (dropped, bias))
        out = attention(
            *(t.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2) for t in (q, k, v)),
            mask=None if dropped is None else ~dropped,
            bias=bias,
            sink=q.new_zeros(self.num_heads) if self.add_zero_attn else None,
            causal="top-left" if takes_hint else None,
        )
        out = out.transpose(1, 2).flatten(2)
        if not is_batched:
            out = out.squeeze(0)
        elif not self.batch_first:
            out = out.transpose(0, 1).contiguous()
        return linear(out, self.out_proj.weight, self.out_proj.bias), None

    def _why_unserved(self, query: Tensor, key: Tensor, value: Tensor, need_weights: bool) -> str | None:
        """A word or two on what keeps a call from attnjit, or None."""
        if need_weights:
            return "need_weights"
        if self.training and self.dropout > 0:
            return "dropout"
        if query.is_nested or key.is_nested or value.is_nested:
            return "nested tensors"
        dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else query.dtype
        return why_no_kernel(query, dtype, self.head_dim)

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """q, k and v with embed_dim columns, by one product where they are of one tensor."""
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        if self.in_proj_weight is None:
            weights = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        elif query is key and key is value:
            return linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        else:
            weights = self.in_proj_weight.chunk(3)
        return tuple(map(linear, (query, key, value), weights, biases))


def _expect(name: str, mask: Tensor, *shapes: tuple[int, ...]) -> None:
    if mask.shape not in shapes:
        expected = " or ".join(map(str, shapes))
        raise ValueError(f"{name}: its shape is {tuple(mask.shape)}; expected {expected}")
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise TypeError(f"{name}: dtype is {mask.dtype}; expected bool or floating-point numbers")


def _merged(*masks: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Which pairs are dropped, and what is added to their scores, each None without a mask of its kind."""
    dropped = bias = None
    for mask in masks:
        if mask is None:
            continue
        if mask.dtype == torch.bool:
            dropped = mask if dropped is None else dropped | mask
        else:
            bias = mask if bias is None else bias + mask
    return dropped, bias
