"""Tests strobe_attention.attention on NumPy arrays; needs neither torch nor jax."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import strobe_attention as strobe


def given(rng, *shapes, dtype=np.float32):
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def plain(q, k, v, allowed=None, bias=0.0):
    q, k, v = (one.astype(np.float64) for one in (q, k, v))
    k, v = (np.repeat(one, q.shape[1] // one.shape[1], 1) for one in (k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + bias
    if allowed is not None:
        scores = np.where(allowed, scores, -np.inf)
    largest = scores.max(-1, keepdims=True)
    exponentials = np.exp(scores - largest)
    total = exponentials.sum(-1, keepdims=True)
    return exponentials / total @ v, (np.log(total) + largest)[..., 0]


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float16, 4e-3)])
def test_matches_the_definition(rng, dtype, tolerance):
    q, k, v = given(rng, (2, 4, 9, 16), (2, 2, 9, 16), (2, 2, 9, 24), dtype=dtype)
    o, lse = strobe.attention(q, k, v, causal=True, return_lse=True)
    expected, sums = plain(q, k, v, np.tril(np.ones((9, 9), bool)))
    assert o.dtype == dtype and type(o) is np.ndarray
    np.testing.assert_allclose(o, expected, atol=tolerance, rtol=tolerance)
    np.testing.assert_allclose(lse, sums, atol=tolerance, rtol=tolerance)


def test_mask_and_bias(rng):
    q, k, v = given(rng, (2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8))
    mask = rng.random((5, 7)) < 0.6
    mask[:, 0] = True
    bias, = given(rng, (4, 5, 7))
    np.testing.assert_allclose(strobe.attention(q, k, v, mask=mask, bias=bias), plain(q, k, v, mask, bias)[0], atol=1e-5)


def test_layouts_give_equal_results(rng):
    q, k, v = given(rng, (2, 4, 9, 16), (2, 2, 9, 16), (2, 2, 9, 16))
    o = strobe.attention(q, k, v)
    other = strobe.attention(*(np.ascontiguousarray(one.swapaxes(1, 2)) for one in (q, k, v)), layout="bshd")
    assert other.flags.c_contiguous
    np.testing.assert_array_equal(other.swapaxes(1, 2), o)
    packed = strobe.attention(*(np.concatenate(list(one.swapaxes(1, 2))) for one in (q, k, v)), layout="thd",
                              cu_seqlens_q=np.array([0, 9, 18], np.int32), cu_seqlens_k=np.array([0, 9, 18], np.int32))
    np.testing.assert_array_equal(packed[:9].swapaxes(0, 1), o[0])


def test_dropout_follows_the_generator(rng):
    q, k, v = given(rng, (1, 2, 33, 8), (1, 2, 33, 8), (1, 2, 33, 8))
    first, again, other = (strobe.attention(q, k, v, dropout_p=0.5, generator=np.random.default_rng(seed))
                           for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_names_and_explain(rng):
    q, k, v = given(rng, (1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8))
    names = strobe.kernel_names()
    assert "reference" in names and names[-1] == "reference"
    text = strobe.explain(q, k, v, backward=True)
    assert [line.split(":")[0] for line in text.splitlines()] == names
    assert strobe.version() == strobe.__version__


class NoHost:
    requires_grad = True

    def __dlpack__(self):
        raise AssertionError("refused before")


@pytest.mark.parametrize("change, error, text", [
    ({"q": np.zeros((1, 2, 4, 8))}, TypeError, "q is not float32"),
    ({"q": [[1.0]]}, TypeError, "q is a list"),
    ({"q": NoHost()}, ValueError, "q requires a gradient"),
    ({"k": np.zeros((1, 2, 4, 9), np.float32)}, ValueError, "K has head_dim 9 but Q has 8"),
    ({"q": np.zeros((2, 4, 8), np.float32)}, ValueError, "q has 3 dimensions; valid: 4"),
    ({"q": np.zeros((1, 2, 4, 16), np.float32)[..., ::2]}, ValueError, "stride"),
    ({"mask": np.zeros((4, 4), np.float32)}, TypeError, "mask is not boolean"),
    ({"sinks": np.zeros(3, np.float32)}, ValueError, "sinks is not a contiguous float32 array of 2 heads"),
    ({"lengths_k": np.zeros(1, np.float32)}, ValueError, "lengths_k is not"),
    ({"align": 3}, ValueError, "align is 3"),
    ({"layout": "x"}, ValueError, "layout is 'x'"),
    ({"kernel": "x"}, ValueError, "kernel"),
    ({"unknown": 1}, TypeError, "unexpected keyword argument"),
])
def test_bad_input_is_one_line(change, error, text):
    q, k, v = (np.zeros((1, 2, 4, 8), np.float32) for _ in range(3))
    arguments = {"q": q, "k": k, "v": v, **change}
    with pytest.raises(error) as raised:
        strobe.attention(arguments.pop("q"), arguments.pop("k"), arguments.pop("v"), **arguments)
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)


OLD_DRIVER = """
int cuInit(unsigned flags) { return flags; }
int cuDriverGetVersion(int* version) { *version = 11080; return 0; }
"""
SMALL_CALLS = """
import numpy as np, strobe_attention
array = np.ones((1, 1, 4, 8), np.float32)
print(strobe_attention.attention(array, array, array).sum())
try:
    strobe_attention.explain(array, array, array, device="cuda")
except NotImplementedError as error:
    print(error)
"""


def test_an_old_cuda_driver_is_named_and_the_cpu_works(tmp_path):
    """A stub of libcuda reports CUDA 11.8, which the CUDA runtime of a wheel refuses."""
    def output(**environment):
        result = subprocess.run([sys.executable, "-c", SMALL_CALLS], capture_output=True, text=True, check=False,
                                env={**os.environ, **environment})
        assert result.returncode == 0, result.stderr
        return result.stdout.splitlines()

    if "has no CUDA" in output()[-1] or not shutil.which("cc"):
        pytest.skip("needs a build with CUDA, and a C compiler")
    (tmp_path / "driver.c").write_text(OLD_DRIVER)
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(tmp_path / "libcuda.so.1"),
                    str(tmp_path / "driver.c")], check=True)
    total, message = output(LD_LIBRARY_PATH=str(tmp_path))
    assert total == "32.0"
    assert "device cuda cannot be used" in message and "driver version is insufficient" in message


def test_explain_knows_the_devices(rng):
    q, k, v = given(rng, (1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8))
    with pytest.raises(ValueError, match="device is 'tpu'; valid: 'cpu', 'cuda'"):
        strobe.explain(q, k, v, device="tpu")


def test_batch_invariant_rows_do_not_depend_on_the_batch(rng):
    q, k, v = given(rng, (5, 4, 33, 16), (5, 2, 70, 16), (5, 2, 70, 16))
    whole = strobe.attention(q, k, v, batch_invariant=True)
    for b in range(5):
        one = slice(b, b + 1)
        np.testing.assert_array_equal(strobe.attention(q[one], k[one], v[one], batch_invariant=True), whole[one])


def test_import_needs_no_framework():
    code = "import sys, strobe_attention; print([m for m in ('torch', 'jax', 'transformers', 'numpy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_calls_without_optional_arrays_have_the_bits_of_others(rng, dtype):
    q, k, v = (one.astype(dtype) for one in given(rng, (2, 4, 6, 8), (2, 2, 6, 8), (2, 2, 6, 8)))
    strided = v.transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3)
    strided.flags.writeable = False
    for options in ({}, {"causal": True, "softcap": 5.0, "scale": 0.3}, {"window": (1, 2), "align": "bottom_right"}):
        o = strobe.attention(q, k, strided, **options)
        assert o.dtype == dtype and o.shape == q.shape
        np.testing.assert_array_equal(o, strobe.attention(q, k, v, return_lse=True, **options)[0])


def test_plain_calls_do_not_build_a_call(rng, monkeypatch):
    q, k, v = given(rng, (1, 2, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8))

    def refuse(*arguments):
        raise AssertionError("the buffer protocol must suffice")

    monkeypatch.setattr(strobe, "_call", refuse)
    assert strobe.attention(q, k, v).shape == q.shape
    with pytest.raises(AssertionError):
        strobe.attention(q, k, v[..., :4])  # Dv != D
