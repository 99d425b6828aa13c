"""Exact attention on arrays of NumPy and of libraries that support DLPack.

attention() computes on the CPU, without gradients. strobe_attention.torch, .flash_attn, .transformers and .jax are
separate modules: importing this one imports none of those libraries.
"""

import operator as _operator
import sys as _sys

from . import _core

__all__ = ["attention", "explain", "kernel_names", "version"]

_LAYOUTS = {"bhsd": 0, "bshd": 1, "thd": 2}
_ALIGNMENTS = {None: 0, "top_left": 1, "bottom_right": 2}
_DEVICES = {"cpu": 0, "cuda": 1}
_NAN = float("nan")

__version__ = _core.version()


def version():
    """Returns the version of the library, such as "0.1.0"."""
    return _core.version()


def kernel_names(device="cpu"):
    """Returns the names of the kernels of a device, "cpu" or "cuda", in the order in which they are tried."""
    return _core.kernel_names(_choice("device", device, _DEVICES)).split()


def _choice(name, value, choices):
    try:
        return choices[value]
    except (KeyError, TypeError):
        valid = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"attention: {name} is {value!r}; valid: {valid}") from None


def _refuse_gradients(**arrays):
    for name, array in arrays.items():
        if getattr(array, "requires_grad", False):
            raise ValueError(f"attention: {name} requires a gradient, which DLPack loses; use strobe_attention.torch")


def _call(q, k, v, scale, causal, align, window, softcap, alibi_slopes, bias, mask, sinks, dropout_p, seed, lengths_q,
          lengths_k, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, layout, kernel, batch_invariant=False):
    for name, array in (("q", q), ("k", k), ("v", v)):
        if not hasattr(array, "__dlpack__"):
            raise TypeError(f"attention: {name} is a {type(array).__name__}; valid: an array of NumPy or with DLPack")
    left, right = window
    return _core.Call(q, k, v, _choice("layout", layout, _LAYOUTS), bias, mask, sinks, alibi_slopes, lengths_q,
                      lengths_k, cu_seqlens_q, cu_seqlens_k, _NAN if scale is None else scale, softcap, dropout_p,
                      seed, bool(causal), _choice("align", align, _ALIGNMENTS), _operator.index(left),
                      _operator.index(right), max_seqlen_q, max_seqlen_k, kernel or "", bool(batch_invariant))


def _seed_of(dropout_p, generator):
    """Returns a 64-bit seed from a numpy.random.Generator, or from the operating system; 0 without dropout."""
    if dropout_p == 0:
        return 0
    if generator is None:
        import secrets
        return secrets.randbits(63)
    return int(generator.integers(1 << 63))


def attention(q, k, v, *, scale=None, causal=False, align=None, window=(-1, -1), softcap=0.0, alibi_slopes=None,
              bias=None, mask=None, sinks=None, dropout_p=0.0, generator=None, lengths_q=None, lengths_k=None,
              cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=0, max_seqlen_k=0, layout="bhsd", return_lse=False,
              kernel=None, deterministic=True, batch_invariant=False):
    """Returns softmax(scale q k^T + bias) v for arrays in host memory; with return_lse also log(sum(exp(scores))).

    q is [B, Hq, Sq, D], k [B, Hkv, Sk, D] and v [B, Hkv, Sk, Dv] in the layout "bhsd"; [B, S, H, D] in "bshd"; packed
    [T, H, D] with cu_seqlens_q and cu_seqlens_k in "thd". B is the batch, H the heads, S the sequence length, D the
    head dimension and T the tokens of all sequences. mask is boolean, True where a row uses a key. align is "top_left"
    or "bottom_right"; with causal, a window or ALiBi it is required if Sq != Sk. The result has the memory order of q
    and is an array of q's library.
    """
    numpy = _sys.modules.get("numpy")
    is_numpy = numpy is not None and type(q) is numpy.ndarray
    if (is_numpy and type(k) is numpy.ndarray and type(v) is numpy.ndarray and layout == "bhsd" and not return_lse
            and dropout_p == 0 and bias is mask is sinks is alibi_slopes is lengths_q is lengths_k is cu_seqlens_q
            is cu_seqlens_k is None and align in _ALIGNMENTS and q.flags.c_contiguous):
        left, right = window
        o = numpy.empty_like(q)
        if _core.forward_into(o, q, k, v, _NAN if scale is None else scale, softcap, bool(causal), _ALIGNMENTS[align],
                              _operator.index(left), _operator.index(right), kernel or "", bool(batch_invariant)):
            return o
    if not is_numpy:
        _refuse_gradients(q=q, k=k, v=v, bias=bias, sinks=sinks)
    call = _call(q, k, v, scale, causal, align, window, softcap, alibi_slopes, bias, mask, sinks, dropout_p,
                 _seed_of(dropout_p, generator), lengths_q, lengths_k, cu_seqlens_q, cu_seqlens_k, max_seqlen_q,
                 max_seqlen_k, layout, kernel, batch_invariant)
    result = call.forward(return_lse, is_numpy)
    if is_numpy:
        return result
    if return_lse:
        return tuple(_as_library_of(q, one) for one in result)
    return _as_library_of(q, result)


def _as_library_of(like, array):
    """Converts a DLPack array to an array of the library that `like` belongs to."""
    library = type(like).__module__.partition(".")[0]
    if library == "jaxlib":
        import jax.dlpack
        return jax.dlpack.from_dlpack(array)
    return _sys.modules[library].from_dlpack(array)


def explain(q, k, v, *, scale=None, causal=False, align=None, window=(-1, -1), softcap=0.0, alibi_slopes=None,
            bias=None, mask=None, sinks=None, dropout_p=0.0, lengths_q=None, lengths_k=None, cu_seqlens_q=None,
            cu_seqlens_k=None, max_seqlen_q=0, max_seqlen_k=0, layout="bhsd", kernel=None, backward=False,
            device="cpu"):
    """Returns one line per kernel: chosen, supported, or the reason why it does not support the problem.

    Arguments as in attention(). With device="cuda" the arrays are still host arrays and only their shapes count; raises
    NotImplementedError with the reason if no GPU can be used.
    """
    return _call(q, k, v, scale, causal, align, window, softcap, alibi_slopes, bias, mask, sinks, dropout_p, 0,
                 lengths_q, lengths_k, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, layout,
                 kernel).explain(int(bool(backward)), _choice("device", device, _DEVICES))
