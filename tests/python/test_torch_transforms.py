"""Tests strobe_attention.torch under PyTorch's transforms: results have the bits of eager mode, and derivatives that
are not implemented raise errors."""

import definition
import pytest
import strobe_attention.torch as strobe
import torch
import torch.autograd.forward_ad as forward_ad
from strobe_attention import _torch_ops
from torch.utils.checkpoint import checkpoint

F = torch.nn.functional


def given(grad=True, device="cpu"):
    torch.manual_seed(11)
    return definition.on(device, [torch.randn(2, heads, 17, 16).requires_grad_(grad) for heads in (4, 2, 2)])


OPTIONS = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window": (3, 0), "softcap": 5.0},
    "mask": {"mask": torch.ones(17, 17, dtype=torch.bool).tril()},
    "bias and sinks": {"bias": torch.randn(1, 4, 17, 17), "sinks": torch.randn(4)},
    "lengths": {"lengths_k": torch.tensor([5, 17], dtype=torch.int32)},
    "alibi": {"alibi_slopes": torch.rand(2, 4)},
}


class Recorder:
    """Passes calls on to `target` and appends their names to `names`."""

    def __init__(self, target, names):
        self._target, self._names = target, names

    def __getattr__(self, name):
        self._names.append(name)
        return getattr(self._target, name)


def arguments_of(q, k, v, options, seed=None):
    """Returns the arguments that a call of attention() passes to the registered operator."""
    taken = {}

    def take(tensors, options, wants_lse):
        taken["arguments"] = (*tensors[:-1], seed if seed is not None else tensors[-1], *options)
        return original(tensors, options, wants_lse)

    original, _torch_ops.run = _torch_ops.run, take
    direct, _torch_ops._direct = _torch_ops._direct, None
    try:
        strobe.attention(q, k, v, **options)
    finally:
        _torch_ops.run, _torch_ops._direct = original, direct
    return taken["arguments"]


@pytest.mark.parametrize("name", OPTIONS)
def test_opcheck(name, device):
    q, k, v = given(grad=False, device=device)
    arguments = arguments_of(q, k, v, definition.on(device, OPTIONS[name]))
    torch.library.opcheck(_torch_ops._forward, arguments)
    o, lse = _torch_ops._forward(*arguments)
    wants = (arguments[_torch_ops._BIAS] is not None, arguments[_torch_ops._SINKS] is not None)
    torch.library.opcheck(_torch_ops._backward, (torch.randn_like(o), o, lse, None, *arguments, *wants))


@pytest.mark.parametrize("name", ["plain", "causal", "window"])
def test_calls_without_the_dispatcher_have_the_bits_of_the_operator(name, monkeypatch):
    def results():
        q, k, v = given()
        o, lse = strobe.attention(q, k, v, return_lse=True, **OPTIONS[name])
        return [o, lse, *torch.autograd.grad(o.square().sum(), (q, k, v))]

    if _torch_ops._direct is None:
        pytest.skip("this PyTorch gives no access to handles")
    direct_calls = []
    monkeypatch.setattr(_torch_ops, "_direct", Recorder(_torch_ops._direct, direct_calls))
    direct = results()
    assert direct_calls == ["forward", "backward"]
    monkeypatch.setattr(_torch_ops, "_direct", None)
    for one, other in zip(direct, results(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", ["plain", "bias and sinks", "mask"])
def test_compiled_equals_eager(name, backend, device):
    torch._dynamo.reset()
    q, k, v = given(device=device)
    options = definition.on(device, OPTIONS[name])
    leaves = [q, k, v] + [one.requires_grad_() for one in options.values() if one.is_floating_point()]

    def call(q, k, v, options):
        return strobe.attention(q, k, v, **options)

    eager = call(q, k, v, options)
    compiled = torch.compile(call, fullgraph=True, backend=backend)(q, k, v, options)
    assert torch.equal(eager, compiled)
    weights = torch.randn_like(eager)
    for one, other in zip(torch.autograd.grad((eager * weights).sum(), leaves),
                          torch.autograd.grad((compiled * weights).sum(), leaves)):
        assert torch.equal(one, other)


def test_compiled_with_dynamic_sizes(device):
    torch._dynamo.reset()
    compiled = torch.compile(lambda q, k, v: strobe.attention(q, k, v, causal=True), fullgraph=True, dynamic=True,
                             backend="aot_eager")
    for rows in (5, 9, 12):
        q, k, v = (torch.randn(2, 4, rows, 8, requires_grad=True, device=device) for _ in range(3))
        assert torch.equal(compiled(q, k, v), strobe.attention(q, k, v, causal=True))


def test_export(device):
    class Module(torch.nn.Module):
        def forward(self, q, k, v):
            return strobe.attention(q, k, v, causal=True)

    inputs = tuple(given(grad=False, device=device))
    exported = torch.export.export(Module(), inputs)
    assert torch.equal(exported.module()(*inputs), Module()(*inputs))


def test_checkpoint_with_dropout(device):
    def gradients(compute):
        q, k, v = given(device=device)
        torch.manual_seed(5)
        compute(q, k, v).square().sum().backward()
        return [one.grad for one in (q, k, v)]

    def call(q, k, v):
        return strobe.attention(q, k, v, dropout_p=0.4)

    plain = gradients(call)
    again = gradients(lambda *inputs: checkpoint(call, *inputs, use_reentrant=False))
    assert all(torch.equal(one, other) for one, other in zip(plain, again))


def test_autocast(device):
    q, k, v = given(device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        o = strobe.attention(q, k, v)
    assert o.dtype == torch.bfloat16
    assert torch.equal(o, strobe.attention(*(one.bfloat16() for one in (q, k, v))))
    o.float().sum().backward()
    assert q.grad.dtype == torch.float32


@pytest.mark.parametrize("name", ["plain", "mask", "bias and sinks", "lengths", "alibi"])
def test_vmap_equals_a_loop(name, device):
    q, k, v = given(grad=False, device=device)
    many = torch.stack([q, 2 * q, -q])
    options = definition.on(device, OPTIONS[name])

    def call(q):
        return strobe.attention(q, k, v, **options)

    assert torch.equal(torch.vmap(call)(many), torch.stack([call(one) for one in many]))
    gradient = torch.func.grad(lambda q: call(q).square().sum())
    assert torch.equal(torch.vmap(gradient)(many), torch.stack([gradient(one) for one in many]))


def test_vmap_over_a_bias(device):
    q, k, v = given(grad=False, device=device)
    bias = torch.randn(3, 4, 17, 17, device=device)

    def call(bias):
        return strobe.attention(q, k, v, bias=bias)

    assert torch.equal(torch.vmap(call)(bias), torch.stack([call(one) for one in bias]))
    gradient = torch.func.grad(lambda bias: call(bias).square().sum())
    assert torch.equal(torch.vmap(gradient)(bias), torch.stack([gradient(one) for one in bias]))


def test_second_derivatives_and_forward_mode_are_refused(device):
    q, k, v = given(device=device)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first, = torch.autograd.grad(strobe.attention(q, k, v).square().sum(), q, create_graph=True)
        first.sum().backward()
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="no forward-mode derivative"):
        strobe.attention(forward_ad.make_dual(q, torch.ones_like(q)), k, v)
    with pytest.raises(NotImplementedError, match="no second derivative"):
        first = torch.func.grad(lambda q: strobe.attention(q, k, v).square().sum())
        torch.func.grad(lambda q: first(q).sum())(q.detach())


def test_activate_and_restore(device):
    torch._dynamo.reset()
    q, k, v = given(device=device)
    k, v = (one.repeat_interleave(2, 1) for one in (k, v))
    expected = strobe.attention(q, k, v, causal=True)
    original = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    for _ in range(2):
        strobe.activate()
        try:
            active = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            assert torch.equal(active, expected)
            assert "Attention" in active.grad_fn.name() and "ScaledDot" not in active.grad_fn.name()
            compiled = torch.compile(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
                                     fullgraph=True, backend="aot_eager")(q, k, v)
            assert torch.equal(compiled, expected)
        finally:
            strobe.restore()
    restored = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert restored.grad_fn.name() == original.grad_fn.name()
