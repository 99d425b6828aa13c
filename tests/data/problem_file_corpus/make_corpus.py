#!/usr/bin/env python3
"""Writes the fuzzer's seeds of problem files to this folder: one file per case that the reader distinguishes."""
import pathlib
import struct


def write(name, sizes, floats, extra=b""):
    data = struct.pack(f"<{len(sizes)}i", *sizes) + struct.pack(f"<{floats}f", *range(floats)) + extra
    (pathlib.Path(__file__).parent / name).write_bytes(data)


MOST = 2**31 - 1
write("one", (1, 1, 1), 3)
write("small", (2, 3, 4), 72)
write("truncated", (2, 3, 4), 71)
write("trailing", (2, 3, 4), 72, b"x")
write("empty", (), 0)
write("half_header", (2,), 0, b"\1\0")
write("no_data", (1, 1, 1), 0)
write("zero", (0, 3, 4), 0)
write("negative", (2, -3, 4), 72)
write("negative_pair", (-2, -3, 4), 72)
write("largest", (MOST, MOST, MOST), 3)
write("wraps_to_nothing", (2**30, 2**30, 4), 0)  # 12 B N d bytes = 3 * 2^64, which wraps to 0
write("wraps_to_one", (2**30, 2**30, 16), 3)
