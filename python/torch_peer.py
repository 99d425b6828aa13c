"""The Python side of the torch-* implementations and fa3 of `strobe bench`: runs one call of attention per request.

The program embeds this text and starts it as `python3 -c <text>`. Requests and answers are lines of JSON on standard
input and output. Descriptor 3 is shared memory with the tensors of a request, valid until that request is answered.
Several implementations may be prepared at the same time; requests contain the implementation's name. The script ends at
the end of its input.
"""
import contextlib
import importlib
import inspect
import json
import mmap
import os
import re
import sys
import time
import warnings

BACKENDS = {"torch-sdpa": "FLASH_ATTENTION", "torch-math": "MATH", "torch-flash": "FLASH_ATTENTION",
            "torch-efficient": "EFFICIENT_ATTENTION", "torch-cudnn": "CUDNN_ATTENTION"}
CPU_PEERS = ("torch-sdpa", "torch-math", "torch-naive", "torch-compile", "torch-flex")
PLAIN_OPTIONS = ("window", "softcap", "alibi", "bias", "dropout")
# The options that each implementation supports. The others are backends of scaled_dot_product_attention.
OPTIONS = {"torch-naive": PLAIN_OPTIONS, "torch-compile": PLAIN_OPTIONS, "fa3": ("window", "softcap", "deterministic"),
           "torch-flex": ("window", "softcap", "alibi", "bias", "lengths")}
SDPA_OPTIONS = ("bias", "dropout")
FA3_MODULES = ("flash_attn_interface", "flash_attn_3.flash_attn_interface", "flash_attn_3")
FA3_FEW_QUERIES = 64  # up to this many queries, a forward without backward lets FlashAttention-3 split the keys
FLUSH_BYTES = 256 << 20  # size of the L2 flush buffer: larger than any L2 cache
SLEEP_CYCLES = 2_000_000  # about 1 ms, during which the host enqueues the whole call


class Unsupported(Exception):
    """Raised with the reason if an implementation does not support the case."""


def options_of(request):
    """Returns the text of each option of the case, by name."""
    options = {}
    if request["window"] != [-1, -1]:
        options["window"] = "window {}:{}".format(*request["window"])
    for name in ("softcap", "dropout"):
        if request[name]:
            options[name] = f"{name} {request[name]:g}"
    if request["bias"]:
        options["bias"] = f"bias {request['bias']}"
    for name in ("alibi", "sinks", "lengths", "deterministic"):
        if request[name]:
            options[name] = name
    return options


def fa3_module():
    """Returns the first module that has FlashAttention-3's flash_attn_func."""
    reasons = []
    for name in FA3_MODULES:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            # The text below names the module, so a missing module or parent package needs no reason of its own.
            if not name.startswith(error.name or " "):
                reasons.append(f"{name}: {error}")
            continue
        except Exception as error:
            reasons.append(f"{name}: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
            continue
        if hasattr(module, "flash_attn_func"):
            return module
        reasons.append(f"{name}: no flash_attn_func")
    why = f" ({'; '.join(reasons)})" if reasons else ""
    raise Unsupported(f"no FlashAttention-3 in {sys.executable}: module {', '.join(FA3_MODULES[:-1])} or "
                      f"{FA3_MODULES[-1]} is missing{why}; add its folder to PYTHONPATH")


def refuse(torch, request):
    """Raises Unsupported if the implementation does not support the case. Allocates nothing."""
    name = request["implementation"]
    on_gpu = request["device"] == "cuda"
    if name == "fa3":
        fa3_module()  # first, so that a missing module is reported without a GPU too
    if on_gpu and not torch.cuda.is_available():
        raise Unsupported(f"this PyTorch ({torch.__version__}) sees no GPU")
    if not on_gpu and name not in CPU_PEERS:
        raise Unsupported(f"{name} is a backend of CUDA; valid on a CPU: {', '.join(CPU_PEERS)}")
    options = options_of(request)
    for option, text in options.items():
        if option not in OPTIONS.get(name, SDPA_OPTIONS):
            raise Unsupported(f"this peer does not support {text}")
    is_shifted = request["seqlen_q"] != request["seqlen_k"]
    if name in BACKENDS and request["causal"]:
        if is_shifted and request["align"] == "bottom_right":
            raise Unsupported("scaled_dot_product_attention's is_causal is aligned top_left")
        if request["bias"] and request["bias_gradient"] and request["backward"]:
            raise Unsupported("scaled_dot_product_attention takes either is_causal or a bias with gradient")
    if name == "torch-flex" and request["backward"] and not on_gpu:
        raise Unsupported("FlexAttention has no backward on a CPU; valid: --pass forward")
    if name == "fa3":
        refuse_fa3(torch, request, is_shifted and (request["causal"] or "window" in options))


def refuse_fa3(torch, request, is_aligned):
    capability = torch.cuda.get_device_capability()
    if capability[0] != 9:
        raise Unsupported("FlashAttention-3 needs a Hopper GPU (compute capability 9.0); this one has "
                          f"{capability[0]}.{capability[1]}")
    if request["dtype"] == "fp32":
        raise Unsupported("dtype fp32; valid: fp16, bf16")
    if is_aligned and request["align"] != "bottom_right":
        raise Unsupported("FlashAttention-3's masks are aligned bottom_right")


class Peers:
    """Serves requests, and keeps the prepared implementations by name."""

    def __init__(self):
        self.prepared = {}
        self.torch = None

    def hello(self, request):
        """Answers the first request of a client. In a sweep, one process serves one client per problem."""
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

    def check(self, request):
        refuse(self.torch, request)
        return {}

    def prepare(self, request):
        self.release(request)
        refuse(self.torch, request)
        if not self.prepared and request["implementation"] in ("torch-compile", "torch-flex"):
            self.torch._dynamo.reset()  # otherwise the graphs of earlier cases count for the recompilation limit
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
        self.swapped = False  # True: tensors are [B, S, H, D] instead of [B, H, S, D]
        self.o = self.grads = self.d_o = self.inputs = self.bias = self.attend = self.flush = None
        self.on_gpu = False

    def prepare(self, request):
        torch = self.torch
        torch.set_num_threads(request["threads"])
        self.device = request["device"]
        self.on_gpu = self.device == "cuda"
        self.hot = request["hot"]
        implementation = request["implementation"]
        self.swapped = implementation == "fa3"
        if self.on_gpu:
            torch.backends.cuda.matmul.allow_tf32 = request["tf32"]
            self.flush = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
            self.begin = torch.cuda.Event(enable_timing=True)
            self.end = torch.cuda.Event(enable_timing=True)
        self.dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[request["dtype"]]
        self.copy_inputs(request)
        if implementation in BACKENDS:
            return self.prepare_sdpa(request)
        others = {"fa3": self.prepare_fa3, "torch-flex": self.prepare_flex}
        return others.get(implementation, self.prepare_naive)(request)

    def copy_inputs(self, request):
        tensors = self.shared_tensors(request)
        backward = request["backward"]
        self.inputs = [self.copied(tensors[name]).requires_grad_(backward) for name in ("q", "k", "v")]
        self.d_o = self.copied(tensors["d_o"]) if backward else None
        if request["bias"]:
            self.bias = self.copied(tensors["bias"]).requires_grad_(backward and request["bias_gradient"])
            if self.bias.requires_grad:
                self.inputs.append(self.bias)

    def copied(self, tensor):
        copy = tensor.to("cuda") if self.on_gpu else tensor.clone()
        return copy.transpose(1, 2).contiguous() if self.swapped else copy

    def prepare_sdpa(self, request):
        implementation = request["implementation"]
        self.attend = self.attend_sdpa
        self.options = {"is_causal": request["causal"]}
        if request["heads"] != request["kv_heads"]:
            self.options["enable_gqa"] = True
        if request["dropout"]:
            self.options["dropout_p"] = request["dropout"]
        if self.bias is not None:
            self.options["attn_mask"] = self.bias
            hidden = self.mask_of(request)
            if hidden is not None:
                self.options.update(attn_mask=self.bias.masked_fill(hidden, float("-inf")), is_causal=False)
        wanted = BACKENDS[implementation]
        if self.on_gpu and implementation == "torch-sdpa" and request["dtype"] == "fp32":
            wanted = "EFFICIENT_ATTENTION"
        return {"kernel": "scaled_dot_product_attention", "configuration": f"backend {self.choose_backend(wanted)}"}

    def prepare_fa3(self, request):
        module = fa3_module()
        left, right = request["window"]
        options = {"causal": request["causal"], "window_size": (left, 0 if request["causal"] else right)}
        if request["softcap"]:
            options["softcap"] = request["softcap"]
        if request["deterministic"]:
            options["deterministic"] = True
        may_split = not request["backward"] and request["seqlen_q"] <= FA3_FEW_QUERIES
        if may_split and "num_splits" in inspect.signature(module.flash_attn_func).parameters:
            options["num_splits"] = 0  # FlashAttention-3 chooses the number of splits

        def attend():
            o = module.flash_attn_func(*self.inputs, **options)
            return o[0] if isinstance(o, tuple) else o  # some versions also return LSE

        self.attend = attend
        self.try_once()
        splits = ", num_splits 0" if "num_splits" in options else ""
        return {"kernel": "flash_attn_func", "configuration": f"{module.__name__}, [B, S, H, D]{splits}"}

    def try_once(self):
        """Runs both passes. An error of a build without a feature becomes Unsupported."""
        try:
            o = self.attend()
            if self.d_o is not None:
                self.gradients(o, False)
        except RuntimeError as error:
            if "out of memory" in str(error) or "CUDA error" in str(error):
                raise
            raise Unsupported(str(error).splitlines()[0])

    def prepare_flex(self, request):
        try:
            from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        except ImportError as error:
            raise Unsupported(f"no FlexAttention in this PyTorch ({self.torch.__version__}): {error}")
        torch = self.torch
        self.allow_many_backwards()
        attention = torch.compile(flex_attention, dynamic=False)
        mask = self.flex_mask(request)
        options = {"score_mod": self.flex_scores(request), "enable_gqa": request["heads"] != request["kv_heads"]}
        if mask:
            batch = len(request["lengths"]) or None
            options["block_mask"] = create_block_mask(mask, batch, None, request["seqlen_q"], request["seqlen_k"],
                                                      device=self.device)
        self.attend = lambda: attention(*self.inputs[:3], **options)
        self.try_once()
        return {"kernel": "flex_attention", "configuration": "torch.compile" + (", block mask" if mask else "")}

    def flex_scores(self, request):
        """Returns the score_mod of the case; None if scores are only scaled."""
        torch = self.torch
        softcap, offset = request["softcap"], self.offset(request)
        bias, full = self.flex_bias()
        slopes = self.slopes(request) if request["alibi"] else None
        if not softcap and bias is None and slopes is None:
            return None

        def score_mod(score, batch, head, row, key):
            if softcap:
                score = softcap * torch.tanh(score / softcap)
            if slopes is not None:
                score = score - slopes[head] * (row + offset - key).abs()
            if bias is not None:
                places = (batch, head, row, key)
                score = score + bias[tuple([places[i] for i in full])]
            return score

        return score_mod

    def flex_bias(self):
        """Returns the bias without its broadcast dimensions, and the indices of its other dimensions.

        FlexAttention computes the gradient of a captured tensor only if each of its indices is a tensor.
        """
        if self.bias is None:
            return None, None
        full = [i for i, size in enumerate(self.bias.shape) if size > 1 or i == 3]
        needs_gradient = self.bias.requires_grad
        self.bias = self.bias.detach().view([self.bias.shape[i] for i in full]).requires_grad_(needs_gradient)
        if needs_gradient:
            self.inputs[3] = self.bias
        return self.bias, full

    def flex_mask(self, request):
        """Returns the mask_mod of the case; None without a mask."""
        (left, right), offset = self.window_of(request), self.offset(request)
        lengths = self.torch.tensor(request["lengths"], device=self.device) if request["lengths"] else None
        if left < 0 and right < 0 and lengths is None:
            return None

        def mask_mod(batch, head, row, key):
            visible = key >= 0
            if left >= 0:
                visible = visible & (key >= row + offset - left)
            if right >= 0:
                visible = visible & (key <= row + offset + right)
            if lengths is not None:
                visible = visible & (key < lengths[batch]) & (row < lengths[batch])
            return visible

        return mask_mod

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
        """Plain attention: matmul, score options, softmax, matmul; torch-compile: the same, compiled.

        If q and k have the same shape, q, k and v are views of one tensor [B, S, 3, H, D], as in the reports that
        docs/source-report.md answers. The matmuls copy these views, so the copies count as memory of plain attention.
        """
        torch = self.torch
        hidden = self.mask_of(request)
        scale = request["head_dim"] ** -0.5
        group = request["heads"] // request["kv_heads"]
        softcap, dropout = request["softcap"], request["dropout"]
        alibi = self.alibi(request) if request["alibi"] else None

        def attention(q, k, v, bias):
            if group > 1:
                k, v = (tensor.repeat_interleave(group, 1) for tensor in (k, v))
            scores = q @ k.transpose(-2, -1) * scale
            if softcap:
                scores = softcap * torch.tanh(scores / softcap)
            for term in (alibi, bias):
                if term is not None:
                    scores = scores + term
            if hidden is not None:
                scores = scores.masked_fill(hidden, float("-inf"))
            probabilities = torch.softmax(scores, -1)
            return (torch.nn.functional.dropout(probabilities, dropout) if dropout else probabilities) @ v

        configuration = "eager"
        if request["implementation"] == "torch-compile":
            self.allow_many_backwards()
            attention = torch.compile(attention, dynamic=False)
            configuration = "torch.compile"
        self.attend = lambda: attention(*self.inputs[:3], self.bias)
        if self.inputs[0].shape == self.inputs[1].shape:
            with torch.no_grad():
                packed = torch.stack([tensor.transpose(1, 2) for tensor in self.inputs[:3]], 2)
            self.inputs[:3] = [packed.requires_grad_(request["backward"])]
            self.unpacked = lambda packed: [tensor.transpose(1, 2) for tensor in packed.unbind(2)]
            self.attend = lambda: attention(*self.unpacked(self.inputs[0]), self.bias)
        o = self.attend()  # compiles
        if self.d_o is not None:
            self.gradients(o, False)
        return {"kernel": "matmul, softmax, matmul", "configuration": configuration}

    def allow_many_backwards(self):
        """Lets a compiled graph run its backward many times."""
        import torch._functorch.config
        torch._functorch.config.donated_buffer = False

    def offset(self, request):
        """Returns the offset of the diagonal: row i is aligned with key i + offset."""
        return request["seqlen_k"] - request["seqlen_q"] if request["align"] == "bottom_right" else 0

    def window_of(self, request):
        """Returns the numbers of visible keys left and right of the diagonal; -1: all. A causal mask allows 0 on the right."""
        left, right = request["window"]
        return left, 0 if request["causal"] else right

    def slopes(self, request):
        heads = self.torch.arange(1, request["heads"] + 1, dtype=self.torch.float32, device=self.device)
        return self.torch.exp2(-8 * heads / request["heads"])

    def distances(self, request):
        """Returns [Sq, Sk]: the key's index minus that of the key on the row's diagonal."""
        rows = self.torch.arange(request["seqlen_q"], device=self.device).unsqueeze(1)
        keys = self.torch.arange(request["seqlen_k"], device=self.device).unsqueeze(0)
        return keys - rows - self.offset(request)

    def alibi(self, request):
        """Returns ALiBi's term of the scores, [H, Sq, Sk], in the dtype of the case."""
        return (self.slopes(request).view(-1, 1, 1) * -self.distances(request).abs()).to(self.dtype)

    def mask_of(self, request):
        """Returns [Sq, Sk], True for a masked score; None without a mask."""
        left, right = self.window_of(request)
        if left < 0 and right < 0:
            return None
        distances = self.distances(request)
        hidden = self.torch.zeros_like(distances, dtype=self.torch.bool)
        if left >= 0:
            hidden |= distances < -left
        if right >= 0:
            hidden |= distances > right
        if bool(hidden.all(1).any()):
            raise Unsupported("a row has no keys: this softmax returns NaN")
        return hidden

    def choose_backend(self, wanted):
        """Selects the backend and returns its name; returns "default" if this PyTorch cannot select one."""
        try:
            from torch.nn.attention import SDPBackend, sdpa_kernel
        except ImportError:
            self.attend()
            return "default"
        self.backend = lambda: sdpa_kernel(getattr(SDPBackend, wanted))
        with warnings.catch_warnings(record=True) as reasons:
            warnings.simplefilter("always")  # PyTorch warns with the reason of each backend that refuses
            try:
                with self.backend():
                    self.attend()
                return wanted
            except RuntimeError as error:
                self.backend = contextlib.nullcontext
                if wanted == "MATH" or self.on_gpu:
                    raise Unsupported(self.refusal_of(error, reasons))
        self.attend()
        return f"default ({wanted} refused)"

    def refusal_of(self, error, reasons):
        texts = [str(reason.message).splitlines()[0].split(" (Triggered")[0] for reason in reasons]
        silent = ("kernel not used because", "runtime disabled")
        return " ".join([str(error).splitlines()[0], *(text for text in texts if not any(s in text for s in silent))])

    def attend_sdpa(self):
        return self.torch.nn.functional.scaled_dot_product_attention(*self.inputs[:3], **self.options)

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
            found = {"o": self.o}
            if self.grads is not None:
                found.update(zip(("dq", "dk", "dv"), self.unpacked(self.grads[0]) if self.unpacked else self.grads))
            for name, tensor in found.items():
                tensors[name].copy_(tensor.transpose(1, 2) if self.swapped else tensor)
        return {}

    def peak(self, request):
        """Returns the peak bytes of all tensors in a forward and a backward, as the allocator counts them."""
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
        bias = [self.bias] if self.bias is not None and not self.bias.requires_grad else []
        return sum(self.bytes_of(tensor) for tensor in [*self.inputs, *bias])

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
        self.o = self.grads = self.d_o = self.inputs = self.bias = self.options = self.attend = self.flush = None
        if self.on_gpu:
            # cuBLAS's workspaces of one peer must not count for the next one.
            getattr(self.torch._C, "_cuda_clearCublasWorkspaces", lambda: None)()
            self.torch.cuda.empty_cache()


def main():
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # sends the output of libraries to standard error, so that it does not mix with the answers
    peers = Peers()
    commands = {"hello": peers.hello, "check": peers.check, "prepare": peers.prepare, "time": peers.ask,
                "results": peers.ask, "peak": peers.ask, "kept": peers.ask, "release": peers.release}
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


if __name__ == "__main__":
    main()
