"""Exact attention for PyTorch 2.10 and newer: on CPU and CUDA, with every gradient, in eager mode and compiled.

attention() has all options. scaled_dot_product_attention() and varlen_attn() have PyTorch's signatures. activate()
routes torch.nn.functional.scaled_dot_product_attention to Strobe.
"""

import torch
from torch.autograd import forward_ad

from . import _torch_ops

__all__ = ["activate", "attention", "restore", "scaled_dot_product_attention", "varlen_attn"]

_ALIGNMENTS = {None: 0, "top_left": 1, "bottom_right": 2}
_RANKS = {"bhsd": 4, "bshd": 4, "thd": 3}
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_NAN = float("nan")
_OTHERS = ("bias", "mask", "sinks", "alibi_slopes", "lengths_q", "lengths_k", "first_keys", "cu_seqlens_q",
           "cu_seqlens_k")
_NONE = (None,) * 10  # the optional tensors of the operators
is_direct = _torch_ops.is_direct
_is_compiling = torch.compiler.is_compiling
_is_autocast_enabled = torch._C._is_any_autocast_enabled


def attention(q, k, v, *, scale=None, causal=False, align=None, window=(-1, -1), softcap=0.0, alibi_slopes=None,
              bias=None, mask=None, sinks=None, dropout_p=0.0, generator=None, lengths_q=None, lengths_k=None,
              first_keys=None, cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=0, max_seqlen_k=0, layout="bhsd",
              return_lse=False, kernel=None, deterministic=True, batch_invariant=False, fallback=None):
    """Returns softmax(scale q k^T + bias) v; with return_lse also log(sum(exp(scores))), [B, Hq, Sq].

    Layouts: "bhsd" [B, H, S, D], "bshd" [B, S, H, D], "thd" [T, H, D] with cu_seqlens_q and cu_seqlens_k. B is the
    batch, H the heads, S the sequence length, D the head dimension and T the tokens of all sequences. Hq is a multiple
    of Hkv. bias broadcasts to [B, Hq, Sq, Sk] and gets a gradient. mask is boolean, True where a row uses a key. sinks
    and alibi_slopes are [Hq]; slopes may be [B, Hq]. align is "top_left" or "bottom_right"; with causal, a window or
    ALiBi it is required if Sq != Sk. The output has the memory order of q. With batch_invariant, the bits of a row do
    not depend on its batch, on chunking or on padding (forward, CPU). With fallback="sdpa", PyTorch computes problems
    that no kernel supports.
    """
    compiling = _is_compiling()
    extended = (bias is not None or mask is not None or sinks is not None or alibi_slopes is not None or lengths_q is not None
                or lengths_k is not None or first_keys is not None or cu_seqlens_q is not None or dropout_p != 0
                or cu_seqlens_k is not None)
    left, right = window
    if not (compiling or extended or fallback is not None) and layout == "bhsd" and align in _ALIGNMENTS and is_direct(q, k, v):
        result = _torch_ops.run_direct(q, k, v, (_NAN if scale is None else scale, softcap, causal, _ALIGNMENTS[align], left,
                                                 right, kernel or "", deterministic, batch_invariant), return_lse)
        if result is not None:
            return result if return_lse else result[0]
    if q.is_nested:
        _refuse(nested_lengths=lengths_q is not None or lengths_k is not None, bias=bias is not None,
                mask=mask is not None, layout=layout != "bhsd", return_lse=return_lse, fallback=fallback is not None)
        return _nested(q, k, v, scale=scale, causal=causal, align=align, window=window, softcap=softcap,
                       alibi_slopes=alibi_slopes, sinks=sinks, dropout_p=dropout_p, generator=generator, kernel=kernel,
                       deterministic=deterministic, batch_invariant=batch_invariant)
    if fallback is not None and fallback != "sdpa":
        raise ValueError(f"attention: fallback is {fallback!r}; valid: None, 'sdpa'")
    if compiling or _is_autocast_enabled():
        q, k, v, bias = _autocast(q, k, v, bias)
    others = (bias, mask, sinks, alibi_slopes, lengths_q, lengths_k, first_keys, cu_seqlens_q, cu_seqlens_k)
    if compiling or extended or not _is_common(q, k, v, layout, align):
        _check(q, k, v, layout, align, others)
    q4, k4, v4 = (q, k, v) if layout == "bhsd" else (_as_bhsd(one, layout) for one in (q, k, v))
    if extended:
        tensors = (q4, k4, v4, _bias_of(bias, k4), _mask_of(mask), _floats(sinks), _floats(alibi_slopes), lengths_q,
                   lengths_k, first_keys, cu_seqlens_q, cu_seqlens_k, _seed_of(dropout_p, generator))
    else:
        tensors = (q4, k4, v4, *_NONE)
    options = (_NAN if scale is None else float(scale), float(softcap), float(dropout_p), int(causal),
               _ALIGNMENTS[align], left, right, max_seqlen_q, max_seqlen_k, kernel or "", bool(deterministic),
               bool(batch_invariant))
    if fallback is None:
        o, lse = _torch_ops.run(tensors, options, return_lse)
    else:
        try:
            o, lse = _torch_ops.run(tensors, options, return_lse)
        except NotImplementedError:
            o, lse = _by_sdpa(tensors, options, window, return_lse), None
    if layout != "bhsd":
        o = o.transpose(1, 2) if layout == "bshd" else o[0].transpose(0, 1)
    if not return_lse:
        return o
    return o, lse[0] if layout == "thd" else lse


def _refuse(**given):
    for name, is_given in given.items():
        if is_given:
            raise NotImplementedError(f"attention: {name} is not supported for nested tensors")


def _is_common(q, k, v, layout, align):
    """Returns true if _check() would accept q, k and v. Cheaper than _check(), for calls without other tensors."""
    dtype, device, rank = q.dtype, q.device, _RANKS.get(layout)
    return (dtype in _DTYPES and k.dtype is dtype and v.dtype is dtype and k.device == device and v.device == device
            and q.dim() == rank and k.dim() == rank and v.dim() == rank and q.stride(-1) == 1 and k.stride(-1) == 1
            and v.stride(-1) == 1 and align in _ALIGNMENTS and forward_ad._current_level < 0
            and device.type in ("cpu", "cuda"))


def _autocast(q, k, v, bias):
    """Casts the tensors to autocast's dtype, as PyTorch does for its own attention.

    torch.library.register_autocast() cannot do it: it would also cast sinks, slopes and LSE, which must stay float32,
    and it acts inside the autograd.Function, which would save the tensors before the cast.
    """
    device = q.device.type
    if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):
        return q, k, v, bias
    dtype = torch.get_autocast_dtype(device)
    q, k, v = (one.to(dtype) if one.dtype != torch.float64 else one for one in (q, k, v))
    if bias is not None and bias.dtype not in (torch.float32, dtype):
        bias = bias.to(dtype)
    return q, k, v, bias


def _check(q, k, v, layout, align, others):
    """Checks what the operators assume: devices, dtypes and ranks."""
    if layout not in _RANKS:
        raise ValueError(f"attention: layout is {layout!r}; valid: 'bhsd', 'bshd', 'thd'")
    if align not in _ALIGNMENTS:
        raise ValueError(f"attention: align is {align!r}; valid: None, 'top_left', 'bottom_right'")
    rank = _RANKS[layout]
    for name, one in (("q", q), ("k", k), ("v", v)):
        if one.dim() != rank:
            raise ValueError(f"attention: {name} has {one.dim()} dimensions; valid for layout {layout!r}: {rank}")
        if one.dtype == torch.float64:
            raise NotImplementedError(f"attention: {name} is float64; valid: float32, float16, bfloat16")
        if one.dtype not in _DTYPES:
            raise TypeError(f"attention: {name} is {one.dtype}; valid: float32, float16, bfloat16")
        if one.dtype != q.dtype:
            raise TypeError(f"attention: {name} is {one.dtype} but q is {q.dtype}")
        if one.device != q.device:
            raise ValueError(f"attention: {name} is on {one.device} but q is on {q.device}")
        if one.stride(-1) != 1 and one.shape[-1] != 1:
            raise ValueError(f"attention: {name} has stride {one.stride(-1)} in its last dimension; valid: 1")
    for name, one in zip(_OTHERS, others):
        if one is not None and one.device != q.device:
            raise ValueError(f"attention: {name} is on {one.device} but q is on {q.device}")
    if q.device.type not in ("cpu", "cuda"):
        raise NotImplementedError(f"attention: q is on {q.device}; valid: cpu, cuda")
    if not torch.compiler.is_compiling() and forward_ad._current_level >= 0:
        for one in (q, k, v, *others):
            if one is not None and forward_ad.unpack_dual(one).tangent is not None:
                raise NotImplementedError("attention: no forward-mode derivative; valid: backward")


def _as_bhsd(tensor, layout):
    if layout == "bhsd":
        return tensor
    if layout == "bshd":
        return tensor.transpose(1, 2)
    return tensor.transpose(0, 1).unsqueeze(0)


def _four_dimensions(name, tensor):
    if tensor.dim() > 4:
        raise ValueError(f"attention: {name} has {tensor.dim()} dimensions; valid: at most 4")
    return tensor[(None,) * (4 - tensor.dim())] if tensor.dim() < 4 else tensor


def _bias_of(bias, k):
    if bias is None:
        return None
    if bias.dtype == torch.bool:
        raise TypeError("attention: bias is boolean; pass it as mask")
    bias = _four_dimensions("bias", bias)
    if bias.shape[3] == 1 and k.shape[2] != 1:
        bias = bias.expand(*bias.shape[:3], k.shape[2])
    return bias if bias.stride(3) == 1 else bias.contiguous()


def _mask_of(mask):
    if mask is None:
        return None
    if mask.dtype != torch.bool:
        raise TypeError(f"attention: mask is {mask.dtype}; valid: bool; pass numbers as bias")
    return _four_dimensions("mask", mask)


def _floats(tensor):
    return None if tensor is None else tensor.float().contiguous()


def _seed_of(dropout_p, generator):
    """Draws the dropout seed as a tensor in host memory. It depends on manual_seed and works with checkpointing and
    compilation. Returns None without dropout."""
    if dropout_p == 0:
        return None
    device = "cpu" if generator is None else generator.device
    return torch.randint(1 << 62, (), dtype=torch.int64, device=device, generator=generator).cpu()


def _by_sdpa(tensors, options, window, return_lse):
    q, k, v, bias, mask, *rest = tensors
    _, softcap, dropout_p, causal, align, *_ = options
    packed = any(one is not None for one in rest[:-1])
    if softcap or packed or tuple(window) != (-1, -1) or return_lse or (causal and (align == 2 or bias is not None)):
        raise NotImplementedError("attention: scaled_dot_product_attention does not support these options either")
    if mask is not None and (bias is not None or causal):
        raise NotImplementedError("attention: scaled_dot_product_attention takes one mask")
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=bias if mask is None else mask, dropout_p=dropout_p, is_causal=bool(causal),
        scale=None if options[0] != options[0] else options[0], enable_gqa=q.shape[1] != k.shape[1])


def _nested(q, k, v, **options):
    """Computes attention on jagged nested tensors [B, H, j, D] as packed sequences."""
    for name, one in (("q", q), ("k", k), ("v", v)):
        if not one.is_nested or one.layout != torch.jagged or one.dim() != 4:
            raise NotImplementedError(f"attention: {name} is not a jagged nested tensor [B, H, j, D]; q is nested")
    q, k, v = (one.transpose(1, 2) for one in (q, k, v))
    o = attention(q.values(), k.values(), v.values(), cu_seqlens_q=q.offsets(), cu_seqlens_k=k.offsets(),
                  max_seqlen_q=q._get_max_seqlen(), max_seqlen_k=k._get_max_seqlen(), layout="thd", **options)
    return torch.nested.nested_tensor_from_jagged(o, q.offsets()).transpose(1, 2)


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None,
                                 enable_gqa=False):
    """Replaces PyTorch's function. is_causal is aligned top-left. A boolean attn_mask is True where a row uses a key; a
    numeric one is added to the scores."""
    if attn_mask is not None and is_causal:
        raise ValueError("attention: attn_mask and is_causal are both given; valid: one of them")
    if query.is_nested:
        if attn_mask is not None:
            raise NotImplementedError("attention: attn_mask is not supported for nested tensors")
        return attention(query, key, value, dropout_p=dropout_p, causal=is_causal, align="top_left", scale=scale)
    if query.dim() == 4 and query.shape[:2] == key.shape[:2] == value.shape[:2] and attn_mask is None:
        return attention(query, key, value, dropout_p=dropout_p, causal=is_causal, align="top_left", scale=scale)
    batch = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3], value.shape[:-3])
    heads_q, heads_k = query.shape[-3:-2], key.shape[-3:-2]
    if not enable_gqa:
        heads_q = heads_k = torch.broadcast_shapes(heads_q, heads_k, value.shape[-3:-2])
    q, k, v = (_folded(one, batch, heads) for one, heads in
               ((query, heads_q), (key, heads_k), (value, heads_k)))
    mask = None if attn_mask is None else _folded_mask(attn_mask, batch, heads_q)
    if mask is not None and mask.dtype not in (torch.bool, torch.float32, query.dtype):
        mask = mask.to(query.dtype)
    is_mask = mask is not None and mask.dtype == torch.bool
    o = attention(q, k, v, dropout_p=dropout_p, causal=is_causal, align="top_left", scale=scale,
                  mask=mask if is_mask else None, bias=None if is_mask else mask)
    return o if query.dim() == 4 == o.dim() and len(batch) == 1 else o.reshape(*batch, *heads_q, *o.shape[2:])


def _folded(tensor, batch, heads):
    """Expands a tensor [..., H, L, E] or [L, E] to batch and heads, and returns it as [B, H, L, E]."""
    tensor = tensor.expand(*batch, *heads, *tensor.shape[-2:])
    if tensor.dim() < 4:
        tensor = tensor[(None,) * (4 - tensor.dim())]
    if tensor.dim() > 4:
        tensor = tensor.flatten(0, -4)
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _folded_mask(mask, batch, heads):
    """Returns the mask with at most four dimensions. A mask of two or three dimensions needs no expansion."""
    if len(batch) + len(heads) <= 2:
        return _four_dimensions("attn_mask", mask)
    return mask.expand(*batch, *heads, *mask.shape[-2:]).flatten(0, -4)


def varlen_attn(query, key, value, cu_seq_q, cu_seq_k, max_seqlen_q, max_seqlen_k, is_causal=False, return_aux=None, *, scale=None,
                window_size=(-1, -1), enable_gqa=False, seqused_k=None, block_table=None, num_splits=None):
    """Replaces PyTorch's function for packed sequences [T, H, D]. Causal masks and windows are aligned bottom-right."""
    for name, given in (("seqused_k", seqused_k), ("block_table", block_table), ("num_splits", num_splits)):
        if given is not None:
            raise NotImplementedError(f"attention: varlen_attn's {name} is not supported; valid: None")
    if not enable_gqa and query.shape[1] != key.shape[1]:
        raise ValueError(f"attention: {query.shape[1]} query heads and {key.shape[1]} KV heads need enable_gqa=True")
    o, lse = attention(query, key, value, causal=is_causal, align="bottom_right", scale=scale, window=window_size,
                       cu_seqlens_q=cu_seq_q, cu_seqlens_k=cu_seq_k, max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k,
                       layout="thd", return_lse=True)
    return (o, lse) if return_aux is not None and return_aux.lse else o


_registered = None  # the _Registration between activate() and restore()
_NAME = "strobe"


class _Registration:
    """Handle that PyTorch keeps while Strobe is the provider. remove() undoes the registration."""

    def __init__(self):
        self.library = torch.library.Library("aten", "IMPL")
        for key in ("CPU", "CUDA", "AutogradCPU", "AutogradCUDA"):
            self.library.impl("scaled_dot_product_attention", _as_aten, key)

    def remove(self):
        self.library._destroy()


def _as_aten(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    return scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale,
                                        enable_gqa=enable_gqa)


def activate():
    """Routes every call of torch.nn.functional.scaled_dot_product_attention to Strobe, until restore().

    Compiled code uses Strobe if it was compiled after activate() and before restore(). Calls that Strobe does not
    support raise an error.
    """
    global _registered
    if _registered is not None:
        return
    try:
        from torch.nn.attention import (activate_flash_attention_impl, list_flash_attention_impls,
                                        register_flash_attention_impl)
    except ImportError:
        activate_flash_attention_impl = None
    if activate_flash_attention_impl is None:
        _registered = _Registration()
        return
    if _NAME not in list_flash_attention_impls():
        register_flash_attention_impl(_NAME, register_fn=_register)
    activate_flash_attention_impl(_NAME)
    if _registered is None:  # torch 2.10 keeps the name active after restore()
        _register()


def _register(*_args, **_options):
    global _registered
    _registered = _Registration()
    return _registered


def restore():
    """Undoes activate()."""
    global _registered
    if _registered is None:
        return
    registration, _registered = _registered, None
    try:
        from torch.nn.attention import restore_flash_attention_impl
        restore_flash_attention_impl()
    except ImportError:  # torch 2.10
        registration.remove()
