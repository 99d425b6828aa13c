"""Reads a checkpoint with only the standard library, checks it, and prints its contents.

    python3 read_checkpoint.py [--package] FILE      --package: compares with the package safetensors, which needs numpy
"""
import json
import struct
import sys
import zlib


def read(path):
    """Returns the metadata, and each tensor's type, shape and bytes by name."""
    with open(path, "rb") as file:
        data = file.read()
    assert zlib.crc32(data[:-4]) == int.from_bytes(data[-4:], "little"), "corrupt"
    end = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:end])
    metadata = header.pop("__metadata__")
    moments = end + min(entry["data_offsets"][0] for name, entry in header.items() if name.startswith("adamw."))
    assert zlib.crc32(data[:moments]) == int.from_bytes(data[-8:-4], "little"), "corrupt weights"
    tensors = {}
    for name, entry in header.items():
        begin, stop = (end + offset for offset in entry["data_offsets"])
        tensors[name] = entry["dtype"], entry["shape"], data[begin:stop]
    return metadata, tensors


def compare_with_package(path, metadata, tensors):
    from safetensors import safe_open
    with safe_open(path, framework="np") as file:
        assert file.metadata() == metadata
        assert sorted(file.keys()) == sorted(tensors)
        for name, (dtype, shape, data) in tensors.items():
            array = file.get_tensor(name)
            assert array.dtype.name == {"F32": "float32", "U8": "uint8"}[dtype], name
            assert list(array.shape) == shape and array.tobytes() == data, name
    print("the package reads the same")


def main(arguments):
    path = arguments[-1]
    metadata, tensors = read(path)
    settings = json.loads(metadata["settings"])
    names = [name for name in tensors if not name.startswith("adamw.") and not name.endswith("checksum")]
    for name in names:
        for prefix in ("", "adamw.mean.", "adamw.variance."):
            dtype, shape, data = tensors[prefix + name]
            assert dtype == "F32" and shape == tensors[name][1] and len(data) == 4 * shape[0] * shape[1]
    assert tensors["embedding.weight"][1] == [settings["vocabulary"], settings["d_model"]]
    assert struct.unpack("<f", tensors["norm.weight"][2][:4])[0] != 0
    assert len(tensors) == 3 * len(names) + 2
    print(f"step {metadata['step']}, {len(tensors)} tensors, seed {settings['seed']}")
    if "--package" in arguments:
        compare_with_package(path, metadata, tensors)


main(sys.argv[1:])
