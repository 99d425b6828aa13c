"""Setup of the Python tests: imports from this folder, devices, and skips for libraries that are not installed.

Run them with tools/python-test, which builds and installs the package first. A test with the argument `device` runs on
the CPU, and on CUDA if the framework and the package can use a GPU; `-k cuda` selects the CUDA runs.
"""

import functools
import importlib.util
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else JAX takes most of the GPU's memory from PyTorch


def pytest_ignore_collect(collection_path, config):
    """Skips test files that need a library that is not installed; tools/python-test names the library."""
    needs = {"torch": ("test_torch", "test_flash_attn", "test_transformers", "test_processes"), "jax": ("test_jax",),
             "transformers": ("test_transformers",)}
    missing = (library for library, starts in needs.items()
               if collection_path.name.startswith(starts) and importlib.util.find_spec(library) is None)
    return True if next(missing, None) else None


@functools.cache
def why_no_cuda(framework):
    """Returns why tests of a framework run on the CPU only, or "" if they also run on CUDA."""
    if framework == "torch":
        import torch
        found = torch.cuda.is_available()
    else:
        import jax
        try:
            found = bool(jax.devices("cuda"))
        except RuntimeError:
            found = False
    if not found:
        return f"{framework} finds no GPU"
    import numpy as np
    import strobe_attention
    array = np.zeros((1, 1, 1, 8), np.float32)
    try:
        strobe_attention.explain(array, array, array, device="cuda")
    except NotImplementedError as error:
        return str(error)
    return ""


def pytest_report_header():
    reasons = {library: why_no_cuda(library) for library in ("torch", "jax") if importlib.util.find_spec(library)}
    return [f"CUDA with {library}: {reason or 'tested'}" for library, reason in reasons.items()]


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        framework = "jax" if metafunc.module.__name__ == "test_jax" else "torch"
        metafunc.parametrize("device", ["cpu"] if why_no_cuda(framework) else ["cpu", "cuda"])


def pytest_configure(config):
    config.addinivalue_line("markers", "refused_on_cuda: tests that must be refused on CUDA")


def pytest_collection_modifyitems(items):
    """Expects NotImplementedError from the CUDA run of each test that is marked refused_on_cuda."""
    for item in items:
        marker = item.get_closest_marker("refused_on_cuda")
        values = item.callspec.params if hasattr(item, "callspec") else {}
        if marker and values.get("device") == "cuda":
            item.add_marker(pytest.mark.xfail(raises=NotImplementedError, strict=True, reason="refused on CUDA"))


@pytest.fixture
def rng():
    import numpy as np
    return np.random.default_rng(2026)
