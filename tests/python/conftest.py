"""Setup of the Python tests: imports from this folder, and skips for libraries that are not installed.

Run them with tools/python-test, which builds and installs the package first.
"""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))


def pytest_ignore_collect(collection_path, config):
    """Skips test files that need a library that is not installed; tools/python-test names the library."""
    import importlib.util
    needs = {"torch": ("test_torch", "test_flash_attn", "test_transformers", "test_processes"), "jax": ("test_jax",),
             "transformers": ("test_transformers",)}
    missing = (library for library, starts in needs.items()
               if collection_path.name.startswith(starts) and importlib.util.find_spec(library) is None)
    return True if next(missing, None) else None


@pytest.fixture
def rng():
    import numpy as np
    return np.random.default_rng(2026)
