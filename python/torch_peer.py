"""The Python side of the torch-* implementations of `strobe bench`: runs PyTorch's attention, one call per request.

The program embeds this text and starts it as `python3 -c <text>`. Requests and answers are lines of JSON on standard
input and output. Descriptor 3 is shared memory with the tensors of a request, valid until that request is answered.
Several implementations may be prepared at the same time; requests contain the implementation's name. The script ends at
the end of its input.
"""
import contextlib
import json
import mmap
import os
import re
import sys
import time

replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # sends the output of libraries to standard error, so that it does not mix with the answers

BACKENDS = {"torch-sdpa": "FLASH_ATTENTION", "torch-math": "MATH", "torch-flash": "FLASH_ATTENTION",
            "torch-efficient": "EFFICIENT_ATTENTION", "torch-cudnn": "CUDNN_ATTENTION"}
CPU_PEERS = ("torch-sdpa", "torch-math", "torch-naive", "torch-compile")
FLUSH_BYTES = 256 << 20  # size of the L2 flush buffer: larger than any L2 cache
SLEEP_CYCLES = 2_000_000  # about 1 ms, during which the host enqueues the whole call


class Unsupported(Exception):
    """Raised with the reason if an implementation does not support the case."""


class Peers:
    """Serves requests, and keeps the prepared implementations by name."""

    def __init__(self):
        self.prepared = {}
        self.torch = None

    def hello(self, request):
        """Answers the first request of a client. In a sweep, one process serves the clients of all problems in turn."""
        for task in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError):  # the thread has ended, or the core is unavailable
                os.sched_setaffinity(int(task), request["cores"])
        try:
            import torch
        except Exception as error:
            raise Unsupported(f"no PyTorch in {sys.executable} ({error}); install torch there, or set STROBE_PYTHON "
                          "to another interpreter")
        self.torch = torch
        torch.set_num_threads(request["threads"])
        return {"torch": torch.__version__, "python": sys.version.split()[0], "threads": torch.get_num_threads()}

    def prepare(self, request):
        self.release(request)
        peer = self.prepared[request["implementation"]] = Peer(self.torch)
        return peer.prepare(request)

    def memory_answer(self, error):
        """Returns the requested and free bytes of a failed GPU allocation; empty if unknown."""
        found = re.search(r"CUDA out of memory\. Tried to allocate ([0-9.]+) (bytes|[KMGT]iB)", str(error))
        if not found:
            return {}
        cuda = self.torch.cuda
        unit = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}[found.group(2)]
        held = cuda.memory_allocated()
        free = cuda.mem_get_info()[0] + held
        return {"asked": held + int(float(found.group(1)) * unit), "free": free}

    def ask(self, request):
        return getattr(self.prepared[request["implementation"]], request["command"])(request)

    def are_unusable(self):
        """Returns true if the CUDA context has failed, so that all later calls fail too."""
        try:
            if self.torch.cuda.is_available() and self.torch.cuda.is_initialized():
                self.torch.cuda.synchronize()
            return False
        except Exception:
            return True

    def release(self, request):
        peer = self.prepared.pop(request["implementation"], None)
        if peer is not None:
            peer.release()
        return {}


class Peer:
    def __init__(self, torch):
        self.torch = torch
        self.backend = contextlib.nullcontext  # context manager that selects the backend
        self.unpacked = None  # function that splits a packed input into q, k and v; None: not packed
        self.o = self.grads = self.d_o = self.inputs = self.attend = self.flush = None
        self.on_gpu = False

    def prepare(self, request):
        torch = self.torch
        torch.set_num_threads(request["threads"])
        self.device = request["device"]
        self.on_gpu = self.device == "cuda"
        self.hot = request["hot"]
        implementation = request["implementation"]
        if self.on_gpu and not torch.cuda.is_available():
            raise Unsupported(f"this PyTorch ({torch.__version__}) sees no GPU")
        if not self.on_gpu and implementation not in CPU_PEERS:
            raise Unsupported(f"{implementation} is a backend of CUDA; valid on a CPU: {', '.join(CPU_PEERS)}")
        fused = implementation in BACKENDS
        if fused and request["window"] != [-1, -1]:
            raise Unsupported("scaled_dot_product_attention has no sliding window without a materialised mask")
        if fused and request["causal"] and request["align"] == "bottom_right" and request["seqlen_q"] != request["seqlen_k"]:
            raise Unsupported("scaled_dot_product_attention's is_causal is aligned top_left")
        if self.on_gpu:
            torch.backends.cuda.matmul.allow_tf32 = request["tf32"]
        self.dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[request["dtype"]]
        tensors = self.shared_tensors(request)
        if self.on_gpu:
            self.flush = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
            self.begin = torch.cuda.Event(enable_timing=True)
            self.end = torch.cuda.Event(enable_timing=True)
        self.inputs = [self.copied(tensors[name]).requires_grad_(request["backward"]) for name in ("q", "k", "v")]
        self.d_o = self.copied(tensors["d_o"]) if request["backward"] else None
        if not fused:
            return self.prepare_naive(request)
        self.attend = self.attend_fused
        self.options = {"is_causal": request["causal"]}
        if request["heads"] != request["kv_heads"]:
            self.options["enable_gqa"] = True
        wanted = BACKENDS[implementation]
        if self.on_gpu and implementation == "torch-sdpa" and request["dtype"] == "fp32":
            wanted = "EFFICIENT_ATTENTION"
        return {"kernel": "scaled_dot_product_attention", "configuration": f"backend {self.choose_backend(wanted)}"}

    def shared_tensors(self, request):
        """Returns views of the shared memory by name. Callers must drop them before they answer the request."""
        memory = mmap.mmap(3, request["bytes"]) if request["bytes"] else None
        tensors = {}
        for name, place in request["tensors"].items():
            count = 1
            for size in place["shape"]:
                count *= size
            if count == 0:
                raise Unsupported(f"{name} is empty: {place['shape']}")
            flat = self.torch.frombuffer(memory, dtype=self.dtype, count=count, offset=place["offset"])
            tensors[name] = flat.view(place["shape"])
        return tensors

    def prepare_naive(self, request):
        """Plain attention: matmul, softmax, matmul; torch-compile: the same, compiled.

        If q and k have the same shape, q, k and v are views of one tensor [B, S, 3, H, D], as in the reports that
        docs/source-report.md answers. The matmuls copy these views, so the copies count as memory of plain attention.
        """
        torch = self.torch
        hidden = self.mask_of(request)
        scale = request["head_dim"] ** -0.5
        group = request["heads"] // request["kv_heads"]

        def attention(q, k, v):
            if group > 1:
                k, v = (tensor.repeat_interleave(group, 1) for tensor in (k, v))
            scores = q @ k.transpose(-2, -1) * scale
            if hidden is not None:
                scores = scores.masked_fill(hidden, float("-inf"))
            return torch.softmax(scores, -1) @ v

        configuration = "eager"
        if request["implementation"] == "torch-compile":
            import torch._functorch.config
            torch._functorch.config.donated_buffer = False  # backward is timed many times on one graph
            torch._dynamo.reset()
            attention = torch.compile(attention, dynamic=False)
            configuration = "torch.compile"
        self.attend = lambda: attention(*self.inputs)
        if self.inputs[0].shape == self.inputs[1].shape:
            with torch.no_grad():
                packed = torch.stack([tensor.transpose(1, 2) for tensor in self.inputs], 2)
            self.inputs = [packed.requires_grad_(request["backward"])]
            self.unpacked = lambda packed: [tensor.transpose(1, 2) for tensor in packed.unbind(2)]
            self.attend = lambda: attention(*self.unpacked(self.inputs[0]))
        o = self.attend()  # compiles
        if self.d_o is not None:
            self.gradients(o, False)
        return {"kernel": "matmul, softmax, matmul", "configuration": configuration}

    def mask_of(self, request):
        """Returns [Sq, Sk], True for a masked score; None without a mask."""
        torch = self.torch
        left, right = request["window"]
        if request["causal"]:
            right = 0 if right < 0 else min(right, 0)
        if left < 0 and right < 0:
            return None
        offset = request["seqlen_k"] - request["seqlen_q"] if request["align"] == "bottom_right" else 0
        rows = torch.arange(request["seqlen_q"], device=self.device).unsqueeze(1) + offset
        keys = torch.arange(request["seqlen_k"], device=self.device).unsqueeze(0)
        hidden = torch.zeros(request["seqlen_q"], request["seqlen_k"], dtype=torch.bool, device=self.device)
        if left >= 0:
            hidden |= keys < rows - left
        if right >= 0:
            hidden |= keys > rows + right
        if bool(hidden.all(1).any()):
            raise Unsupported("a row has no keys: this softmax returns NaN")
        return hidden

    def copied(self, tensor):
        return tensor.to("cuda") if self.on_gpu else tensor.clone()

    def choose_backend(self, wanted):
        """Selects the backend and returns its name; returns "default" if this PyTorch cannot select one."""
        try:
            from torch.nn.attention import SDPBackend, sdpa_kernel
        except ImportError:
            self.attend()
            return "default"
        self.backend = lambda: sdpa_kernel(getattr(SDPBackend, wanted))
        try:
            with self.backend():
                self.attend()
            return wanted
        except RuntimeError as error:
            self.backend = contextlib.nullcontext
            if wanted == "MATH" or self.on_gpu:
                raise Unsupported(str(error).splitlines()[0])
            self.attend()
            return f"default ({wanted} refused)"

    def attend_fused(self):
        return self.torch.nn.functional.scaled_dot_product_attention(*self.inputs, **self.options)

    def gradients(self, o, keep):
        return self.torch.autograd.grad(o, self.inputs, self.d_o, retain_graph=keep)

    def start_clock(self, call):
        if not self.on_gpu:
            return time.perf_counter()
        self.flush.fill_(1)
        if self.hot:
            call()
        self.torch.cuda._sleep(SLEEP_CYCLES)
        self.begin.record()

    def stop_clock(self, begin):
        if not self.on_gpu:
            return time.perf_counter() - begin
        self.end.record()
        self.end.synchronize()
        return self.begin.elapsed_time(self.end) / 1000

    def time(self, request):
        region = request["region"]
        call = {"forward": self.attend, "backward": lambda: self.gradients(self.o, True),
                "forward_backward": lambda: self.gradients(self.attend(), False)}[region]
        with self.backend():
            if region == "backward" and self.o is None:
                self.o = self.attend()
            begin = self.start_clock(call)
            result = call()
            seconds = self.stop_clock(begin)
        if region == "forward":
            self.o = result
        elif region == "backward":
            self.grads = result
        return {"seconds": seconds}

    def results(self, request):
        tensors = self.shared_tensors(request)
        with self.torch.no_grad():
            tensors["o"].copy_(self.o)
            if self.grads is not None:
                grads = self.unpacked(self.grads[0]) if self.unpacked else self.grads
                for name, grad in zip(("dq", "dk", "dv"), grads):
                    tensors[name].copy_(grad)
        return {}

    def peak(self, request):
        """Returns the peak bytes of all tensors in a forward and a backward, from the allocator's events."""
        if self.on_gpu:
            return self.gpu_peak()
        most = self.profiled(self.d_o is not None)[0]
        return {"bytes": most + self.input_bytes() + (self.bytes_of(self.d_o) if self.d_o is not None else 0)}

    def kept(self, request):
        """Returns the bytes saved for backward: inputs, output, and tensors that autograd saves."""
        if not self.on_gpu:
            return {"bytes": self.profiled(False)[1] + self.input_bytes()}
        self.o = self.grads = self.flush = self.d_o = None
        with self.backend():
            self.o = self.attend()
        self.torch.cuda.synchronize()
        return {"bytes": self.torch.cuda.memory_allocated()}

    def bytes_of(self, tensor):
        return tensor.numel() * tensor.element_size()

    def input_bytes(self):
        return sum(self.bytes_of(tensor) for tensor in self.inputs)

    def profiled(self, backward):
        """Returns the peak and the final bytes, without the inputs, of a forward and optionally a backward."""
        from torch.profiler import ProfilerActivity, profile

        self.o = self.grads = None
        with self.backend(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            self.o = self.attend()
            if backward:
                self.grads = self.gradients(self.o, True)
        events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
        held = most = 0
        for event in sorted(events, key=lambda event: event.start_ns()):
            held += event.nbytes()
            most = max(most, held)
        return most, held

    def gpu_peak(self):
        cuda = self.torch.cuda
        self.o = self.grads = self.flush = None
        cuda.empty_cache()
        cuda.reset_peak_memory_stats()
        with self.backend():
            self.o = self.attend()
            if self.d_o is not None:
                self.grads = self.gradients(self.o, True)
        cuda.synchronize()
        peak = cuda.max_memory_allocated()
        self.flush = self.torch.empty(FLUSH_BYTES // 4, dtype=self.torch.int32, device="cuda")
        return {"bytes": peak}

    def release(self):
        self.o = self.grads = self.d_o = self.inputs = self.attend = self.flush = None
        if self.on_gpu:
            # cuBLAS's workspaces of one peer must not count for the next one.
            getattr(self.torch._C, "_cuda_clearCublasWorkspaces", lambda: None)()
            self.torch.cuda.empty_cache()


def main():
    peers = Peers()
    commands = {"hello": peers.hello, "prepare": peers.prepare, "time": peers.ask, "results": peers.ask,
                "peak": peers.ask, "kept": peers.ask, "release": peers.release}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"ok": True, **commands[request["command"]](request)}
        except Unsupported as error:
            answer = {"ok": False, "status": "unsupported", "reason": str(error)}
        except MemoryError as error:
            answer = {"ok": False, "status": "oom", "reason": str(error) or "out of memory"}
        except Exception as error:
            memory = ("not enough memory", "out of memory", "can't allocate memory")
            status = "oom" if any(text in str(error) for text in memory) else "crashed"
            text = (str(error).splitlines() or [""])[0]
            answer = {"ok": False, "status": status, "reason": f"{type(error).__name__}: {text}",
                      "unusable": peers.are_unusable()}
            if status == "oom":
                answer.update(peers.memory_answer(error))
        replies.write(json.dumps(answer) + "\n")
        replies.flush()


main()
