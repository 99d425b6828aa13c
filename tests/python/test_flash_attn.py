"""Tests strobe_attention.flash_attn: flash_attn's signatures and its bottom-right alignment, against float64."""

import definition
import pytest
import torch
from strobe_attention import flash_attn


def given(*shapes, device="cpu"):
    torch.manual_seed(3)
    return definition.on(device, [torch.randn(shape, requires_grad=True) for shape in shapes])


def expected_of(q, k, v, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, softmax_scale=None, **rest):
    o, lse = definition.attention(*(one.transpose(1, 2) for one in (q, k, v)), causal=causal, window=window_size,
                                  softcap=softcap, alibi_slopes=alibi_slopes, scale=softmax_scale, align="bottom_right",
                                  **rest)
    return o.transpose(1, 2), lse


OPTIONS = [{}, {"causal": True}, {"window_size": (3, 1)}, {"softcap": 3.0}, {"alibi_slopes": torch.rand(4)},
           {"alibi_slopes": torch.rand(2, 4), "causal": True},
           {"softmax_scale": 0.2}]


@pytest.mark.parametrize("options", OPTIONS)
def test_func_and_packed_forms(options, device):
    q, k, v = given((2, 9, 4, 16), (2, 9, 4, 16), (2, 9, 4, 16), device=device)
    options = definition.on(device, options)
    expected, sums = expected_of(q, k, v, **options)
    gradients = torch.autograd.grad(expected.square().sum(), (q, k, v))
    qkv = torch.stack([q, k, v], 2)
    for o in (flash_attn.flash_attn_func(q, k, v, **options),
              flash_attn.flash_attn_kvpacked_func(q, qkv[:, :, 1:], **options),
              flash_attn.flash_attn_qkvpacked_func(qkv, **options)):
        definition.assert_close(o, expected)
        for one, other in zip(torch.autograd.grad(o.square().sum(), (q, k, v), retain_graph=True), gradients):
            definition.assert_close(one, other, 2e-5)
    o, lse, probabilities = flash_attn.flash_attn_func(q, k, v, return_attn_probs=True, **options)
    definition.assert_close(lse, sums)
    assert probabilities is None


@pytest.mark.parametrize("options", OPTIONS)
def test_varlen_forms(options, device):
    q, k, v = given((2, 9, 4, 16), (2, 9, 4, 16), (2, 9, 4, 16), device=device)
    options = definition.on(device, options)
    expected = expected_of(q, k, v, **options)[0].flatten(0, 1)
    flat = [one.flatten(0, 1) for one in (q, k, v)]
    qkv = torch.stack(flat, 1)
    cu = torch.tensor([0, 9, 18], dtype=torch.int32, device=device)
    for o in (flash_attn.flash_attn_varlen_func(*flat, cu, cu, 9, 9, **options),
              flash_attn.flash_attn_varlen_kvpacked_func(flat[0], qkv[:, 1:], cu, cu, 9, 9, **options),
              flash_attn.flash_attn_varlen_qkvpacked_func(qkv, cu, 9, **options)):
        definition.assert_close(o, expected)


def test_with_kvcache(device):
    q, k, v = given((2, 3, 4, 16), (4, 12, 2, 16), (4, 12, 2, 16), device=device)
    index, lengths = torch.tensor([3, 1], device=device), torch.tensor([5, 12], dtype=torch.int32, device=device)
    o, lse = flash_attn.flash_attn_with_kvcache(q, k, v, cache_seqlens=lengths, cache_batch_idx=index, causal=True,
                                                return_softmax_lse=True)
    for b in range(2):
        keys = slice(0, int(lengths[b]))
        expected, sums = expected_of(q[b:b + 1], k[index[b]][None, keys], v[index[b]][None, keys], causal=True)
        definition.assert_close(o[b:b + 1], expected)
        definition.assert_close(lse[b:b + 1], sums)


def test_unsupported_arguments_are_refused(device):
    q, k, v = given((2, 3, 4, 16), (2, 12, 4, 16), (2, 12, 4, 16), device=device)
    table = torch.zeros(2, 1, dtype=torch.int32, device=device)
    for name, value in (("block_table", table), ("k", q), ("rotary_cos", q)):
        with pytest.raises(NotImplementedError, match=name):
            flash_attn.flash_attn_with_kvcache(q, k, v, **{name: value})
    with pytest.raises(NotImplementedError, match="block_table"):
        flash_attn.flash_attn_varlen_func(q[0], k[0], v[0], table, table, 3, 3, block_table=table)
