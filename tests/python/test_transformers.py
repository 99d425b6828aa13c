"""Tests strobe_attention.transformers: six tiny models against eager attention, generation, and packed documents."""

import pytest
import strobe_attention.transformers
import torch
import transformers

strobe_attention.transformers.register()

COMMON = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
MODELS = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", COMMON),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**COMMON, "sliding_window": 6, "head_dim": 8}),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config",
               {**COMMON, "head_dim": 8, "sliding_window": 6, "query_pre_attn_scalar": 8}),
    "gpt_oss": ("GptOssForCausalLM", "GptOssConfig",
                {**COMMON, "head_dim": 8, "sliding_window": 6, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "t5": ("T5ForConditionalGeneration", "T5Config",
           {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
            "decoder_start_token_id": 0}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config",
             {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
}
DROPOUT = ("attention_dropout", "resid_pdrop", "attn_pdrop", "embd_pdrop", "dropout_rate")


def model_of(name, device):
    torch.manual_seed(0)
    model_class, config_class, options = MODELS[name]
    config = getattr(transformers, config_class)(**options, pad_token_id=0, eos_token_id=None, bos_token_id=1)
    for one in DROPOUT:
        if hasattr(config, one):
            setattr(config, one, 0.0)
    return getattr(transformers, model_class)(config).to(device)


def loss_and_gradients(model, implementation, **inputs):
    model.set_attn_implementation(implementation)
    model.train().zero_grad()
    loss = model(**inputs).loss
    loss.backward()
    return loss.item(), {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}


@pytest.mark.parametrize("padding", [None, "right"])
@pytest.mark.parametrize("name", MODELS)
def test_loss_and_gradients(name, padding, device):
    model = model_of(name, device)
    ids = torch.randint(1, 64, (2, 12)).to(device)
    inputs = {"input_ids": ids, "labels": ids}
    if padding:
        mask = torch.ones_like(ids)
        mask[1, 7:] = 0
        inputs = {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}
    loss, gradients = loss_and_gradients(model, "strobe", **inputs)
    expected_loss, expected = loss_and_gradients(model, "eager", **inputs)
    assert abs(loss - expected_loss) < 1e-5
    assert gradients.keys() == expected.keys()
    largest = max(one.abs().max() for one in expected.values())
    for one in expected:
        assert (gradients[one] - expected[one]).abs().max() < 2e-6 * largest, one


@pytest.mark.parametrize("name", MODELS)
def test_generate_gives_the_same_tokens(name, device):
    model = model_of(name, device).eval()
    ids = torch.randint(1, 64, (2, 9)).to(device)
    tokens = []
    for implementation in ("eager", "strobe"):
        model.set_attn_implementation(implementation)
        tokens.append(model.generate(ids, max_new_tokens=8, do_sample=False))
    assert torch.equal(*tokens)


def test_packed_documents_do_not_see_each_other(device):
    model = model_of("mistral", device)
    model.set_attn_implementation("strobe")
    documents = [torch.randint(1, 64, (1, n)).to(device) for n in (5, 9)]
    packed = torch.cat(documents, 1)
    positions = torch.cat([torch.arange(n, device=device) for n in (5, 9)])[None]
    cu = torch.tensor([0, 5, 14], dtype=torch.int32, device=device)
    arguments = {"cu_seq_lens_q": cu, "cu_seq_lens_k": cu, "max_length_q": 9, "max_length_k": 9}
    logits = model(packed, position_ids=positions, use_cache=False, **arguments).logits
    separate = torch.cat([model(one, use_cache=False).logits for one in documents], 1)
    torch.testing.assert_close(logits, separate, atol=1e-5, rtol=1e-5)


def test_compiled_model(device):
    torch._dynamo.reset()
    model = model_of("llama", device).eval()
    model.set_attn_implementation("strobe")
    ids = torch.randint(1, 64, (2, 9)).to(device)
    with torch.no_grad():
        expected = model(ids, use_cache=False).logits
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")(ids, use_cache=False).logits
    assert torch.equal(compiled, expected)
