"""Compares strobe_attention.jax with jax.nn.dot_product_attention: value, gradient, jit and vmap."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from strobe_attention.jax import dot_product_attention


@pytest.fixture(autouse=True)
def default_device(device):
    with jax.default_device(jax.devices(device)[0]):
        yield


def given(dtype=jnp.float32):
    rng = np.random.default_rng(5)
    return [jnp.array(rng.standard_normal(shape), dtype) for shape in ((2, 9, 4, 16), (2, 9, 2, 16), (2, 9, 2, 16))]


RNG = np.random.default_rng(6)  # NumPy arrays, because JAX would bind its own arrays to a device
BIAS = RNG.standard_normal((1, 4, 9, 9)).astype(np.float32)
MASK = RNG.random((2, 1, 9, 9)) < np.where(np.arange(9) == 0, 1, 0.7)
OPTIONS = {"plain": {}, "causal": {"is_causal": True}, "bias": {"bias": BIAS}, "mask": {"mask": MASK},
           "bias and mask": {"bias": BIAS, "mask": MASK}, "window": {"local_window_size": (2, 1)},
           "one window": {"local_window_size": 3}, "keys": {"key_value_seq_lengths": np.array([4, 9], np.int32)},
           "both lengths": {"query_seq_lengths": np.array([4, 9], np.int32), "key_value_seq_lengths": np.array([4, 9], np.int32)},
           "scale": {"scale": 0.3}}


def both(compute):
    """Returns the results of Strobe on the test's device and of JAX on the CPU."""
    ours = compute(dot_product_attention)
    with jax.default_device(jax.devices("cpu")[0]):
        return ours, compute(jax.nn.dot_product_attention)


def assert_close(ours, theirs, tolerance=2e-5):
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(np.asarray(one, np.float32), np.asarray(other, np.float32), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("name", OPTIONS)
def test_value_and_gradient_under_jit(name):
    def value(attention, *inputs):
        return jnp.square(attention(*inputs, **OPTIONS[name])).sum()

    assert_close(*both(lambda attention: jax.jit(
        lambda *inputs: attention(*inputs, **OPTIONS[name]))(*given())))
    assert_close(*both(lambda attention: jax.jit(
        jax.grad(lambda *inputs: value(attention, *inputs), argnums=(0, 1, 2)))(*given())))


@pytest.mark.parametrize("dtype, tolerance", [(jnp.float16, 4e-3), (jnp.bfloat16, 4e-2)])
def test_16_bit_types(dtype, tolerance):
    assert_close(*both(lambda attention: attention(*given(dtype), is_causal=True)), tolerance)


def test_gradient_of_bias():
    assert_close(*both(lambda attention: jax.grad(lambda bias: jnp.square(attention(*given(), bias=bias)).sum())(BIAS)))


@pytest.mark.parametrize("name", ["plain", "bias", "mask", "keys"])
def test_vmap(name):
    def mapped(attention):
        q, k, v = given()
        many = jnp.stack([q, 2 * q, -q])
        value = jax.vmap(lambda q: attention(q, k, v, **OPTIONS[name]))(many)
        return value, jax.vmap(jax.grad(lambda q: jnp.square(attention(q, k, v, **OPTIONS[name])).sum()))(many)

    assert_close(*both(mapped))


def test_three_dimensions_and_residual():
    assert_close(*both(lambda attention: attention(*(one[0] for one in given()), return_residual=True)))


def test_the_residual_has_no_gradient_as_in_jax():
    def gradients(attention):
        def value(*inputs):
            o, lse = attention(*inputs, return_residual=True)
            return jnp.square(o).sum() + jnp.sin(lse).sum()
        return jax.grad(value, argnums=(0, 1, 2))(*given())

    assert_close(*both(gradients))


@pytest.mark.parametrize("change, error, text", [
    ({"key": jnp.zeros((2, 9, 2, 17))}, ValueError, "key has head_dim 17 but query has 16"),
    ({"value": jnp.zeros((2, 9, 2, 16), jnp.int32)}, TypeError, "value is int32"),
    ({"key": jnp.zeros((2, 9, 2, 16), jnp.float16)}, TypeError, "key is float16 but query is float32"),
    ({"key": jnp.zeros((2, 9, 3, 16)), "value": jnp.zeros((2, 9, 3, 16))}, ValueError, "4 query heads"),
    ({"query": jnp.zeros((9, 4, 16))}, ValueError, "dimensions"),
    ({"implementation": "cudnn"}, ValueError, "implementation is 'cudnn'"),
])
def test_bad_input_is_one_line(change, error, text):
    arguments = {**dict(zip(("query", "key", "value"), given())), **change}
    with pytest.raises(error) as raised:
        dot_product_attention(**arguments)
    assert text in str(raised.value) and "\n" not in str(raised.value)
