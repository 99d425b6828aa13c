"""Runs the Python examples of README.md and docs/python.md as they are printed."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def examples():
    for name in ("README.md", "docs/python.md"):
        for index, code in enumerate(re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text(), re.M | re.S)):
            yield pytest.param(code, id=f"{name}-{index}")


@pytest.mark.parametrize("code", examples())
def test_example(code):
    for library in ("torch", "transformers", "jax"):
        if re.search(rf"^import {library}", code, re.M) and importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
