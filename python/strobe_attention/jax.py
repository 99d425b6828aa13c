"""jax.nn.dot_product_attention through Strobe, on CPU and CUDA, with gradients of query, key, value and bias."""

import ctypes
import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["dot_product_attention"]

_PATH = pathlib.Path(__file__).parent / "lib" / "libstrobe_jax.so"
if not _PATH.exists():
    raise ImportError("strobe_attention.jax: this build has no libstrobe_jax; install jaxlib, then build the package")
_library = ctypes.CDLL(str(_PATH))
for _pass in ("forward", "backward"):
    for _platform, _name in (("cpu", "cpu"), ("CUDA", "cuda")):
        jax.ffi.register_ffi_target(f"strobe_{_pass}",
                                    jax.ffi.pycapsule(getattr(_library, f"strobe_jax_{_pass}_{_name}")),
                                    platform=_platform)

_TOP_LEFT = 1


def _none(dtype):
    return jnp.zeros((0,), dtype)


def _one_by_one(call, size, is_mapped, arrays):
    def at(index):
        return call(*(one[index] if has else one for one, has in zip(arrays, is_mapped)))

    results = jax.lax.map(at, jnp.arange(size))
    return results, (True,) * len(results)


def _folding(call):
    """Adds a vmap rule to a function of arrays: merges the mapped dimension into the batch, as its outer part."""
    mapped = jax.custom_batching.custom_vmap(call)

    @mapped.def_vmap
    def rule(size, is_mapped, *arrays):
        if any(one.ndim - int(has) == 4 and one.shape[int(has)] != arrays[0].shape[int(is_mapped[0])]
               for one, has in zip(arrays, is_mapped)):  # the batch shares the bias, so the mapped dimension cannot be merged
            return _one_by_one(mapped, size, is_mapped, arrays)
        folded = []
        for one, has_dimension in zip(arrays, is_mapped):
            if one.size == 0 and one.ndim == 1 + int(has_dimension):
                folded.append(jnp.zeros((0,), one.dtype))
                continue
            one = one if has_dimension else jnp.broadcast_to(one, (size, *one.shape))
            folded.append(one.reshape(-1, *one.shape[2:]))
        results = mapped(*folded)
        return (tuple(one.reshape(size, -1, *one.shape[1:]) for one in results), (True,) * len(results))

    return mapped


@functools.lru_cache(maxsize=256)
def _calls(options):
    """Returns the forward and the backward call for fixed options."""
    attributes = {"scale": np.float64(options[0]), "causal": np.int64(options[1]), "align": np.int64(_TOP_LEFT),
                  "window_left": np.int64(options[2]), "window_right": np.int64(options[3])}

    @_folding
    def forward(q, k, v, bias, lengths_q, lengths_k):
        b, s, h, _ = q.shape
        results = (jax.ShapeDtypeStruct((b, s, h, v.shape[3]), q.dtype), jax.ShapeDtypeStruct((b, h, s), jnp.float32))
        return tuple(jax.ffi.ffi_call("strobe_forward", results)(q, k, v, bias, lengths_q, lengths_k, **attributes))

    @_folding
    def backward(d_o, o, lse, q, k, v, bias, lengths_q, lengths_k):
        results = tuple(jax.ShapeDtypeStruct(one.shape, one.dtype) for one in (q, k, v))
        results += (jax.ShapeDtypeStruct(bias.shape, jnp.float32),)
        return tuple(jax.ffi.ffi_call("strobe_backward", results)(d_o, o, lse, q, k, v, bias, lengths_q, lengths_k,
                                                                  **attributes))

    return forward, backward


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attention(options, q, k, v, bias, lengths_q, lengths_k):
    return _calls(options)[0](q, k, v, bias, lengths_q, lengths_k)


def _attention_forward(options, q, k, v, bias, lengths_q, lengths_k):
    o, lse = _calls(options)[0](q, k, v, bias, lengths_q, lengths_k)
    return (o, lse), (q, k, v, bias, lengths_q, lengths_k, o, lse)


def _attention_backward(options, saved, gradients):
    q, k, v, bias, lengths_q, lengths_k, o, lse = saved
    dq, dk, dv, dbias = _calls(options)[1](gradients[0], o, lse, q, k, v, bias, lengths_q, lengths_k)
    return dq, dk, dv, dbias.astype(bias.dtype), *(np.zeros(one.shape, jax.dtypes.float0)
                                                   for one in (lengths_q, lengths_k))


_attention.defvjp(_attention_forward, _attention_backward)


def dot_product_attention(query, key, value, bias=None, mask=None, *, scale=None, is_causal=False,
                          query_seq_lengths=None, key_value_seq_lengths=None, local_window_size=None,
                          implementation=None, return_residual=False):
    """Replaces jax.nn.dot_product_attention. query is [B, T, N, H] or [T, N, H]: batch, length, heads, head dimension.
    Masks are aligned top-left.

    implementation must be None. The residual of return_residual is LSE, [B, T, N]; like JAX's it has no gradient.
    """
    if implementation is not None:
        raise ValueError(f"attention: implementation is {implementation!r}; valid: None")
    query, key, value = (jnp.asarray(one) for one in (query, key, value))
    _check(query, key, value)
    is_single = query.ndim == 3
    if is_single:
        query, key, value = (one[None] for one in (query, key, value))
    left, right = _window_of(local_window_size)
    options = (float("nan") if scale is None else float(scale), int(bool(is_causal)), left, right)
    o, lse = _attention(options, query, key, value, _bias_of(bias, mask, query, key), _lengths(query_seq_lengths),
                        _lengths(key_value_seq_lengths))
    residual = jax.lax.stop_gradient(lse).transpose(0, 2, 1).astype(query.dtype)
    if is_single:
        o, residual = o[0], residual[0]
    return (o, residual) if return_residual else o


def _check(query, key, value):
    for name, one in (("query", query), ("key", key), ("value", value)):
        if one.ndim not in (3, 4) or one.ndim != query.ndim:
            raise ValueError(f"attention: {name} has {one.ndim} dimensions, query {query.ndim}; valid: 3 or 4 for all")
        if one.dtype not in (jnp.float32, jnp.float16, jnp.bfloat16):
            raise TypeError(f"attention: {name} is {one.dtype}; valid: float32, float16, bfloat16")
        if one.dtype != query.dtype:
            raise TypeError(f"attention: {name} is {one.dtype} but query is {query.dtype}")
    for name, one in (("key", key), ("value", value)):
        if one.ndim == 4 and one.shape[0] != query.shape[0]:
            raise ValueError(f"attention: {name} has batch {one.shape[0]} but query has {query.shape[0]}")
    if key.shape[-1] != query.shape[-1]:
        raise ValueError(f"attention: key has head_dim {key.shape[-1]} but query has {query.shape[-1]}")
    if key.shape[:-1] != value.shape[:-1]:
        raise ValueError(f"attention: key is {key.shape} but value is {value.shape}")
    if query.shape[-2] % key.shape[-2] != 0:
        raise ValueError(f"attention: {query.shape[-2]} query heads are not a multiple of {key.shape[-2]} KV heads")


def _window_of(window):
    if window is None:
        return -1, -1
    return (window, window) if isinstance(window, int) else tuple(window)


def _lengths(lengths):
    return _none(jnp.int32) if lengths is None else jnp.asarray(lengths, jnp.int32)


def _bias_of(bias, mask, query, key):
    """Combines bias and mask into one bias [B or 1, N or 1, T or 1, keys]."""
    if bias is None and mask is None:
        return _none(query.dtype)
    keys = key.shape[1]

    def whole(array):
        array = jnp.asarray(array)
        array = array.reshape((1,) * (4 - array.ndim) + array.shape)
        return jnp.broadcast_to(array, (*array.shape[:3], keys))

    if bias is not None:
        bias = whole(bias)
        bias = bias if bias.dtype in (jnp.float32, query.dtype) else bias.astype(query.dtype)
    if mask is None:
        return bias
    mask = whole(mask)
    return jnp.where(mask, jnp.zeros((), query.dtype) if bias is None else bias, -jnp.inf)
