#!/usr/bin/env python3
"""Writes the problem files and answers of this folder. Uses Python's standard library only and no code of Strobe.

    python3 make_files.py        writes plain.in, plain.out, wide.in and wide.out to this folder

A problem: int32 B, N, d; then for each batch Q, K, V, each N x d float32, row-major; all little-endian.
An answer: for each batch softmax(Q K^T / sqrt(d)) V, N x d float32; no header.
"""
import math
import pathlib
import random
import struct


def to_float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def attention(q, k, v, d):
    out = []
    for row in q:
        scores = [sum(a * b for a, b in zip(row, key)) / math.sqrt(d) for key in k]
        largest = max(scores)
        weights = [math.exp(s - largest) for s in scores]
        total = math.fsum(weights)
        out.append([math.fsum(w * value[c] for w, value in zip(weights, v)) / total for c in range(d)])
    return out


def make(name, batch, rows, dim, seed):
    draw = random.Random(seed)
    problem, answer = struct.pack("<iii", batch, rows, dim), b""
    for _ in range(batch):
        tensors = [[[to_float32(draw.uniform(-3, 3)) for _ in range(dim)] for _ in range(rows)] for _ in range(3)]
        for tensor in tensors:
            for row in tensor:
                problem += struct.pack(f"<{dim}f", *row)
        for row in attention(*tensors, dim):
            answer += struct.pack(f"<{dim}f", *row)
    folder = pathlib.Path(__file__).parent
    (folder / f"{name}.in").write_bytes(problem)
    (folder / f"{name}.out").write_bytes(answer)


make("plain", 3, 19, 8, seed=4)
make("wide", 2, 5, 260, seed=5)
