"""Tests Strobe in forked child processes, in Python threads, with one OpenMP thread and under torchrun."""

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import strobe_attention
import strobe_attention.torch
import torch


def inputs(size=64):
    rng = np.random.default_rng(1)
    return [rng.standard_normal((2, 4, size, 16)).astype(np.float32) for _ in range(3)]


def run_python(code, *command, **environment):
    command = command or (sys.executable,)
    return subprocess.run([*command, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment}, check=False)


def test_a_forked_child_computes_the_same():
    q, k, v = inputs()
    expected = strobe_attention.attention(q, k, v)  # the thread pool exists before the fork
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        same = np.array_equal(strobe_attention.attention(q, k, v), expected)
        os.write(writer, b"1" if same else b"0")
        os._exit(0)
    os.close(writer)
    assert os.read(reader, 1) == b"1"
    assert os.waitpid(child, 0)[1] == 0


def test_two_python_threads():
    q, k, v = inputs(256)
    expected = strobe_attention.attention(q, k, v)
    results = [None, None]

    def compute(index):
        for _ in range(10):
            results[index] = strobe_attention.attention(q, k, v)

    threads = [threading.Thread(target=compute, args=(index,)) for index in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert all(np.array_equal(one, expected) for one in results)


def test_torchs_thread_count_is_respected():
    """With OMP_NUM_THREADS=1 a call starts no thread."""
    result = run_python("""
        import os, torch, strobe_attention.torch as strobe
        q = torch.ones(4, 8, 512, 64)
        before = len(os.listdir("/proc/self/task"))
        strobe.attention(q, q, q)
        print(torch.get_num_threads(), len(os.listdir("/proc/self/task")) - before)
    """, OMP_NUM_THREADS="1")
    assert result.stdout == "1 0\n", result.stderr


def test_torchrun_with_two_processes(tmp_path):
    script = tmp_path / "rank.py"
    script.write_text(textwrap.dedent("""
        import torch, torch.distributed as dist, strobe_attention.torch as strobe
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        w = torch.randn(2, 4, 33, 16, requires_grad=True)
        shard = w[dist.get_rank()][None]
        strobe.attention(shard, shard, shard, causal=True).square().sum().backward()
        dist.all_reduce(w.grad)
        whole = w.detach().requires_grad_()
        strobe.attention(whole, whole, whole, causal=True).square().sum().backward()
        assert torch.allclose(w.grad, whole.grad, atol=1e-5)
        assert torch.get_num_threads() == 1
        print("rank", dist.get_rank(), "ok")
        dist.destroy_process_group()
    """))
    result = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
                             str(script)], capture_output=True, text=True, timeout=120, check=False,
                            env={name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"})
    assert result.returncode == 0, result.stderr
    assert "rank 0 ok" in result.stdout and "rank 1 ok" in result.stdout
