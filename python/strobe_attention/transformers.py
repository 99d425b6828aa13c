"""Attention for Hugging Face transformers.

    strobe_attention.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="strobe")

Causal masks, windows and packed sequences are passed as options; no mask tensor is created for them.
"""

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from .torch import attention as _attention

__all__ = ["register", "strobe_attention_forward", "strobe_mask"]


def register(name="strobe"):
    """Makes `attn_implementation=name` select Strobe."""
    AttentionInterface.register(name, strobe_attention_forward)
    AttentionMaskInterface.register(name, strobe_mask)


def strobe_mask(*args, allow_is_causal_skip=True, **kwargs):
    """Returns transformers' boolean mask [B, 1, Sq, Sk], or None if the causal and window options express it."""
    return sdpa_mask(*args, allow_is_causal_skip=allow_is_causal_skip, **kwargs)


def strobe_attention_forward(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None,
                             sliding_window=None, softcap=None, s_aux=None, position_bias=None, cu_seq_lens_q=None,
                             cu_seq_lens_k=None, max_length_q=None, max_length_k=None, **kwargs):
    """Implements transformers' attention function. query, key and value are [B, H, S, D]; returns ([B, S, H, D],
    None)."""
    options = {"scale": scaling, "dropout_p": dropout if module.training else 0.0, "softcap": softcap or 0.0,
               "sinks": s_aux}
    if cu_seq_lens_q is not None and query.shape[0] == 1 and query.shape[2] == key.shape[2]:
        return _packed(query, key, value, options, sliding_window, position_bias,
                       (cu_seq_lens_q, cu_seq_lens_k, max_length_q, max_length_k)), None
    bias, mask = _bias_and_mask(attention_mask, position_bias)
    if attention_mask is None:
        options.update(_causal_options(module, query, is_causal, sliding_window))
    o = _attention(query, key, value, bias=bias, mask=mask, **options)
    return o.transpose(1, 2).contiguous(), None


def _bias_and_mask(attention_mask, position_bias):
    """Returns (bias, mask): a boolean mask stays a mask, a numeric one is added to the bias."""
    if attention_mask is None:
        return position_bias, None
    if attention_mask.dtype == torch.bool:
        return position_bias, attention_mask
    return attention_mask if position_bias is None else position_bias + attention_mask, None


def _causal_options(module, query, is_causal, sliding_window):
    """Returns the mask options for a call without a mask: causal if the module is causal and the query has more than
    one row. transformers' window size includes the row itself."""
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    is_causal = bool(is_causal) and query.shape[2] > 1
    window = (-1, -1)
    if sliding_window is not None and is_causal:
        window = (sliding_window - 1, 0)
    return {"causal": is_causal, "window": window, "align": "bottom_right" if query.shape[2] > 1 else "top_left"}


def _packed(query, key, value, options, sliding_window, position_bias, lengths):
    """Computes attention on packed rows, whose sequences do not attend to each other."""
    if position_bias is not None:
        raise NotImplementedError("attention: position_bias with packed sequences is not supported")
    cu_seq_lens_q, cu_seq_lens_k, max_length_q, max_length_k = lengths
    window = (-1, -1) if sliding_window is None else (sliding_window - 1, 0)
    o = _attention(*(one[0].transpose(0, 1) for one in (query, key, value)), causal=True, window=window,
                   align="bottom_right", cu_seqlens_q=cu_seq_lens_q, cu_seqlens_k=cu_seq_lens_k,
                   max_seqlen_q=int(max_length_q or 0), max_seqlen_k=int(max_length_k or 0), layout="thd", **options)
    return o.unsqueeze(0).contiguous()
