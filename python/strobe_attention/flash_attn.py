"""The functions of flash_attn, with its signatures and alignment: causal masks and windows are aligned bottom-right.

Tensors are [batch, sequence, heads, head dimension]; packed tensors are [tokens, heads, head dimension]. The functions
also run on the CPU and in float32. `deterministic` applies to the backward on CUDA; the CPU backward is always
deterministic.
"""

import torch as _torch

from .torch import attention as _attention

__all__ = ["flash_attn_func", "flash_attn_kvpacked_func", "flash_attn_qkvpacked_func", "flash_attn_varlen_func",
           "flash_attn_varlen_kvpacked_func", "flash_attn_varlen_qkvpacked_func", "flash_attn_with_kvcache"]


def _refuse(**given):
    for name, value in given.items():
        if value is not None:
            raise NotImplementedError(f"flash_attn: {name} is not supported; valid: None")


def _result(q, k, v, return_attn_probs, **options):
    """Returns O, or (O, LSE, None) with return_attn_probs. The third value would be the probabilities, which are not
    available."""
    o, lse = _attention(q, k, v, align="bottom_right", return_lse=True, **options)
    return (o, lse, None) if return_attn_probs else o


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                    alibi_slopes=None, deterministic=False, return_attn_probs=False):
    return _result(q, k, v, return_attn_probs, dropout_p=dropout_p, scale=softmax_scale, causal=causal,
                   window=window_size, softcap=softcap, alibi_slopes=alibi_slopes, deterministic=deterministic,
                   layout="bshd")


def flash_attn_kvpacked_func(q, kv, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                             alibi_slopes=None, deterministic=False, return_attn_probs=False):
    return flash_attn_func(q, kv[:, :, 0], kv[:, :, 1], dropout_p, softmax_scale, causal, window_size, softcap,
                           alibi_slopes, deterministic, return_attn_probs)


def flash_attn_qkvpacked_func(qkv, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                              alibi_slopes=None, deterministic=False, return_attn_probs=False):
    return flash_attn_func(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], dropout_p, softmax_scale, causal, window_size,
                           softcap, alibi_slopes, deterministic, return_attn_probs)


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
                           softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                           deterministic=False, return_attn_probs=False, block_table=None):
    _refuse(block_table=block_table)
    return _result(q, k, v, return_attn_probs, dropout_p=dropout_p, scale=softmax_scale, causal=causal,
                   window=window_size, softcap=softcap, alibi_slopes=alibi_slopes, deterministic=deterministic,
                   cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, max_seqlen_q=int(max_seqlen_q),
                   max_seqlen_k=int(max_seqlen_k), layout="thd")


def flash_attn_varlen_kvpacked_func(q, kv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
                                    softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                                    alibi_slopes=None, deterministic=False, return_attn_probs=False):
    return flash_attn_varlen_func(q, kv[:, 0], kv[:, 1], cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k,
                                  dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic,
                                  return_attn_probs)


def flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, dropout_p=0.0, softmax_scale=None, causal=False,
                                     window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False,
                                     return_attn_probs=False):
    return flash_attn_varlen_func(qkv[:, 0], qkv[:, 1], qkv[:, 2], cu_seqlens, cu_seqlens, max_seqlen, max_seqlen,
                                  dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic,
                                  return_attn_probs)


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
                            cache_batch_idx=None, cache_leftpad=None, block_table=None, softmax_scale=None,
                            causal=False, window_size=(-1, -1), softcap=0.0, rotary_interleaved=True,
                            alibi_slopes=None, num_splits=0, return_softmax_lse=False):
    """Computes attention of q on the KV caches. Ignores num_splits, because the library chooses the number of
    splits."""
    _refuse(k=k, v=v, rotary_cos=rotary_cos, rotary_sin=rotary_sin, block_table=block_table)
    if cache_batch_idx is not None:
        k_cache, v_cache = (cache.index_select(0, cache_batch_idx.long()) for cache in (k_cache, v_cache))
    if isinstance(cache_seqlens, int):
        cache_seqlens = _torch.full((q.shape[0],), cache_seqlens, dtype=_torch.int32, device=q.device)
    with _torch.no_grad():
        o, lse = _attention(q, k_cache, v_cache, align="bottom_right", scale=softmax_scale, causal=causal,
                            window=window_size, softcap=softcap, alibi_slopes=alibi_slopes, lengths_k=cache_seqlens,
                            first_keys=cache_leftpad, layout="bshd", return_lse=True)
    return (o, lse) if return_softmax_lse else o
