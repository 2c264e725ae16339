"""Records tiny models of transformers as references for `galley check model`.

Usage: python record_model.py OUT [NAME...]      without names: all of CASES and those of relatives.py

Each goes to OUT/NAME: config.json and model.safetensors, as transformers saves them, reference.json and
reference.safetensors with what the model gives: first logits and gradients, 20 losses and gradient norms under AdamW, and
the greedy continuation. Sizes are small so that a reference takes little room; weights are large enough for every setting
to show. Needs PyTorch and transformers.
"""
import json
import os
import sys
import traceback

import torch
import transformers as T

import rwkv7 as R
from safetensors.torch import save_file

import relatives

STEPS, BATCH, SEQ, VOCAB = 20, 4, 18, 64
LARGEST = 512  # gradients of more elements are left out; their norms stay
LIKE_LLAMA = dict(
    vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.1, use_cache=False,
)


def llama(**more):
    return T.LlamaForCausalLM, T.LlamaConfig(**{**LIKE_LLAMA, **more})


def rope(kind, **more):
    return llama(rope_parameters=dict(rope_type=kind, rope_theta=1000.0, **more))


def like(name, **more):
    return lambda: (getattr(T, name + "ForCausalLM"), getattr(T, name + "Config")(**{**LIKE_LLAMA, **more}))


LATENT = dict(
    num_key_value_heads=4, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=6,
    n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=20, first_k_dense_replace=1,
)
YARN = dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, original_max_position_embeddings=8, mscale=0.9, mscale_all_dim=0.6)
HALF = [1.0, 1.5, 2.5, 4.0]

CASES = {
    "rope_linear": lambda: rope("linear", factor=3.0),
    "rope_dynamic": lambda: llama(max_position_embeddings=10, rope_parameters=dict(
        rope_type="dynamic", rope_theta=1000.0, factor=2.0)),
    "rope_yarn": lambda: rope("yarn", factor=4.0, original_max_position_embeddings=12, beta_fast=4.0, beta_slow=0.5,
                              truncate=False),
    "rope_yarn_factor": lambda: rope("yarn", factor=4.0, original_max_position_embeddings=12, attention_factor=1.3),
    "rope_llama3": lambda: rope("llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=3.0,
                                original_max_position_embeddings=16),
    "rope_longrope": lambda: rope("longrope", short_factor=HALF, long_factor=[2 * x for x in HALF],
                                  original_max_position_embeddings=12),
    "llama_bias": lambda: llama(attention_bias=True, mlp_bias=True, hidden_act="gelu", head_dim=12, tie_word_embeddings=True,
                                pad_token_id=3),
    "qwen3": like("Qwen3", head_dim=12, use_sliding_window=True, sliding_window=5, max_window_layers=1, attention_bias=True),
    "qwen3_moe": like("Qwen3Moe", head_dim=12, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=20,
                      norm_topk_prob=False, decoder_sparse_step=2, use_sliding_window=True, sliding_window=5),
    "gemma": like("Gemma", head_dim=12, attention_bias=True, pad_token_id=3),
    "gemma2": like("Gemma2", head_dim=12, query_pre_attn_scalar=5, attn_logit_softcapping=1.5, final_logit_softcapping=2.0,
                   sliding_window=5),
    "gemma2_eager": like("Gemma2", head_dim=12, query_pre_attn_scalar=5, attn_logit_softcapping=1.5,
                         final_logit_softcapping=2.0, sliding_window=5),
    "gemma3": lambda: (T.Gemma3ForCausalLM, T.Gemma3TextConfig(**{**LIKE_LLAMA, **dict(
        head_dim=12, query_pre_attn_scalar=5, sliding_window=5, layer_types=["sliding_attention", "full_attention"] * 2,
        num_hidden_layers=4)})),
    "ernie4_5": like("Ernie4_5", head_dim=12, use_bias=True),
    "ernie4_5_moe": like("Ernie4_5_Moe", use_bias=True, moe_num_experts=6, moe_k=3, moe_intermediate_size=20,
                         moe_num_shared_experts=2, moe_layer_interval=2, moe_layer_start_index=0),
    "deepseek_v2": like("DeepseekV2", **LATENT, q_lora_rank=14, n_shared_experts=2, routed_scaling_factor=1.5,
                        rope_parameters=YARN, mlp_bias=True, attention_bias=True),
    "deepseek_v2_groups": like("DeepseekV2", **LATENT, q_lora_rank=None, n_shared_experts=1, n_group=4, topk_group=2,
                               topk_method="group_limited_greedy"),
    "deepseek_v3": like("DeepseekV3", **LATENT, q_lora_rank=None, n_shared_experts=2, n_group=2, topk_group=1,
                        norm_topk_prob=False, routed_scaling_factor=1.5, rope_interleave=False, attention_bias=True,
                        rope_parameters=YARN),
    "olmo2": like("Olmo2", attention_bias=True),
    "phi3": like("Phi3", sliding_window=7, original_max_position_embeddings=12, pad_token_id=None, rope_parameters=dict(
        rope_type="longrope", rope_theta=1000.0, partial_rotary_factor=0.5, short_factor=HALF[:2], long_factor=HALF[2:],
        original_max_position_embeddings=12)),
    "bert": lambda: (T.BertForMaskedLM, bert(hidden_act="gelu_new")),
    "bert_classes": lambda: (T.BertForSequenceClassification, bert(num_labels=3)),
    "bert_number": lambda: (T.BertForSequenceClassification, bert(num_labels=1)),
    "mamba2": lambda: (T.Mamba2ForCausalLM, T.Mamba2Config(
        vocab_size=VOCAB, hidden_size=24, num_hidden_layers=2, num_heads=6, head_dim=8, state_size=5, n_groups=3, expand=2,
        chunk_size=8, use_bias=True, time_step_limit=(0.01, 0.5), tie_word_embeddings=True, initializer_range=0.1,
        use_cache=False)),
    "vit": lambda: (T.ViTForImageClassification, T.ViTConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=12, patch_size=4,
        num_channels=3, num_labels=5, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.1)),
    "rwkv": lambda: (T.RwkvForCausalLM, T.RwkvConfig(
        vocab_size=VOCAB, context_length=64, hidden_size=32, num_hidden_layers=2, intermediate_size=48, rescale_every=0,
        use_cache=False)),
    "rwkv7": lambda: (R.RWKV7ForCausalLM, R.RWKV7Config(vocab_size=VOCAB)),
}


def bert(**more):
    return T.BertConfig(**dict(
        dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.1),
        **more))


def batches(model):
    """Inputs and labels of all steps, by what the model's head does."""
    g = torch.Generator().manual_seed(7)
    name, config = type(model).__name__, model.config
    if name.startswith("ViT"):
        pixels = torch.randn(STEPS, BATCH, config.num_channels, config.image_size, config.image_size, generator=g)
        return pixels, torch.randint(0, config.num_labels, (STEPS, BATCH), generator=g)
    # Walks with repetitions, so that there is something to learn.
    steps = torch.randint(0, 3, (STEPS, BATCH, SEQ + 1), generator=g)
    ids = (torch.cumsum(steps, -1) + torch.randint(0, VOCAB, (STEPS, BATCH, 1), generator=g)) % VOCAB
    if name.endswith("ForQuestionAnswering"):
        return ids[:, :, :-1], torch.randint(0, SEQ, (STEPS, BATCH, 2), generator=g)
    if name.endswith("ForTokenClassification"):
        labels = torch.randint(0, config.num_labels, (STEPS, BATCH, SEQ), generator=g)
        labels[torch.rand(labels.shape, generator=g) < 0.2] = -100
        return ids[:, :, :-1], labels
    if name.endswith("ForSequenceClassification"):
        if config.num_labels == 1:
            return ids[:, :, :-1], torch.randn(STEPS, BATCH, generator=g)
        return ids[:, :, :-1], torch.randint(0, config.num_labels, (STEPS, BATCH), generator=g)
    if name.endswith("ForMaskedLM"):
        inputs, masked = ids[:, :, :-1].clone(), torch.rand(STEPS, BATCH, SEQ, generator=g) < 0.3
        labels = torch.where(masked, inputs, torch.full_like(inputs, -100))
        inputs[masked] = 1
        return inputs, labels
    return ids[:, :, :-1], ids[:, :, 1:]


def logits_of(model, inputs):
    key = "pixel_values" if inputs.is_floating_point() else "input_ids"
    out = model(**{key: inputs})
    if hasattr(out, "start_logits"):
        return torch.stack([out.start_logits, out.end_logits], -1)
    return out.logits


def loss_of(model, inputs, labels):
    logits = logits_of(model, inputs)
    if type(model).__name__.endswith("ForQuestionAnswering"):  # the mean of the two ends' losses
        ends = [torch.nn.functional.cross_entropy(logits[..., i], labels[..., i]) for i in range(2)]
        return sum(ends) / 2, logits
    if labels.is_floating_point():
        return torch.nn.functional.mse_loss(logits.squeeze(-1), labels), logits
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)), logits


def disturb(model):
    """Gives what begins as zeros or ones other values, so that it shows."""
    g = torch.Generator().manual_seed(11)
    with torch.no_grad():
        named = list(model.named_parameters()) + [(n, b) for n, b in model.named_buffers() if "correction_bias" in n]
        for name, p in named:
            if p.dim() <= 1 or "correction_bias" in name:
                p.add_(0.05 * torch.randn(p.shape, generator=g))


def record(out, name):
    make, config = {**CASES, **relatives.CASES}[name]()
    torch.manual_seed(3)
    model = make(config).float().eval()
    if name.endswith("_eager") or name in relatives.EAGER:
        model.set_attn_implementation("eager")
    disturb(model)
    folder = os.path.join(out, name)
    model.save_pretrained(folder)
    inputs, labels = batches(model)
    tensors = {"inputs": compact(inputs), "labels": compact(labels)}
    result = dict(model=name, torch=torch.__version__, transformers=T.__version__, batch=BATCH, steps=STEPS)
    train(model, inputs, labels, tensors, result)
    if type(model).__name__.endswith("ForCausalLM"):
        result["greedy_after_training"] = greedy(model, inputs[0, 0, :6].tolist())
    save_file(tensors, os.path.join(folder, "reference.safetensors"))
    with open(os.path.join(folder, "reference.json"), "w") as f:
        json.dump(result, f, indent=1)


def compact(x):
    return x.contiguous() if x.is_floating_point() else x.to(torch.int32).contiguous()


def train(model, inputs, labels, tensors, result):
    params = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    settings = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    optimizer = torch.optim.AdamW([p for _, p in params], **settings)
    result["optimizer"] = dict(settings, name="AdamW", clip_norm=1.0, decay_all=True)
    result["losses"], result["clip_norms"] = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss, logits = loss_of(model, inputs[step], labels[step])
        loss.backward()
        if step == 0:
            tensors["logits0"], result["loss0"] = logits.detach().contiguous(), loss.item()
            grads = {n: p.grad for n, p in params if p.grad is not None}
            result["grad_norms"] = {n: g.norm().item() for n, g in grads.items()}
            tensors.update({"grad0." + n: g.clone().contiguous() for n, g in grads.items() if g.numel() <= LARGEST})
        result["losses"].append(loss.item())
        result["clip_norms"].append(torch.nn.utils.clip_grad_norm_([p for _, p in params], 1.0).item())
        optimizer.step()


@torch.no_grad()
def greedy(model, prompt):
    tokens = list(prompt)
    for _ in range(12):
        tokens.append(logits_of(model, torch.tensor([tokens]))[0, -1].argmax().item())
    return dict(prompt=list(prompt), tokens=tokens)


def main(out, names):
    torch.set_num_threads(4)
    for name in names or [*CASES, *relatives.CASES]:
        try:
            record(out, name)
            print("recorded", name, flush=True)
        except Exception as e:  # one family less is no reason to lose the others
            print("FAILED", name, repr(e)[:500], flush=True)
            traceback.print_exc(limit=-3)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
