"""Tests strobe_attention.torch: results and gradients against float64, PyTorch's conventions, rejected input."""

import definition
import pytest
import strobe_attention.torch as strobe
import torch

F = torch.nn.functional


def given(*shapes, dtype=torch.float32, grad=True):
    torch.manual_seed(7)
    return [torch.randn(shape).to(dtype).requires_grad_(grad) for shape in shapes]


def plain(inputs, options):
    """Returns attention by PyTorch's operators in the inputs' dtype. Strobe may have twice its error."""
    torch_options = {name: value for name, value in options.items() if name != "bias"}
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    outputs = []
    for b in range(q.shape[0]):
        rows = int(options["lengths_q"][b]) if "lengths_q" in options else q.shape[2]
        keys = int(options["lengths_k"][b]) if "lengths_k" in options else k.shape[2]
        problem = {**torch_options, "bias": inputs.get("bias"), "sinks": inputs.get("sinks")}
        o, _ = definition.one_sequence(q[b, :, :rows], k[b, :, :keys], v[b, :, :keys], problem, b)
        outputs.append(F.pad(o, (0, 0, 0, q.shape[2] - rows)))
    return torch.stack(outputs)


def results_of(compute, inputs, dtype, weights):
    leaves = {name: one.detach().to(dtype, copy=True).requires_grad_() for name, one in inputs.items()}
    o = compute(leaves)
    (o * weights.to(o.dtype)).sum().backward()
    gradients = {name: leaf.grad for name, leaf in leaves.items()}
    return {"o": o.detach().double(), **{name: one.double() for name, one in gradients.items() if one is not None}}


def by_strobe(options, layout):
    def compute(leaves):
        extra = {name: leaves[name] for name in ("bias", "sinks") if name in leaves}
        q, k, v = (leaves[name].transpose(1, 2) if layout == "bshd" else leaves[name] for name in ("q", "k", "v"))
        o = strobe.attention(q, k, v, layout=layout, **options, **extra)
        return o.transpose(1, 2) if layout == "bshd" else o
    return compute


@pytest.mark.parametrize("block", range(10))
def test_twice_the_error_of_plain_attention(block):
    """The error against float64 is at most twice that of plain attention in the same dtype, plus rounding."""
    for seed in range(block * 30, block * 30 + 30):
        inputs, options, dtype, layout = definition.random_problem(seed)
        inputs = {name: one.to(dtype).float() for name, one in inputs.items()}
        weights = torch.randn(*inputs["q"].shape[:3], inputs["v"].shape[3], generator=torch.Generator().manual_seed(1))
        exact = results_of(lambda leaves: definition.attention(
            leaves["q"], leaves["k"], leaves["v"], **options,
            **{name: leaves[name] for name in ("bias", "sinks") if name in leaves})[0], inputs, torch.float64, weights)
        theirs = results_of(lambda leaves: plain(leaves, options), inputs, dtype, weights)
        ours = results_of(by_strobe(options, layout), inputs, dtype, weights)
        unit = torch.finfo(dtype).eps
        for name, value in exact.items():
            if name not in ours:
                continue
            allowed = 2 * (theirs[name] - value).abs().max() + 4 * unit * (value.abs().max() + 1)
            error = (ours[name] - value).abs().max()
            assert error <= allowed, (seed, name, dtype, options, error.item(), allowed.item())


def test_packed_equals_separate_sequences():
    lengths_q, lengths_k = [3, 0, 9], [5, 4, 9]
    q, k, v = given((12, 4, 16), (18, 2, 16), (18, 2, 16))
    cu_q, cu_k = (torch.tensor([0, *torch.tensor(one).cumsum(0)], dtype=torch.int32) for one in (lengths_q, lengths_k))
    o, lse = strobe.attention(q, k, v, causal=True, align="bottom_right", layout="thd", cu_seqlens_q=cu_q,
                              cu_seqlens_k=cu_k, max_seqlen_q=9, max_seqlen_k=9, return_lse=True)
    for i in range(3):
        rows, keys = slice(cu_q[i], cu_q[i + 1]), slice(cu_k[i], cu_k[i + 1])
        if lengths_q[i] == 0:
            continue
        part = [one[None].transpose(1, 2) for one in (q[rows], k[keys], v[keys])]
        expected, sums = definition.attention(*part, causal=True, align="bottom_right")
        torch.testing.assert_close(o[rows].transpose(0, 1)[None].double(), expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(lse[:, rows].double(), sums[0], atol=1e-5, rtol=1e-5)


def test_gradient_of_lse():
    q, k, v = given((2, 4, 9, 16), (2, 2, 9, 16), (2, 2, 9, 16))
    o, lse = strobe.attention(q, k, v, return_lse=True)
    ours = torch.autograd.grad(o.square().sum() + lse.sin().sum(), (q, k, v))
    o, lse = definition.attention(q, k, v)
    exact = torch.autograd.grad(o.square().sum() + lse.sin().sum(), (q, k, v))
    for one, other in zip(ours, exact):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_left_padding():
    q, k, v = given((2, 2, 4, 8), (2, 2, 9, 8), (2, 2, 9, 8), grad=False)
    first = torch.tensor([0, 5], dtype=torch.int32)
    o = strobe.attention(q, k, v, first_keys=first, causal=True, align="bottom_right")
    expected, _ = definition.attention(q, k, v, first_keys=first, causal=True, align="bottom_right")
    torch.testing.assert_close(o.double(), expected, atol=1e-5, rtol=1e-5)


SHAPES = [((2, 4, 5, 8), (2, 4, 7, 8), False), ((5, 8), (7, 8), False), ((4, 5, 8), (4, 7, 8), False),
          ((2, 3, 4, 5, 8), (2, 3, 4, 7, 8), False), ((2, 4, 5, 8), (4, 7, 8), False), ((2, 4, 5, 8), (1, 1, 7, 8), False),
          ((2, 4, 5, 8), (2, 2, 7, 8), True)]


@pytest.mark.parametrize("shape_q, shape_k, enable_gqa", SHAPES)
@pytest.mark.parametrize("mask", [None, "causal", "bool", "float"])
def test_sdpa_agrees_with_pytorch(shape_q, shape_k, enable_gqa, mask):
    q, k, v = given(shape_q, shape_k, shape_k)
    options = {"enable_gqa": enable_gqa, "is_causal": mask == "causal"}
    if mask in ("bool", "float"):
        bits = torch.rand(5, 7) < 0.6
        options["attn_mask"] = bits if mask == "bool" else torch.where(bits, 0.3, float("-inf"))
    ours, theirs = strobe.scaled_dot_product_attention(q, k, v, **options), F.scaled_dot_product_attention(q, k, v, **options)
    assert ours.shape == theirs.shape
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    for one, other in zip(torch.autograd.grad(ours.square().sum(), (q, k, v)),
                          torch.autograd.grad(theirs.square().sum(), (q, k, v))):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_varlen_attn():
    q, k, v = given((8, 4, 16), (8, 4, 16), (8, 4, 16), grad=False)
    cu = torch.tensor([0, 3, 8], dtype=torch.int32)
    o = strobe.varlen_attn(q, k, v, cu, cu, 5, 5, is_causal=True)
    for begin, end in ((0, 3), (3, 8)):
        expected = F.scaled_dot_product_attention(*(one[begin:end].transpose(0, 1) for one in (q, k, v)), is_causal=True)
        torch.testing.assert_close(o[begin:end].transpose(0, 1), expected, atol=1e-5, rtol=1e-5)
    with pytest.raises(NotImplementedError, match="block_table"):
        strobe.varlen_attn(q, k, v, cu, cu, 5, 5, block_table=cu)


def test_nested_tensors_take_the_packed_path():
    parts = [torch.randn(n, 4, 16) for n in (5, 9, 1)]
    nested = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    q = nested.transpose(1, 2)
    o = strobe.attention(q, q, q, causal=True)
    o.values().sum().backward()
    for one, part in zip(o.transpose(1, 2).unbind(), parts):
        x = part.transpose(0, 1)[None]
        torch.testing.assert_close(one.transpose(0, 1)[None], F.scaled_dot_product_attention(x, x, x, is_causal=True),
                                   atol=1e-5, rtol=1e-5)
    assert nested.grad is not None


def test_output_has_the_memory_order_of_q():
    x = torch.randn(2, 9, 4, 16)
    o = strobe.attention(*(x.transpose(1, 2),) * 3)
    assert o.transpose(1, 2).is_contiguous()
    o = strobe.attention(x, x, x, layout="bshd")
    assert o.is_contiguous()


def test_dropout_follows_the_seed():
    q, k, v = given((1, 2, 33, 16), (1, 2, 33, 16), (1, 2, 33, 16))
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append(strobe.attention(q, k, v, dropout_p=0.3))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    ones = torch.ones(1, 2, 33, 16)
    kept = strobe.attention(q, k, ones, dropout_p=0.3, generator=torch.Generator().manual_seed(3))
    assert abs(kept.mean().item() - 1) < 0.1


def test_fallback_is_only_used_on_request():
    q, k, v = given((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8), grad=False)
    with pytest.raises(NotImplementedError):
        strobe.attention(q.double(), k.double(), v.double())
    with pytest.raises(ValueError, match="fallback"):
        strobe.attention(q, k, v, fallback="flash")
    torch.testing.assert_close(strobe.attention(q, k, v, fallback="sdpa"), F.scaled_dot_product_attention(q, k, v))


def bad(change, error, text):
    return pytest.param(change, error, text, id=text[:40])


@pytest.mark.parametrize("change, error, text", [
    bad({"q": torch.zeros(1, 2, 4, 8, dtype=torch.int32)}, TypeError, "q is torch.int32"),
    bad({"k": torch.zeros(1, 2, 4, 8).half()}, TypeError, "k is torch.float16 but q is torch.float32"),
    bad({"q": torch.zeros(1, 2, 4, 8).double()}, NotImplementedError, "q is float64"),
    bad({"k": torch.zeros(1, 2, 4, 9)}, ValueError, "K has head_dim 9 but Q has 8"),
    bad({"v": torch.zeros(1, 2, 5, 8)}, ValueError, "V"),
    bad({"q": torch.zeros(2, 4, 8)}, ValueError, "q has 3 dimensions"),
    bad({"q": torch.zeros(1, 2, 4, 16)[..., ::2]}, ValueError, "q has stride 2 in its last dimension"),
    bad({"k": torch.zeros(1, 2, 4, 8, device="meta")}, ValueError, "k is on meta but q is on cpu"),
    bad({"mask": torch.zeros(4, 4)}, TypeError, "mask is torch.float32"),
    bad({"bias": torch.zeros(4, 4, dtype=torch.bool)}, TypeError, "bias is boolean"),
    bad({"bias": torch.zeros(4, 5)}, ValueError, "bias"),
    bad({"bias": torch.zeros(1, 1, 1, 4, 4)}, ValueError, "bias has 5 dimensions"),
    bad({"align": "left"}, ValueError, "align is 'left'"),
    bad({"layout": "sbhd"}, ValueError, "layout is 'sbhd'"),
    bad({"kernel": "none"}, ValueError, "kernel"),
    bad({"dropout_p": 1.5}, ValueError, "dropout"),
    bad({"unknown": 1}, TypeError, "unexpected keyword argument"),
])
def test_bad_input_is_one_line(change, error, text):
    arguments = {"q": torch.zeros(1, 2, 4, 8), "k": torch.zeros(1, 2, 4, 8), "v": torch.zeros(1, 2, 4, 8), **change}
    with pytest.raises(error) as raised:
        strobe.attention(arguments.pop("q"), arguments.pop("k"), arguments.pop("v"), **arguments)
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_mask_and_is_causal_are_refused():
    q, k, v = given((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8))
    with pytest.raises(ValueError, match="attn_mask and is_causal"):
        strobe.scaled_dot_product_attention(q, k, v, torch.ones(4, 4, dtype=torch.bool), is_causal=True)
