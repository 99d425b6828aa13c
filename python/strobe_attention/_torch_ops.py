"""Loads the operators strobe::forward and strobe::backward, and defines their fake kernels, vmap rules and autograd.

Operators take q [B, Hq, Sq, D], k and v [B, Hkv, Sk, D], ten optional tensors (_OPTIONAL) and twelve options
(_OPTIONS). torch.py converts its arguments to this form.
"""

import ctypes
import pathlib

import torch
from torch.autograd import forward_ad
from torch.autograd.function import once_differentiable

from . import _core

_OPTIONAL = ("bias", "mask", "sinks", "alibi_slopes", "lengths_q", "lengths_k", "first_keys", "cu_seqlens_q",
             "cu_seqlens_k", "seed")
_OPTIONS = ("scale", "softcap", "dropout_p", "causal", "align", "window_left", "window_right", "max_seqlen_q",
            "max_seqlen_k", "kernel", "deterministic", "batch_invariant")
_TENSORS = 3 + len(_OPTIONAL)
_BIAS, _SINKS = 3, 5  # indices in the list of tensors
_ERRORS = {1: ValueError, 2: NotImplementedError, 3: MemoryError}


def _load():
    library = ctypes.CDLL(str(pathlib.Path(__file__).parent / "lib" / "libstrobe_torch.so"))
    library.strobe_torch_register.restype = ctypes.c_char_p
    failure = library.strobe_torch_register()
    if failure:
        raise ImportError(failure.decode())
    return library


_library = _load()
_forward = torch.ops.strobe.forward.default
_backward = torch.ops.strobe.backward.default
_forward_eager = _forward._op  # without the Python layer of OpOverload, for calls that nothing traces
_is_compiling = torch.compiler.is_compiling
_is_functorch_active = torch._C._are_functorch_transforms_active
_is_autocast_enabled = torch._C._is_any_autocast_enabled
_is_profiled = torch.autograd._profiler_enabled
_dispatch_modes, _function_modes = torch._C._len_torch_dispatch_stack, torch._C._len_torch_function_stack
_tracing_state = torch._C._get_tracing_state
_is_grad_enabled = torch.is_grad_enabled
_Tensor = torch.Tensor


def _direct_calls():
    """Returns the functions that compute without the dispatcher, or None if this PyTorch has no access to handles."""
    handles = getattr(torch._C, "_aoti", None)
    to_handle = getattr(handles, "unsafe_alloc_void_ptr_from_tensor", None)
    from_handle = getattr(handles, "alloc_tensor_by_stealing_from_void_ptr", None)
    if to_handle is None or from_handle is None:
        return None
    address = ctypes.cast(_library.strobe_torch_direct, ctypes.c_void_p).value
    return _core.TorchCalls(address, to_handle, from_handle)


_direct = _direct_calls()


def is_direct(q, k, v):
    """Returns true if the dispatcher would only call the CPU kernel: the tensors are plain, and no transform, mode,
    trace, autocast or profiler acts on the call."""
    return (type(q) is _Tensor and type(k) is _Tensor and type(v) is _Tensor and _direct is not None
            and q.is_cpu and k.is_cpu and v.is_cpu
            and not _is_functorch_active() and not _is_autocast_enabled() and not _dispatch_modes()
            and not _function_modes() and not _is_profiled() and _tracing_state() is None
            and forward_ad._current_level < 0 and not (q.is_neg() or k.is_neg() or v.is_neg()))


def translated(error):
    """Converts a RuntimeError of an operator to the exception for the library's status, with its message."""
    status = _library.strobe_torch_take_status()
    return _ERRORS.get(status, RuntimeError)(str(error).partition("\n")[0])


def _empty_in_order_of(like, last):
    """Returns a dense tensor with the shape and memory order of `like`, but with size `last` in the last dimension.
    Must agree with strides_like() of python/src/problem.h."""
    order = [0, 1, 2]
    for i in (1, 2):
        for j in range(i, 0, -1):
            if not like.stride(order[j]) > like.stride(order[j - 1]):
                break
            order[j], order[j - 1] = order[j - 1], order[j]
    shape = (*like.shape[:3], last)
    stride, step = [0, 0, 0, 1], last
    for i in reversed(order):
        stride[i] = step
        step = step * shape[i]
    return torch.empty_strided(shape, stride, dtype=like.dtype, device=like.device)


@torch.library.register_fake("strobe::forward")
def _(q, k, v, *rest):
    return _empty_in_order_of(q, v.shape[3]), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.register_fake("strobe::backward")
def _(d_o, o, lse, d_lse, q, k, v, *rest):
    bias, wants_bias, wants_sinks = rest[0], rest[-2], rest[-1]
    return (_empty_in_order_of(q, q.shape[3]), _empty_in_order_of(k, k.shape[3]), _empty_in_order_of(v, v.shape[3]),
            q.new_empty(bias.shape if wants_bias else (0,), dtype=torch.float32),
            q.new_empty((q.shape[1] if wants_sinks else 0,), dtype=torch.float32))


def _unbatched(tensor, dim, index):
    return tensor if dim is None else tensor.select(dim, index)


def _one_by_one(op, count, in_dims, args):
    """Calls the operator for each index of the mapped dimension and stacks the results."""
    results = [op(*(_unbatched(arg, dim, i) for arg, dim in zip(args, in_dims))) for i in range(count)]
    return tuple(torch.stack(one) for one in zip(*results)), (0,) * len(results[0])


def _fold(tensor, dim, count):
    """Returns [count * B, ...]: merges the mapped dimension into the batch, as its outer part."""
    if tensor is None:
        return None
    tensor = tensor.movedim(dim, 0) if dim is not None else tensor.expand(count, *tensor.shape)
    return tensor.reshape(-1, *tensor.shape[2:])


def _fold_shared(tensor, dim, count, batch):
    """Like _fold(), for a bias or a mask, whose batch size may be 1."""
    if tensor is None or (dim is None and tensor.shape[0] == 1):
        return tensor
    if dim is None:
        return _fold(tensor.expand(batch, *tensor.shape[1:]), None, count)
    tensor = tensor.movedim(dim, 0)
    return tensor.expand(count, batch, *tensor.shape[2:]).reshape(-1, *tensor.shape[2:])


def _can_fold(tensors, dims, extra):
    """Returns true if the mapped dimension can be merged into the batch: nothing is packed, sinks are not mapped, and
    there are no ALiBi slopes, no dropout and no `extra` gradients (of bias or sinks).

    With dropout, samples are computed one by one, so that each has the same random bits as without vmap.
    """
    named = dict(zip(_OPTIONAL, tensors[3:]))
    mapped = dict(zip(_OPTIONAL, dims[3:]))
    if named["cu_seqlens_q"] is not None or named["cu_seqlens_k"] is not None or named["seed"] is not None:
        return False
    return not extra and mapped["sinks"] is None and named["alibi_slopes"] is None


def _fold_tensors(tensors, dims, count):
    mapped = next((tensor.shape[1 if dim == 0 else 0] for tensor, dim in zip(tensors[:3], dims[:3])
                   if dim is not None), None)
    batch = mapped if mapped is not None else tensors[0].shape[0]
    folded = [_fold(tensor, dim, count) for tensor, dim in zip(tensors[:3], dims[:3])]
    for name, tensor, dim in zip(_OPTIONAL, tensors[3:], dims[3:]):
        if name in ("bias", "mask"):
            folded.append(_fold_shared(tensor, dim, count, batch))
        elif name in ("lengths_q", "lengths_k", "first_keys"):
            folded.append(_fold(tensor, dim, count))
        else:
            folded.append(tensor)
    return folded


@torch.library.register_vmap("strobe::forward")
def _(info, in_dims, *args):
    count, tensors, dims = info.batch_size, args[:_TENSORS], in_dims[:_TENSORS]
    if not _can_fold(tensors, dims, False):
        return _one_by_one(_forward, count, in_dims, args)
    results = _forward(*_fold_tensors(tensors, dims, count), *args[_TENSORS:])
    return tuple(result.unflatten(0, (count, -1)) for result in results), (0, 0)


@torch.library.register_vmap("strobe::backward")
def _(info, in_dims, *args):
    count, tensors, dims = info.batch_size, args[4:4 + _TENSORS], in_dims[4:4 + _TENSORS]
    if not _can_fold(tensors, dims, args[-2] or args[-1]):
        return _one_by_one(_backward, count, in_dims, args)
    given = [_fold(tensor, dim, count) for tensor, dim in zip(args[:4], in_dims[:4])]
    dq, dk, dv, dbias, dsinks = _backward(*given, *_fold_tensors(tensors, dims, count), *args[4 + _TENSORS:])
    gradients = tuple(one.unflatten(0, (count, -1)) for one in (dq, dk, dv))
    return (*gradients, dbias, dsinks), (0, 0, 0, None, None)


def _readable(d_o):
    """Returns dO, copied if its last stride is neither 1 nor 0."""
    return d_o if d_o.shape[-1] == 1 or d_o.stride(-1) in (0, 1) else d_o.contiguous()


def _gradients(backward, saved, options, wants, d_o, d_lse):
    """Returns the gradients of all arguments of an autograd.Function, None for arguments without gradient."""
    *tensors, o, lse = saved
    wants_bias, wants_sinks, wants_lse = wants
    if d_lse is not None:
        d_lse = d_lse.contiguous() if wants_lse else None
    d_o = torch.zeros_like(o) if d_o is None else _readable(d_o)
    try:
        dq, dk, dv, dbias, dsinks = backward(d_o, o, lse, d_lse, *tensors, *options, wants_bias, wants_sinks)
    except RuntimeError as error:
        if isinstance(error, NotImplementedError):
            raise
        raise translated(error) from None
    gradients = [dq, dk, dv] + [None] * (_TENSORS - 3 + len(options) + 1)
    if wants_bias:
        gradients[_BIAS] = dbias.to(tensors[_BIAS].dtype)
    if wants_sinks:
        gradients[_SINKS] = dsinks
    return tuple(gradients)


def _no_jvp(ctx, *tangents):
    raise NotImplementedError("attention: no forward-mode derivative; valid: backward")


class CompiledAttention(torch.autograd.Function):
    """Computes (o, lse). Has no jvp(), because torch.compile refuses a Function with one."""

    @staticmethod
    def forward(ctx, *args):
        tensors, options, wants_lse = args[:_TENSORS], args[_TENSORS:-1], args[-1]
        o, lse = _forward(*tensors, *options)
        ctx.save_for_backward(*tensors, o, lse)
        ctx.options = options
        ctx.wants_lse = wants_lse
        ctx.set_materialize_grads(False)  # an unused LSE gets the gradient None; CUDA kernels refuse zeros
        if not wants_lse:
            ctx.mark_non_differentiable(lse)
        return o, lse

    @staticmethod
    @once_differentiable
    def backward(ctx, d_o, d_lse):
        wants = (ctx.needs_input_grad[_BIAS], ctx.needs_input_grad[_SINKS], ctx.wants_lse)
        return _gradients(_backward, ctx.saved_tensors, ctx.options, wants, d_o, d_lse)


class Attention(CompiledAttention):
    """As CompiledAttention, for eager mode."""

    jvp = staticmethod(_no_jvp)


def _plain_gradients(ctx, d_o, d_lse):
    """Implements PlainAttention.backward()."""
    q, k, v, o, lse = ctx.saved_tensors
    if d_lse is None and type(d_o) is _Tensor and is_direct(q, k, v) and not d_o.is_neg():
        gradients = _direct.backward(_readable(d_o), o, lse, q, k, v, *ctx.options)
        if gradients is not None:
            return (*gradients, None, None)
    scale, softcap, causal, align, left, right, kernel, deterministic, batch_invariant = ctx.options
    options = (scale, softcap, 0.0, causal, align, left, right, 0, 0, kernel, deterministic, batch_invariant)
    saved = (q, k, v, *(None,) * len(_OPTIONAL), o, lse)
    gradients = _gradients(_backward, saved, options, (False, False, ctx.wants_lse), d_o, d_lse)
    return (*gradients[:3], None, None)


_plain_gradients_once = once_differentiable(_plain_gradients)


class PlainAttention(torch.autograd.Function):
    """Computes (o, lse) of q, k and v without the dispatcher, if is_direct() is true. Returns None if the operator must
    check the call."""

    jvp = staticmethod(_no_jvp)

    @staticmethod
    def forward(ctx, q, k, v, options, wants_lse):
        result = _direct.forward(q, k, v, True, *options)
        if result is None:
            return None
        ctx.save_for_backward(q, k, v, *result)
        ctx.options, ctx.wants_lse = options, wants_lse
        ctx.set_materialize_grads(False)
        if not wants_lse:
            ctx.mark_non_differentiable(result[1])
        return result

    @staticmethod
    def backward(ctx, d_o, d_lse):
        # once_differentiable matters only if autograd records the backward; it takes as long as a tiny problem.
        return (_plain_gradients_once if _is_grad_enabled() else _plain_gradients)(ctx, d_o, d_lse)


class _Backward(torch.autograd.Function):
    """Computes the backward as a separate Function, so that torch.func raises an error for second derivatives."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*args):
        return _backward(*args)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *gradients):
        raise NotImplementedError("attention: no second derivative; valid: one backward")


class FunctionalAttention(torch.autograd.Function):
    """Attention for torch.func, whose transforms need setup_context()."""

    generate_vmap_rule = True
    jvp = staticmethod(_no_jvp)

    @staticmethod
    def forward(*args):
        return _forward(*args[:-1])

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:_TENSORS], *output)
        ctx.options, ctx.wants_lse = inputs[_TENSORS:-1], inputs[-1]
        ctx.set_materialize_grads(False)
        if not ctx.wants_lse:
            ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, d_o, d_lse):
        wants = (ctx.needs_input_grad[_BIAS], ctx.needs_input_grad[_SINKS], ctx.wants_lse)
        return _gradients(_Backward.apply, ctx.saved_tensors, ctx.options, wants, d_o, d_lse)


def _needs_gradient(tensors):
    """Returns true if autograd records the call: one of q, k, v, bias and sinks requires a gradient."""
    if not torch.is_grad_enabled():
        return False
    q, k, v, bias, _, sinks, *_ = tensors
    return (q.requires_grad or k.requires_grad or v.requires_grad or (bias is not None and bias.requires_grad)
            or (sinks is not None and sinks.requires_grad))


def run_direct(q, k, v, options, wants_lse):
    """Computes (o, lse) like run(), if is_direct() is true. lse is None unless wanted or needed for a gradient. Returns
    None if the operator must check the call."""
    if _is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        return PlainAttention.apply(q, k, v, options, wants_lse)
    return _direct.forward(q, k, v, wants_lse, *options)


def run(tensors, options, wants_lse):
    """Computes (o, lse), with autograd if a tensor requires a gradient."""
    if _is_compiling():
        if _needs_gradient(tensors):
            return CompiledAttention.apply(*tensors, *options, wants_lse)
        return _forward(*tensors, *options)
    try:
        if _is_functorch_active():
            return FunctionalAttention.apply(*tensors, *options, wants_lse)
        if _needs_gradient(tensors):
            return Attention.apply(*tensors, *options, wants_lse)
        return _forward_eager(*tensors, *options)
    except RuntimeError as error:
        if isinstance(error, NotImplementedError):
            raise
        failure = translated(error)
    raise failure
