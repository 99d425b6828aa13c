"""Attention in float64 by its definition, differentiable, and random problems."""

import random

import torch


def visible(problem, sq, sk, begin_k=0):
    """Returns [Sq, Sk], True where causal mask and window allow a query to use a key."""
    offset = sk - sq if problem.get("align") == "bottom_right" else 0
    rows = torch.arange(sq)[:, None] + offset
    keys = torch.arange(sk)[None, :]
    left, right = problem.get("window", (-1, -1))
    allowed = torch.ones(sq, sk, dtype=torch.bool)
    if problem.get("causal"):
        allowed &= keys <= rows
    if left >= 0:
        allowed &= keys >= rows - left
    if right >= 0:
        allowed &= keys <= rows + right
    return allowed & (keys >= begin_k)


def one_sequence(q, k, v, problem, index, begin_k=0):
    """Returns O [H, Sq, Dv] and LSE [H, Sq] of one sequence. Repeats the heads of k and v for each group."""
    group = q.shape[0] // k.shape[0]
    k, v = (one.repeat_interleave(group, 0) for one in (k, v))
    scores = q @ k.transpose(-1, -2) * (problem.get("scale") or q.shape[-1] ** -0.5)
    sq, sk = scores.shape[-2:]
    if problem.get("softcap"):
        scores = problem["softcap"] * torch.tanh(scores / problem["softcap"])
    if problem.get("alibi_slopes") is not None:
        slopes = problem["alibi_slopes"].to(scores.dtype)
        slopes = slopes if slopes.dim() == 1 else slopes[index]
        offset = sk - sq if problem.get("align") == "bottom_right" else 0
        distance = (torch.arange(sq)[:, None] + offset - torch.arange(sk)[None, :]).abs()
        scores = scores - slopes[:, None, None] * distance
    if problem.get("bias") is not None:
        bias = problem["bias"].to(scores.dtype)
        scores = scores + bias[index % bias.shape[0]][..., :sq, :sk]
    allowed = visible(problem, sq, sk, begin_k)
    if problem.get("mask") is not None:
        mask = problem["mask"]
        allowed = allowed & mask[index % mask.shape[0]][..., :sq, :sk]
    scores = scores.masked_fill(~allowed, float("-inf"))
    extra = problem["sinks"].to(scores.dtype)[:, None, None].expand(*scores.shape[:2], 1) \
        if problem.get("sinks") is not None else scores.new_full((*scores.shape[:2], 1), float("-inf"))
    lse = torch.logsumexp(torch.cat([scores, extra], -1), -1)
    probabilities = torch.exp(scores - lse.masked_fill(lse == float("-inf"), 0)[..., None])
    return probabilities @ v, lse


def attention(q, k, v, **problem):
    """Returns O and LSE of inputs [B, H, S, D] on any device, computed in float64 on the CPU. Options are those of
    strobe_attention."""
    q, k, v = (one.cpu().double() for one in (q, k, v))
    problem = {name: one.cpu() if isinstance(one, torch.Tensor) else one for name, one in problem.items()}
    outputs, sums = [], []
    for b in range(q.shape[0]):
        rows = int(problem["lengths_q"][b]) if problem.get("lengths_q") is not None else q.shape[2]
        keys = int(problem["lengths_k"][b]) if problem.get("lengths_k") is not None else k.shape[2]
        begin = int(problem["first_keys"][b]) if problem.get("first_keys") is not None else 0
        o, lse = one_sequence(q[b, :, :rows], k[b, :, :keys], v[b, :, :keys], problem, b, begin)
        outputs.append(torch.nn.functional.pad(o, (0, 0, 0, q.shape[2] - rows)))
        sums.append(torch.nn.functional.pad(lse, (0, q.shape[2] - rows), value=float("-inf")))
    return torch.stack(outputs), torch.stack(sums)


def on(device, values):
    """Moves the tensors of a dict, list or tuple to a device. Leaves stay leaves that require a gradient."""
    if isinstance(values, dict):
        return {name: on(device, one) for name, one in values.items()}
    if isinstance(values, (list, tuple)):
        return type(values)(on(device, one) for one in values)
    if isinstance(values, torch.Tensor):
        return values.detach().to(device).requires_grad_(values.requires_grad)
    return values


def assert_close(actual, expected, tolerance=1e-5):
    torch.testing.assert_close(actual.cpu().double(), expected.cpu().double(), atol=tolerance, rtol=tolerance)


def random_problem(seed):
    """Returns sizes and options of a random problem, and its inputs in float32. Equal seeds give equal problems."""
    r = random.Random(seed)
    g = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=g)

    b, kv, group = r.choice([1, 2, 3]), r.choice([1, 2]), r.choice([1, 2, 3])
    h, sq, sk = kv * group, r.choice([1, 5, 17, 33]), r.choice([1, 6, 17, 40])
    d, dv = r.choice([8, 16, 40, 64]), r.choice([8, 24, 64])
    inputs = {"q": normal(b, h, sq, d), "k": normal(b, kv, sk, d), "v": normal(b, kv, sk, dv)}
    options = {"align": r.choice(["top_left", "bottom_right"])}

    def sometimes(name, make):
        if r.random() < 0.3:
            options[name] = make()

    sometimes("causal", lambda: True)
    sometimes("window", lambda: (r.choice([-1, 3, 9]), r.choice([-1, 0, 4])))
    sometimes("scale", lambda: r.choice([0.1, 0.5]))
    sometimes("softcap", lambda: r.choice([2.0, 20.0]))
    sometimes("alibi_slopes", lambda: torch.rand(*r.choice([(h,), (b, h)]), generator=g))
    sometimes("mask", lambda: torch.rand(r.choice([1, b]), r.choice([1, h]), sq, sk, generator=g) < 0.7)
    sometimes("lengths_q", lambda: torch.randint(0, sq + 1, (b,), generator=g, dtype=torch.int32))
    sometimes("lengths_k", lambda: torch.randint(0, sk + 1, (b,), generator=g, dtype=torch.int32))
    if r.random() < 0.3:
        inputs["bias"] = normal(r.choice([1, b]), r.choice([1, h]), r.choice([1, sq]), sk)
    if r.random() < 0.3:
        inputs["sinks"] = normal(h)
    return inputs, options, r.choice([torch.float32, torch.float16, torch.bfloat16]), r.choice(["bhsd", "bshd"])
