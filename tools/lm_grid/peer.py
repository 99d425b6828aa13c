"""Times the language model's decoder in PyTorch, in a separate process. tools/lm-grid and tools/lm-compile use it.

Run as a program, it reads one JSON line per cell and answers with one JSON line. `Peer` is the client.
"""
import gc
import json
import math
import os
import subprocess
import sys
import time

# d_model, d_ff, layers, heads, vocabulary, context: as in src/lm/models/shape.cpp
SIZES = {"tiny": (128, 512, 4, 4, 256, 128), "small": (768, 3072, 12, 12, 10000, 512),
         "medium": (1024, 4096, 24, 16, 10000, 512), "large": (1280, 5120, 36, 20, 10000, 512),
         "xl": (1600, 6400, 48, 25, 10000, 512), "2.7B": (2560, 10240, 32, 32, 10000, 512)}
WARM_UP = 5


def decoder(torch, size, attention):
    """Returns the decoder as a torch module: pre-norm blocks, RoPE, SwiGLU, no biases, untied embeddings."""
    nn, functional = torch.nn, torch.nn.functional
    width, hidden, layers, heads, vocabulary, context = SIZES[size]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before_attention, self.before_hidden = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
            self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
            self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
            self.down = nn.Linear(hidden, width, bias=False)

        def forward(self, x, rotate):
            batch, length, _ = x.shape
            normed = self.before_attention(x)
            split = [layer(normed).view(batch, length, heads, -1).transpose(1, 2)
                     for layer in (self.query, self.key, self.value)]
            q, k, v = rotate(split[0]).to(split[2].dtype), rotate(split[1]).to(split[2].dtype), split[2]
            if attention == "plain":
                scores = q @ k.transpose(-1, -2) / math.sqrt(width // heads)
                later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
                mixed = torch.softmax(scores.masked_fill(later, -math.inf), -1) @ v
            else:
                mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            normed = self.before_hidden(x)
            return x + self.down(functional.silu(self.gate(normed)) * self.up(normed))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.norm = nn.Embedding(vocabulary, width), nn.RMSNorm(width, eps=1e-5)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.unembedding = nn.Linear(width, vocabulary, bias=False)
            dim = width // heads
            angle = torch.outer(torch.arange(context), 10000.0 ** (-torch.arange(0, dim, 2) / dim))
            self.register_buffer("cosine", angle.cos())
            self.register_buffer("sine", angle.sin())

        def rotate(self, x):
            even, odd = x[..., ::2], x[..., 1::2]
            return torch.stack((even * self.cosine - odd * self.sine, even * self.sine + odd * self.cosine), -1).flatten(-2)

        def forward(self, tokens):
            x = self.embedding(tokens)
            for block in self.blocks:
                x = block(x, self.rotate)
            return self.unembedding(self.norm(x))

    return Decoder()


def pass_of(torch, cell, model, called):
    """Returns a function that runs the cell's pass once: "forward" without autograd, or a whole "step" with AdamW."""
    vocabulary, context = SIZES[cell["size"]][4:]
    low = cell["precision"] == "bf16"
    tokens, targets = (torch.randint(vocabulary, (cell["batch"], context), device=cell["device"]) for _ in range(2))

    def loss():
        with torch.autocast(cell["device"], torch.bfloat16, enabled=low):
            return torch.nn.functional.cross_entropy(called(tokens).view(-1, vocabulary), targets.view(-1))

    if cell["pass"] == "forward":
        return torch.no_grad()(loss)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step():
        loss().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def measure(torch, cell):
    """Returns the mean seconds of the pass, the seconds of the warm-up (with compilation) and, on a GPU, peak bytes
    allocated."""
    cuda = cell["device"] == "cuda"
    wait = torch.cuda.synchronize if cuda else lambda: None
    torch._dynamo.reset()
    gc.collect()
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    torch.backends.cuda.matmul.allow_tf32 = cell["precision"] == "tf32"
    with torch.device(cell["device"]):  # creates the parameters on that device
        model = decoder(torch, cell["size"], cell["attention"])
    run = pass_of(torch, cell, model, torch.compile(model) if cell["mode"] == "compiled" else model)

    def timed(count):
        began = time.perf_counter()
        for _ in range(count):
            run()
        wait()
        return time.perf_counter() - began

    warm_up = timed(WARM_UP)
    return {"seconds": timed(cell["steps"]) / cell["steps"], "warm_up": warm_up, "torch": torch.__version__,
            "peak": torch.cuda.max_memory_allocated() if cuda else None,
            "parameters": sum(parameter.numel() for parameter in model.parameters())}


def serve():
    import torch
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # sends the output of libraries to standard error, so that only answers go to the client
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        cell = json.loads(line)
        torch.set_num_threads(cell["threads"])
        try:
            answer = measure(torch, cell)
        except torch.OutOfMemoryError:
            answer = {"error": "out of memory"}
        except Exception as error:  # reported in the table
            answer = {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}"}
        print(json.dumps(answer), file=answers, flush=True)


class PeerEnded(Exception):
    pass


class Peer:
    """Client of a Python process with PyTorch. The variable STROBE_PYTHON names the interpreter."""

    def __init__(self):
        python = os.environ.get("STROBE_PYTHON", "python3")
        try:
            self.process = subprocess.Popen([python, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        except OSError as error:
            raise PeerEnded(f"{python}: {error.strerror}; set STROBE_PYTHON to an interpreter with torch")
        self.receive()  # importing torch keeps a core busy for seconds, so wait for its end before measuring

    def receive(self):
        line = self.process.stdout.readline()
        if not line:
            raise PeerEnded("the peer's Python ended; set STROBE_PYTHON to an interpreter with torch")
        return line

    def measure(self, cell):
        try:
            print(json.dumps(cell), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass  # receive() reports it
        return json.loads(self.receive())


if __name__ == "__main__":
    serve()
