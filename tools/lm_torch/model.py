"""A checkpoint of `strobe lm train` as a PyTorch model with a KV cache, for tools/lm-validation and tools/lm-sample-peer.

Implements the architectures of docs/training.md with plain torch functions, independently of the program."""
import json

import torch
import torch.nn.functional as F
from safetensors import safe_open


def rope_table(context, dim):
    """Returns the cosines and sines [context, dim / 2] of RoPE with base 10000."""
    power = torch.arange(0, dim, 2, dtype=torch.float64) / dim
    angle = torch.arange(context, dtype=torch.float64)[:, None] * 10000.0 ** -power
    return angle.cos().float(), angle.sin().float()


def rotate(x, cosine, sine):
    """Rotates adjacent pairs of x [batch, heads, rows, dim]."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1).flatten(-2)


class Model:
    """Maps tokens [batch, rows] to logits [batch, rows, vocabulary], in fp32 on the CPU."""

    def __init__(self, path):
        with safe_open(path, framework="pt") as file:
            self.settings = json.loads(file.metadata()["settings"])
            self.weights = {name: file.get_tensor(name) for name in file.keys()
                            if not name.startswith(("adamw.", "checksum", "weights_checksum"))}
        self.layers, self.heads, self.context = (self.settings[key] for key in ("layers", "heads", "context"))
        self.is_gpt2 = self.settings.get("arch") == "gpt2"
        self.head_dim = self.settings["d_model"] // self.heads
        self.cosine, self.sine = rope_table(self.context, self.head_dim)
        self.restart()

    def restart(self, batch=1):
        """Empties the KV cache."""
        shape = batch, self.heads, self.context, self.head_dim
        self.keys = [torch.empty(shape) for _ in range(self.layers)]
        self.values = [torch.empty(shape) for _ in range(self.layers)]
        self.length = 0

    def linear(self, x, name):
        bias = self.weights.get(name + ".bias")
        return F.linear(x, self.weights[name + ".weight"], None if bias is None else bias[0])

    def norm(self, x, name):
        weight = self.weights[name + ".weight"][0]
        if self.is_gpt2:
            return F.layer_norm(x, weight.shape, weight, self.weights[name + ".bias"][0], eps=1e-5)
        return F.rms_norm(x, weight.shape, weight, eps=1e-5)

    def attention(self, x, layer):
        begin, end = self.length, self.length + x.shape[1]
        q, k, v = (self.linear(x, f"layers.{layer}.attention.{part}").unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in "qkv")
        if not self.is_gpt2:
            q, k = (rotate(t, self.cosine[begin:end], self.sine[begin:end]) for t in (q, k))
        self.keys[layer][:, :, begin:end], self.values[layer][:, :, begin:end] = k, v
        if begin > 0 and end > begin + 1:
            raise ValueError("a cached model takes one token at a time")
        o = F.scaled_dot_product_attention(q, self.keys[layer][:, :, :end], self.values[layer][:, :, :end],
                                           is_causal=end > begin + 1)
        return self.linear(o.transpose(1, 2).flatten(-2), f"layers.{layer}.attention.o")

    def feed_forward(self, x, layer):
        name = f"layers.{layer}.feed_forward."
        h = self.linear(x, name + "w1")
        h = F.gelu(h) if self.is_gpt2 else F.silu(h) * self.linear(x, name + "w3")
        return self.linear(h, name + "w2")

    def append(self, tokens):
        """Appends rows to the cache. Returns the hidden rows before the unembedding."""
        x = self.weights["embedding.weight"][tokens]
        if self.is_gpt2:
            x = x + self.weights["positions.weight"][self.length:self.length + tokens.shape[1]]
        for layer in range(self.layers):
            x = x + self.attention(self.norm(x, f"layers.{layer}.attention_norm"), layer)
            x = x + self.feed_forward(self.norm(x, f"layers.{layer}.feed_forward_norm"), layer)
        self.length += tokens.shape[1]
        return self.norm(x, "norm")

    def logits(self, hidden):
        return self.linear(hidden, "unembedding")
