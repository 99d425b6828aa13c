"""Tests python/torch_peer.py, the Python side of bench's peers, on the CPU: layouts, options and refusals."""

import importlib.util
import pathlib
import sys
import types

import pytest
import torch
from definition import visible

FILE = pathlib.Path(__file__).parents[2] / "python" / "torch_peer.py"
SPEC = importlib.util.spec_from_file_location("torch_peer", FILE)
torch_peer = importlib.util.module_from_spec(SPEC)
sys.dont_write_bytecode = True
SPEC.loader.exec_module(torch_peer)

PLAIN = {"threads": 1, "device": "cpu", "hot": False, "dtype": "fp32", "tf32": False, "deterministic": False,
         "heads": 4, "kv_heads": 4, "head_dim": 8, "seqlen_q": 20, "seqlen_k": 20, "causal": False,
         "align": "top_left", "window": [-1, -1], "backward": True, "softcap": 0, "alibi": False, "bias": None,
         "bias_gradient": False, "sinks": False, "dropout": 0, "lengths": []}


def request_of(implementation, **options):
    return {**PLAIN, "implementation": implementation, **options}


def prepared(request, monkeypatch, bias_shape=None):
    """Returns the peer after prepare(), and its inputs [B, H, S, D] by name."""
    torch.manual_seed(1)
    queries = (2, request["heads"], request["seqlen_q"], request["head_dim"])
    keys = (2, request["kv_heads"], request["seqlen_k"], request["head_dim"])
    tensors = {name: torch.randn(shape) for name, shape in
               (("q", queries), ("k", keys), ("v", keys), ("d_o", queries), ("o", queries), ("dq", queries),
                ("dk", keys), ("dv", keys))}
    if bias_shape:
        tensors["bias"] = torch.randn(bias_shape)
    peer = torch_peer.Peer(torch)
    monkeypatch.setattr(peer, "shared_tensors", lambda request: tensors)
    return peer, peer.prepare(request), tensors


def expected(request, tensors):
    """Returns O and the gradients of q, k, v and the bias in float64."""
    leaves = {name: tensors[name].double().requires_grad_() for name in ("q", "k", "v", "bias") if name in tensors}
    group = request["heads"] // request["kv_heads"]
    k, v = (leaves[name].repeat_interleave(group, 1) for name in "kv")
    scores = leaves["q"] @ k.mT * request["head_dim"] ** -0.5
    if request["softcap"]:
        scores = request["softcap"] * torch.tanh(scores / request["softcap"])
    sq, sk = scores.shape[-2:]
    if request["alibi"]:
        slopes = 2.0 ** (-8 * torch.arange(1, request["heads"] + 1) / request["heads"])
        offset = sk - sq if request["align"] == "bottom_right" else 0
        scores = scores - slopes[:, None, None] * (torch.arange(sq)[:, None] + offset - torch.arange(sk)).abs()
    if "bias" in leaves:
        scores = scores + leaves["bias"]
    probabilities = torch.softmax(scores.masked_fill(~visible(request, sq, sk), -torch.inf), -1)
    o = probabilities @ v
    return o, torch.autograd.grad(o, list(leaves.values()), tensors["d_o"].double())


def check(peer, request, tensors):
    peer.time({"region": "forward"})
    peer.time({"region": "backward"})
    peer.results(request)
    o, gradients = expected(request, tensors)
    for name, value in zip(("o", "dq", "dk", "dv"), (o, *gradients)):
        torch.testing.assert_close(tensors[name].double(), value, atol=1e-4, rtol=1e-4)
    if request["bias_gradient"]:
        torch.testing.assert_close(peer.grads[-1].double().flatten(), gradients[3].flatten(), atol=1e-4, rtol=1e-4)


def fake_fa3(calls):
    """Returns a module like FlashAttention-3's: [B, S, H, D], masks aligned bottom_right."""
    def flash_attn_func(q, k, v, causal=False, window_size=(-1, -1), softcap=0.0, num_splits=1, deterministic=False):
        calls.append({"causal": causal, "window_size": window_size, "num_splits": num_splits, "strides": q.stride()})
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        k, v = (one.repeat_interleave(q.shape[1] // k.shape[1], 1) for one in (k, v))
        scores = q @ k.mT * q.shape[-1] ** -0.5
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        allowed = visible({"window": window_size, "causal": causal, "align": "bottom_right"}, *scores.shape[-2:])
        o = torch.softmax(scores.masked_fill(~allowed, -torch.inf), -1) @ v
        return o.transpose(1, 2), None
    return types.SimpleNamespace(flash_attn_func=flash_attn_func, __name__="flash_attn_interface")


def test_fa3_uses_its_own_layout_and_alignment(monkeypatch):
    calls = []
    monkeypatch.setitem(sys.modules, "flash_attn_interface", fake_fa3(calls))
    request = request_of("fa3", kv_heads=2, seqlen_k=26, causal=True, align="bottom_right", window=[9, -1], softcap=3)
    peer, answer, tensors = prepared(request, monkeypatch)
    assert answer["configuration"] == "flash_attn_interface, [B, S, H, D]"
    check(peer, request, tensors)
    assert calls[0] == {"causal": True, "window_size": (9, 0), "num_splits": 1, "strides": (640, 32, 8, 1)}
    decode = request_of("fa3", kv_heads=2, seqlen_q=1, backward=False)
    _, answer, _ = prepared(decode, monkeypatch)
    assert calls[-1]["num_splits"] == 0 and answer["configuration"].endswith(", num_splits 0")


def test_fa3_takes_the_first_module_that_has_the_function(monkeypatch):
    with pytest.raises(torch_peer.Unsupported, match="module flash_attn_interface, flash_attn_3.flash_attn_interface or "
                       "flash_attn_3 is missing"):
        torch_peer.refuse(torch, request_of("fa3"))
    package = types.SimpleNamespace(flash_attn_func=print)
    monkeypatch.setitem(sys.modules, "flash_attn_3", package)
    assert torch_peer.fa3_module() is package
    monkeypatch.setitem(sys.modules, "flash_attn_interface", types.SimpleNamespace())
    assert torch_peer.fa3_module() is package
    monkeypatch.delitem(sys.modules, "flash_attn_3")
    with pytest.raises(torch_peer.Unsupported, match=r"\(flash_attn_interface: no flash_attn_func\)"):
        torch_peer.fa3_module()


def test_an_error_of_a_build_without_a_feature_is_a_refusal(monkeypatch):
    def refusing(*inputs, **options):
        raise RuntimeError("This flash attention build does not support tanh softcapping.\nbacktrace")
    module = types.SimpleNamespace(flash_attn_func=refusing, __name__="flash_attn_interface")
    monkeypatch.setitem(sys.modules, "flash_attn_interface", module)
    with pytest.raises(torch_peer.Unsupported, match="does not support tanh softcapping.$"):
        prepared(request_of("fa3", softcap=3), monkeypatch)


@pytest.mark.parametrize("options, bias_shape", [
    ({"causal": True, "softcap": 3, "kv_heads": 2}, None),
    ({"alibi": True, "window": [7, 2], "seqlen_k": 26, "align": "bottom_right"}, None),
    ({"bias": "1hqk", "bias_gradient": True}, (1, 4, 20, 20)),
    ({"bias": "b11k", "bias_gradient": True, "causal": True}, (2, 1, 1, 20))])
@pytest.mark.parametrize("implementation", ["torch-flex", "torch-naive"])
def test_score_options(implementation, options, bias_shape, monkeypatch):
    compiled = torch.compile  # PyTorch cannot compile the backward of flex on a CPU
    monkeypatch.setattr(torch, "compile", lambda function, **options: compiled(function, **options)
                        if "backend" in options else function)
    request = request_of(implementation, **options)
    peer, _, tensors = prepared(request, monkeypatch, bias_shape)
    check(peer, request, tensors)


@pytest.mark.parametrize("implementation, options, reason", [
    ("torch-sdpa", {"softcap": 5}, "does not support softcap 5"),
    ("torch-flex", {"dropout": 0.1, "backward": False}, "does not support dropout 0.1"),
    ("torch-flex", {}, "no backward on a CPU; valid: --pass forward"),
    ("torch-sdpa", {"causal": True, "bias": "bhqk", "bias_gradient": True}, "either is_causal or a bias with gradient"),
    ("torch-sdpa", {"causal": True, "align": "bottom_right", "seqlen_k": 30}, "aligned top_left"),
    ("torch-flash", {}, "torch-flash is a backend of CUDA")])
def test_refusals(implementation, options, reason):
    with pytest.raises(torch_peer.Unsupported, match=reason):
        torch_peer.refuse(torch, request_of(implementation, **options))
