#!/usr/bin/env python3
"""Writes the fuzzer's seeds of safetensors files to this folder: two valid files, and one invalid file per rule."""
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent


def write(name, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    (HERE / name).write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


write("one", {"a": tensor("F32", [2, 3], 0, 24)}, bytes(24))
write("two", {"__metadata__": {"step": "7"}, "b": tensor("U8", [4], 8, 12), "a": tensor("BF16", [4], 0, 8),
              "none": tensor("F32", [0, 5], 8, 8)}, bytes(12))
(HERE / "empty").write_bytes(b"")
(HERE / "half_length").write_bytes(b"\x10\0\0")
write("long_header", {}, length=2**63)
write("header_past_the_end", {}, length=1000)
write("no_brace", b"[1]")
write("no_json", b"{\"a\":")
write("deep", b"{\"a\":" + b"[" * 5000 + b"]" * 5000 + b"}")
write("twice", b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
      b"x")
write("overlap", {"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 2, 6)}, bytes(6))
write("gap", {"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 5, 9)}, bytes(9))
write("trailing", {"a": tensor("U8", [4], 0, 4)}, bytes(9))
write("truncated", {"a": tensor("U8", [4], 0, 4)}, bytes(3))
write("overflow", {"a": tensor("F32", [2**31, 2**31, 2**31], 0, 4)}, bytes(4))
write("wraps_to_four", {"a": tensor("F32", [2**32, 2**32, 1], 0, 4)}, bytes(4))
write("negative", {"a": tensor("U8", [-4], 0, 4)}, bytes(4))
write("backwards", {"a": tensor("U8", [4], 4, 0)}, bytes(4))
write("unknown_type", {"a": tensor("F33", [1], 0, 4)}, bytes(4))
write("wrong_bytes", {"a": tensor("F32", [2], 0, 4)}, bytes(4))
write("three_offsets", {"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1, 1]}}, b"x")
write("fraction", b'{"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}}', b"x")
write("extra_key", {"a": tensor("U8", [1], 0, 1) | {"more": 1}}, b"x")
write("metadata_number", {"__metadata__": {"step": 7}})
