"""Tests strobe_attention.torch: results and gradients against float64, PyTorch's conventions, rejected input."""

import definition
import pytest
import strobe_attention.torch as strobe
import torch

F = torch.nn.functional


def given(*shapes, device="cpu", grad=True):
    torch.manual_seed(7)
    return definition.on(device, [torch.randn(shape).requires_grad_(grad) for shape in shapes])


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


def results_of(compute, inputs, dtype, weights, device="cpu"):
    leaves = {name: one.detach().to(device, dtype, copy=True).requires_grad_() for name, one in inputs.items()}
    o = compute(leaves)
    (o * weights.to(o.device, o.dtype)).sum().backward()
    gradients = {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
    return {name: one.detach().cpu().double() for name, one in {"o": o, **gradients}.items()}


def by_strobe(options, layout):
    def compute(leaves):
        extra = {name: leaves[name] for name in ("bias", "sinks") if name in leaves}
        q, k, v = (leaves[name].transpose(1, 2) if layout == "bshd" else leaves[name] for name in ("q", "k", "v"))
        o = strobe.attention(q, k, v, layout=layout, **options, **extra)
        return o.transpose(1, 2) if layout == "bshd" else o
    return compute


@pytest.mark.parametrize("block", range(10))
def test_twice_the_error_of_plain_attention(block, device):
    """The error against float64 is at most twice that of plain attention on the CPU in the same dtype, plus rounding."""
    for seed in range(block * 30, block * 30 + 30):
        inputs, options, dtype, layout = definition.random_problem(seed)
        inputs = {name: one.to(dtype).float() for name, one in inputs.items()}
        weights = torch.randn(*inputs["q"].shape[:3], inputs["v"].shape[3], generator=torch.Generator().manual_seed(1))
        exact = results_of(lambda leaves: definition.attention(
            leaves["q"], leaves["k"], leaves["v"], **options,
            **{name: leaves[name] for name in ("bias", "sinks") if name in leaves})[0], inputs, torch.float64, weights)
        theirs = results_of(lambda leaves: plain(leaves, options), inputs, dtype, weights)
        strobes = by_strobe(definition.on(device, options), layout)
        ours = results_of(strobes, inputs, dtype, weights, device)
        unit = torch.finfo(dtype).eps
        for name, value in exact.items():
            if name not in ours:
                continue
            allowed = 2 * (theirs[name] - value).abs().max() + 4 * unit * (value.abs().max() + 1)
            error = (ours[name] - value).abs().max()
            assert error <= allowed, (seed, name, dtype, options, error.item(), allowed.item())


def test_packed_equals_separate_sequences(device):
    lengths_q, lengths_k = [3, 0, 9], [5, 4, 9]
    q, k, v = given((12, 4, 16), (18, 2, 16), (18, 2, 16), device=device)
    cu_q, cu_k = (torch.tensor([0, *torch.tensor(one).cumsum(0)], dtype=torch.int32, device=device)
                  for one in (lengths_q, lengths_k))
    o, lse = strobe.attention(q, k, v, causal=True, align="bottom_right", layout="thd", cu_seqlens_q=cu_q,
                              cu_seqlens_k=cu_k, max_seqlen_q=9, max_seqlen_k=9, return_lse=True)
    for i in range(3):
        rows, keys = slice(cu_q[i], cu_q[i + 1]), slice(cu_k[i], cu_k[i + 1])
        if lengths_q[i] == 0:
            continue
        part = [one[None].transpose(1, 2) for one in (q[rows], k[keys], v[keys])]
        expected, sums = definition.attention(*part, causal=True, align="bottom_right")
        definition.assert_close(o[rows].transpose(0, 1)[None], expected)
        definition.assert_close(lse[:, rows], sums[0])


def test_gradient_of_lse(device):
    q, k, v = given((2, 4, 9, 16), (2, 2, 9, 16), (2, 2, 9, 16), device=device)
    for weight in (1, 0):  # 0: only LSE has a gradient
        o, lse = strobe.attention(q, k, v, return_lse=True)
        ours = torch.autograd.grad((o.square().sum() if weight else 0) + lse.sin().sum(), (q, k, v))
        o, lse = definition.attention(q, k, v)
        exact = torch.autograd.grad(weight * o.square().sum() + lse.sin().sum(), (q, k, v))
        for one, other in zip(ours, exact):
            definition.assert_close(one, other)


def test_an_unused_lse_needs_no_gradient(device):
    q, k, v = given((2, 4, 9, 16), (2, 2, 9, 16), (2, 2, 9, 16), device=device)
    o, _ = strobe.attention(q, k, v, return_lse=True)
    exact, _ = definition.attention(q, k, v)
    for one, other in zip(torch.autograd.grad(o.square().sum(), (q, k, v)),
                          torch.autograd.grad(exact.square().sum(), (q, k, v))):
        definition.assert_close(one, other)


def test_left_padding(device):
    q, k, v = given((2, 2, 4, 8), (2, 2, 90, 8), (2, 2, 90, 8), device=device)
    first = torch.tensor([0, 75], dtype=torch.int32, device=device)
    o = strobe.attention(q, k, v, first_keys=first, causal=True, align="bottom_right")
    expected, _ = definition.attention(q, k, v, first_keys=first, causal=True, align="bottom_right")
    definition.assert_close(o, expected)
    for one, other in zip(torch.autograd.grad(o.square().sum(), (q, k, v)),
                          torch.autograd.grad(expected.square().sum(), (q, k, v))):
        definition.assert_close(one, other, 2e-5)


def test_a_mask_is_not_copied(device):
    """A boolean mask reaches the kernel as it is, so the call allocates no bias."""
    q, k, v = given((1, 1, 2, 8), (1, 1, 4096, 8), (1, 1, 4096, 8), grad=False, device=device)
    mask = torch.ones(1, 1, 4096, 2, dtype=torch.bool, device=device).transpose(2, 3)
    taken, run = [], strobe._torch_ops.run
    strobe._torch_ops.run = lambda tensors, *rest: taken.append(tensors) or run(tensors, *rest)
    try:
        definition.assert_close(strobe.attention(q, k, v, mask=mask), definition.attention(q, k, v)[0])
    finally:
        strobe._torch_ops.run = run
    assert taken[0][3] is None and taken[0][4].data_ptr() == mask.data_ptr()


@pytest.mark.refused_on_cuda
def test_batch_invariant_rows_do_not_depend_on_the_batch(device):
    q, k, v = given((5, 4, 33, 16), (5, 2, 70, 16), (5, 2, 70, 16), grad=False, device=device)
    whole = strobe.attention(q, k, v, batch_invariant=True)
    for b in range(5):
        assert torch.equal(strobe.attention(q[b:b + 1], k[b:b + 1], v[b:b + 1], batch_invariant=True), whole[b:b + 1])
    rows = [strobe.attention(q[:, :, i:i + 1], k, v, batch_invariant=True) for i in range(33)]
    assert torch.equal(torch.cat(rows, 2), whole)


SHAPES = [((2, 4, 5, 8), (2, 4, 7, 8), False), ((5, 8), (7, 8), False), ((4, 5, 8), (4, 7, 8), False),
          ((2, 3, 4, 5, 8), (2, 3, 4, 7, 8), False), ((2, 4, 5, 8), (4, 7, 8), False), ((2, 4, 5, 8), (1, 1, 7, 8), False),
          ((2, 4, 5, 8), (2, 2, 7, 8), True)]


@pytest.mark.parametrize("shape_q, shape_k, enable_gqa", SHAPES)
@pytest.mark.parametrize("mask", [None, "causal", "bool", "float"])
def test_sdpa_agrees_with_pytorch(shape_q, shape_k, enable_gqa, mask, device):
    """Compares with PyTorch on the CPU."""
    inputs = given(shape_q, shape_k, shape_k)
    on_device = definition.on(device, inputs)
    options = {"enable_gqa": enable_gqa, "is_causal": mask == "causal"}
    if mask in ("bool", "float"):
        bits = torch.rand(5, 7) < 0.6
        options["attn_mask"] = bits if mask == "bool" else torch.where(bits, 0.3, float("-inf"))
    ours = strobe.scaled_dot_product_attention(*on_device, **definition.on(device, options))
    theirs = F.scaled_dot_product_attention(*inputs, **options)
    assert ours.shape == theirs.shape
    definition.assert_close(ours, theirs)
    for one, other in zip(torch.autograd.grad(ours.square().sum(), on_device),
                          torch.autograd.grad(theirs.square().sum(), inputs)):
        definition.assert_close(one, other)


def test_varlen_attn(device):
    q, k, v = given((8, 4, 16), (8, 4, 16), (8, 4, 16), grad=False, device=device)
    cu = torch.tensor([0, 3, 8], dtype=torch.int32, device=device)
    o = strobe.varlen_attn(q, k, v, cu, cu, 5, 5, is_causal=True)
    for begin, end in ((0, 3), (3, 8)):
        expected = F.scaled_dot_product_attention(*(one[begin:end].transpose(0, 1).cpu() for one in (q, k, v)), is_causal=True)
        definition.assert_close(o[begin:end].transpose(0, 1), expected)
    with pytest.raises(NotImplementedError, match="block_table"):
        strobe.varlen_attn(q, k, v, cu, cu, 5, 5, block_table=cu)


def test_nested_tensors_equal_separate_sequences(device):
    parts = [torch.randn(n, 4, 16, device=device) for n in (5, 9, 1)]
    nested = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    q = nested.transpose(1, 2)
    o = strobe.attention(q, q, q, causal=True)
    o.values().sum().backward()
    for one, part in zip(o.transpose(1, 2).unbind(), parts):
        x = part.transpose(0, 1)[None].cpu()
        definition.assert_close(one.transpose(0, 1)[None], F.scaled_dot_product_attention(x, x, x, is_causal=True))
    assert nested.grad is not None


def test_output_has_the_memory_order_of_q(device):
    x = torch.randn(2, 9, 4, 16, device=device)
    o = strobe.attention(*(x.transpose(1, 2),) * 3)
    assert o.transpose(1, 2).is_contiguous()
    o = strobe.attention(x, x, x, layout="bshd")
    assert o.is_contiguous()


def test_dropout_follows_the_seed(device):
    q, k, v = given((1, 2, 33, 16), (1, 2, 33, 16), (1, 2, 33, 16), device=device)
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append(strobe.attention(q, k, v, dropout_p=0.3))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    ones = torch.ones(1, 2, 33, 16, device=device)
    kept = strobe.attention(q, k, ones, dropout_p=0.3, generator=torch.Generator().manual_seed(3))
    assert abs(kept.mean().item() - 1) < 0.1


def test_fallback_is_only_used_on_request(device):
    q, k, v = given((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8), grad=False, device=device)
    with pytest.raises(NotImplementedError):
        strobe.attention(q.double(), k.double(), v.double())
    with pytest.raises(ValueError, match="fallback"):
        strobe.attention(q, k, v, fallback="flash")
    definition.assert_close(strobe.attention(q, k, v, fallback="sdpa"),
                            F.scaled_dot_product_attention(*definition.on("cpu", [q, k, v])))


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
    bad({"sinks": torch.zeros(3)}, ValueError, "sinks has a wrong shape; valid: [2]"),
    bad({"alibi_slopes": torch.zeros(2, 1)}, ValueError, "alibi_slopes has a wrong shape; valid: [2] or [1, 2]"),
    bad({"lengths_k": torch.ones(1)}, ValueError, "lengths_k is not int32 or int64"),
    bad({"lengths_k": torch.ones(1, 1, dtype=torch.int32)}, ValueError, "lengths_k is not a contiguous 1-D tensor"),
    bad({"lengths_k": torch.ones(2, dtype=torch.int32)}, ValueError, "lengths_k"),
    bad({"unknown": 1}, TypeError, "unexpected keyword argument"),
])
def test_bad_input_is_one_line(change, error, text, device):
    arguments = {"q": torch.zeros(1, 2, 4, 8), "k": torch.zeros(1, 2, 4, 8), "v": torch.zeros(1, 2, 4, 8), **change}
    if device == "cuda":
        arguments = {name: one if getattr(one, "is_meta", False) else definition.on(device, one)
                     for name, one in arguments.items()}
        if "stride 2" in text:  # moving a tensor makes it contiguous
            arguments["q"] = torch.zeros(1, 2, 4, 16, device=device)[..., ::2]
        text = text.replace("on cpu", "on cuda:0")
    with pytest.raises(error) as raised:
        strobe.attention(arguments.pop("q"), arguments.pop("k"), arguments.pop("v"), **arguments)
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_mask_and_is_causal_are_refused(device):
    q, k, v = given((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8), device=device)
    with pytest.raises(ValueError, match="attn_mask and is_causal"):
        strobe.scaled_dot_product_attention(q, k, v, torch.ones(4, 4, dtype=torch.bool, device=device), is_causal=True)


@pytest.mark.parametrize("name", ["k", "bias", "sinks", "lengths_k", "cu_seqlens_q"])
def test_tensors_of_two_devices_are_refused(name, device):
    q, k, v = given((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8), device=device)
    other = "cpu" if device == "cuda" else "meta"
    tensors = {"k": k, "bias": torch.zeros(4, 4), "sinks": torch.zeros(2), "lengths_k": torch.ones(1, dtype=torch.int32),
               "cu_seqlens_q": torch.zeros(2, dtype=torch.int32)}
    arguments = {"q": q, "k": k, "v": v, name: tensors[name].to(other)}
    with pytest.raises(ValueError, match=f"{name} is on {other} but q is on {q.device}"):
        strobe.attention(**arguments)


def test_cuda_runs_on_the_current_stream(device):
    """A call waits for earlier work of its own stream, and later work of that stream sees its result."""
    if device == "cpu":
        pytest.skip("streams are for CUDA")
    q, k, v = given((2, 8, 1024, 64), (2, 8, 1024, 64), (2, 8, 1024, 64), grad=False, device=device)
    expected = strobe.attention(q, k, v)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    results = []
    with torch.cuda.stream(stream):
        for _ in range(5):
            late = torch.zeros_like(q)
            torch.cuda._sleep(20_000_000)
            late.copy_(q)
            results.append(strobe.attention(late, k, v).clone())
    stream.synchronize()
    assert all(torch.equal(one, expected) for one in results)


@pytest.mark.parametrize("options", [{}, {"causal": True, "softcap": 10.0}], ids=["plain", "causal softcap"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_cuda_graph_replays_equal_bits(dtype, options, device):
    if device == "cpu":
        pytest.skip("graphs are for CUDA")
    inputs = [one.detach().to(dtype).requires_grad_() for one in given((2, 4, 200, 64), (2, 2, 200, 64), (2, 2, 200, 64),
                                                                       device=device)]

    def step():
        o = strobe.attention(*inputs, **options)
        return [o, *torch.autograd.grad(o, inputs, torch.ones_like(o))]

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = step()
    with torch.no_grad():
        inputs[0].copy_(torch.randn_like(inputs[0]))
    graph.replay()
    assert all(torch.equal(one, other) for one, other in zip(recorded, step()))
