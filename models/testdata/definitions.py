"""Records tiny models of families by their definitions, in plain PyTorch, as references for `galley check model`.

    python definitions.py OUT [NAME...]

Where internal/check/testdata/record_model.py takes transformers' own modules, this file has each family's computation written out from its
configuration and weights under transformers' names, in float64: what transformers computes, without it. It needs PyTorch
only. Each model goes to OUT/NAME in the form of record_model.py.
"""
import json
import math
import os
import struct
import sys

import torch
import torch.nn.functional as F

STEPS, BATCH, SEQ, VOCAB, HIDDEN, INNER, LAYERS, HEADS = 20, 4, 18, 64, 32, 48, 3, 4
LIKE_LLAMA = dict(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS,
                  num_attention_heads=HEADS, num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.1)


def rotate(x, theta, part=1.0, interleaved=False):
    """x [batch, seq, heads, dim], of which a part turns by position."""
    n = int(x.shape[-1] * part)
    turned, rest = x[..., :n], x[..., n:]
    freqs = theta ** (-torch.arange(0, n, 2, dtype=x.dtype) / n)
    angle = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * freqs
    cos, sin = angle.cos()[None, :, None], angle.sin()[None, :, None]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
        turned = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    else:
        a, b = turned[..., :n // 2], turned[..., n // 2:]
        turned = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    return torch.cat([turned, rest], -1)


def attend(q, k, v, scale=None, causal=True):
    """Heads [batch, seq, heads, dim] of queries share those of keys and values."""
    times = q.shape[2] // k.shape[2]
    k, v = k.repeat_interleave(times, 2), v.repeat_interleave(times, 2)
    scores = torch.einsum("bshd,bthd->bhst", q, k) * (scale or q.shape[-1] ** -0.5)
    if causal:
        scores = scores.masked_fill(torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).triu(1), -math.inf)
    return torch.einsum("bhst,bthd->bshd", scores.softmax(-1), v).flatten(2)


class Model:
    """Weights by name; a family adds what it computes. Shapes are those of the first use."""

    def __init__(self, **config):
        self.c = config
        self.w, self.fixed = {}, None
        self.g = torch.Generator().manual_seed(3)

    def get(self, name, *shape, one=False):
        if name not in self.w:
            x = torch.randn(shape, generator=self.g) * 0.1
            if len(shape) == 1:
                x = x * 0.5 + (1.0 if one else 0.0)
            self.w[name] = x.float().double().requires_grad_()
        return self.w[name]

    def linear(self, name, x, out, bias=False):
        b = self.get(name + ".bias", out) if bias else None
        return F.linear(x, self.get(name + ".weight", out, x.shape[-1]), b)

    def layer_norm(self, name, x, eps, bias=True):
        n = x.shape[-1]
        return F.layer_norm(x, (n,), self.get(name + ".weight", n, one=True), self.get(name + ".bias", n) if bias else None, eps)

    def rms_norm(self, name, x, eps):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * self.get(name + ".weight", x.shape[-1], one=True)

    def split(self, x, heads):
        return x.reshape(x.shape[0], x.shape[1], heads, -1)

    def embed(self, name, ids, rows=None, pad=None):
        return F.embedding(ids, self.get(name, rows or VOCAB, HIDDEN), padding_idx=pad)

    def head(self, x, table, name="lm_head.weight"):
        if self.c.get("tie_word_embeddings"):
            return F.linear(x, self.w[table])
        return F.linear(x, self.get(name, VOCAB, HIDDEN))

    def gated(self, name, x, inner, bias=False):
        gate, up = self.linear(name + ".gate_proj", x, inner, bias), self.linear(name + ".up_proj", x, inner, bias)
        return self.linear(name + ".down_proj", F.silu(gate) * up, HIDDEN, bias)

    def qkv(self, at, x, bias=False):
        kv = self.c["num_key_value_heads"] * 8
        q = self.linear(at + ".q_proj", x, HIDDEN, bias)
        return q, self.linear(at + ".k_proj", x, kv, bias), self.linear(at + ".v_proj", x, kv, bias)

    def heads(self, q, k, v):
        n = self.c["num_key_value_heads"]
        return self.split(q, HEADS), self.split(k, n), self.split(v, n)


class Granite(Model):
    def forward(self, ids):
        c, eps = self.c, 1e-6
        x = self.embed("model.embed_tokens.weight", ids) * c["embedding_multiplier"]
        for i in range(LAYERS):
            at = f"model.layers.{i}"
            q, k, v = self.heads(*self.qkv(at + ".self_attn", self.rms_norm(at + ".input_layernorm", x, eps), True))
            y = attend(rotate(q, 1e4), rotate(k, 1e4), v, c["attention_multiplier"])
            x = x + self.linear(at + ".self_attn.o_proj", y, HIDDEN, True) * c["residual_multiplier"]
            h = self.rms_norm(at + ".post_attention_layernorm", x, eps)
            x = x + self.gated(at + ".mlp", h, INNER, True) * c["residual_multiplier"]
        return self.head(self.rms_norm("model.norm", x, eps), "model.embed_tokens.weight") / c["logits_scaling"]


class Cohere(Model):
    def forward(self, ids):
        x = self.embed("model.embed_tokens.weight", ids, pad=0)
        for i in range(LAYERS):
            at = f"model.layers.{i}"
            h = self.layer_norm(at + ".input_layernorm", x, 1e-5, bias=False)
            q, k, v = self.heads(*self.qkv(at + ".self_attn", h))
            y = attend(rotate(q, 1e4, interleaved=True), rotate(k, 1e4, interleaved=True), v)
            x = x + self.linear(at + ".self_attn.o_proj", y, HIDDEN) + self.gated(at + ".mlp", h, INNER)
        x = self.layer_norm("model.norm", x, 1e-5, bias=False)
        return self.head(x, "model.embed_tokens.weight") * self.c["logit_scale"]


class GPTNeoX(Model):
    def forward(self, ids):
        x = self.embed("gpt_neox.embed_in.weight", ids)
        for i in range(LAYERS):
            at = f"gpt_neox.layers.{i}"
            h = self.layer_norm(at + ".input_layernorm", x, 1e-5)
            q, k, v = self.split(self.linear(at + ".attention.query_key_value", h, 3 * HIDDEN, True), HEADS).chunk(3, -1)
            part = self.c["rotary_pct"]
            y = attend(rotate(q, 1e4, part), rotate(k, 1e4, part), v)
            y = self.linear(at + ".attention.dense", y, HIDDEN, True)
            behind = x if self.c["use_parallel_residual"] else x + y
            h = self.layer_norm(at + ".post_attention_layernorm", behind, 1e-5)
            h = F.gelu(self.linear(at + ".mlp.dense_h_to_4h", h, INNER, True))
            x = x + y + self.linear(at + ".mlp.dense_4h_to_h", h, HIDDEN, True)
        x = self.layer_norm("gpt_neox.final_layer_norm", x, 1e-5)
        return self.head(x, "gpt_neox.embed_in.weight", "embed_out.weight")


class Phi(Model):
    def forward(self, ids):
        x = self.embed("model.embed_tokens.weight", ids)
        for i in range(LAYERS):
            at = f"model.layers.{i}"
            h = self.layer_norm(at + ".input_layernorm", x, 1e-5)
            q, k, v = self.heads(*self.qkv(at + ".self_attn", h, True))
            y = self.linear(at + ".self_attn.dense", attend(rotate(q, 1e4, 0.5), rotate(k, 1e4, 0.5), v), HIDDEN, True)
            h = F.gelu(self.linear(at + ".mlp.fc1", h, INNER, True), approximate="tanh")
            x = x + y + self.linear(at + ".mlp.fc2", h, HIDDEN, True)
        return self.linear("lm_head", self.layer_norm("model.final_layernorm", x, 1e-5), VOCAB, True)


class Olmo(Model):
    def forward(self, ids):
        norm = lambda x: F.layer_norm(x, (HIDDEN,), None, None, 1e-5)
        x = self.embed("model.embed_tokens.weight", ids, pad=1)
        clip = self.c["clip_qkv"]
        for i in range(LAYERS):
            at = f"model.layers.{i}"
            q, k, v = self.heads(*(t.clamp(-clip, clip) for t in self.qkv(at + ".self_attn", norm(x))))
            y = attend(rotate(q, 1e4), rotate(k, 1e4), v)
            x = x + self.linear(at + ".self_attn.o_proj", y, HIDDEN)
            x = x + self.gated(at + ".mlp", norm(x), INNER)
        return self.head(norm(x), "model.embed_tokens.weight")


class SmolLM3(Model):
    def forward(self, ids):
        x = self.embed("model.embed_tokens.weight", ids)
        for i in range(LAYERS):
            at = f"model.layers.{i}"
            q, k, v = self.heads(*self.qkv(at + ".self_attn", self.rms_norm(at + ".input_layernorm", x, 1e-6)))
            if self.c["no_rope_layers"][i]:
                q, k = rotate(q, 2e6), rotate(k, 2e6)
            x = x + self.linear(at + ".self_attn.o_proj", attend(q, k, v), HIDDEN)
            x = x + self.gated(at + ".mlp", self.rms_norm(at + ".post_attention_layernorm", x, 1e-6), INNER)
        return self.head(self.rms_norm("model.norm", x, 1e-6), "model.embed_tokens.weight")


class Qwen2MoE(Model):
    def experts(self, at, x):
        c = self.c
        scores = self.linear(at + ".gate", x, c["num_experts"]).softmax(-1)
        weights, chosen = scores.topk(c["num_experts_per_tok"], -1)
        if c["norm_topk_prob"]:
            weights = weights / weights.sum(-1, keepdim=True)
        y = torch.zeros_like(x)
        for e in range(c["num_experts"]):
            share = (weights * (chosen == e)).sum(-1, keepdim=True)
            y = y + share * self.gated(f"{at}.experts.{e}", x, c["moe_intermediate_size"])
        shared = self.gated(at + ".shared_expert", x, c["shared_expert_intermediate_size"])
        return y + torch.sigmoid(self.linear(at + ".shared_expert_gate", x, 1)) * shared

    def forward(self, ids):
        x = self.embed("model.embed_tokens.weight", ids)
        for i in range(LAYERS):
            at = f"model.layers.{i}"
            q, k, v = self.heads(*self.qkv(at + ".self_attn", self.rms_norm(at + ".input_layernorm", x, 1e-6), True))
            x = x + self.linear(at + ".self_attn.o_proj", attend(rotate(q, 1e4), rotate(k, 1e4), v), HIDDEN)
            h = self.rms_norm(at + ".post_attention_layernorm", x, 1e-6)
            x = x + (self.gated(at + ".mlp", h, INNER) if i in self.c["mlp_only_layers"] else self.experts(at + ".mlp", h))
        return self.head(self.rms_norm("model.norm", x, 1e-6), "model.embed_tokens.weight")


class Roberta(Model):
    def forward(self, ids):
        pad = self.c["pad_token_id"]
        counted = (ids != pad).long()
        at = torch.cumsum(counted, 1) * counted + pad
        base = "roberta.embeddings."
        x = self.embed(base + "word_embeddings.weight", ids, pad=pad)
        x = x + self.embed(base + "position_embeddings.weight", at, self.c["max_position_embeddings"], pad)
        x = x + self.get(base + "token_type_embeddings.weight", self.c["type_vocab_size"], HIDDEN)[0]
        x = self.layer_norm(base + "LayerNorm", x, 1e-12)
        for i in range(LAYERS):
            at = f"roberta.encoder.layer.{i}"
            q, k, v = (self.split(self.linear(f"{at}.attention.self.{n}", x, HIDDEN, True), HEADS)
                       for n in ("query", "key", "value"))
            y = self.linear(at + ".attention.output.dense", attend(q, k, v, causal=False), HIDDEN, True)
            x = self.layer_norm(at + ".attention.output.LayerNorm", x + y, 1e-12)
            h = F.gelu(self.linear(at + ".intermediate.dense", x, INNER, True))
            x = self.layer_norm(at + ".output.LayerNorm", x + self.linear(at + ".output.dense", h, HIDDEN, True), 1e-12)
        if self.c["architectures"][0].endswith("ForSequenceClassification"):
            h = torch.tanh(self.linear("classifier.dense", x[:, 0], HIDDEN, True))
            return self.linear("classifier.out_proj", h, 3, True)
        x = self.layer_norm("lm_head.layer_norm", F.gelu(self.linear("lm_head.dense", x, HIDDEN, True)), 1e-12)
        return F.linear(x, self.w[base + "word_embeddings.weight"], self.get("lm_head.bias", VOCAB))


def like(kind, model_type, architecture, **more):
    config = {**LIKE_LLAMA, "model_type": model_type, "architectures": [architecture], **more}
    return lambda: kind(**{k: v for k, v in config.items() if v is not None})


BERT = dict(num_key_value_heads=None, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, pad_token_id=1,
            type_vocab_size=2)
CASES = {
    "granite": like(Granite, "granite", "GraniteForCausalLM", embedding_multiplier=3.0, attention_multiplier=0.3,
                    residual_multiplier=0.6, logits_scaling=2.0, attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    "cohere": like(Cohere, "cohere", "CohereForCausalLM", logit_scale=0.5, tie_word_embeddings=True),
    "gpt_neox": like(GPTNeoX, "gpt_neox", "GPTNeoXForCausalLM", num_key_value_heads=None, rotary_pct=0.5,
                     use_parallel_residual=True, tie_word_embeddings=False),
    "gpt_neox_sequential": like(GPTNeoX, "gpt_neox", "GPTNeoXForCausalLM", num_key_value_heads=None, rotary_pct=1.0,
                                use_parallel_residual=False, tie_word_embeddings=True),
    "phi": like(Phi, "phi", "PhiForCausalLM", partial_rotary_factor=0.5),
    "olmo": like(Olmo, "olmo", "OlmoForCausalLM", clip_qkv=0.4),
    "smollm3": like(SmolLM3, "smollm3", "SmolLM3ForCausalLM", no_rope_layers=[1, 0, 1], tie_word_embeddings=True),
    "qwen2_moe": like(Qwen2MoE, "qwen2_moe", "Qwen2MoeForCausalLM", num_experts=6, num_experts_per_tok=3,
                      moe_intermediate_size=20, shared_expert_intermediate_size=24, norm_topk_prob=False, mlp_only_layers=[1]),
    "roberta": like(Roberta, "roberta", "RobertaForMaskedLM", **BERT, tie_word_embeddings=True),
    "roberta_classes": like(Roberta, "roberta", "RobertaForSequenceClassification", **BERT,
                            id2label={"0": "a", "1": "b", "2": "c"}),
}


def batches(name):
    g = torch.Generator().manual_seed(7)
    steps = torch.randint(0, 3, (STEPS, BATCH, SEQ + 1), generator=g)
    ids = (torch.cumsum(steps, -1) + torch.randint(0, VOCAB, (STEPS, BATCH, 1), generator=g)) % VOCAB
    if name.endswith("_classes"):
        return ids[:, :, :-1], torch.randint(0, 3, (STEPS, BATCH), generator=g)
    if name == "roberta":
        inputs, masked = ids[:, :, :-1].clone(), torch.rand(STEPS, BATCH, SEQ, generator=g) < 0.3
        labels = torch.where(masked, inputs, torch.full_like(inputs, -100))
        inputs[masked] = 2
        return inputs, labels
    return ids[:, :, :-1], ids[:, :, 1:]


def loss_of(model, inputs, labels):
    logits = model.forward(inputs)
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)), logits


def record(out, name):
    model = CASES[name]()
    inputs, labels = batches(name)
    loss_of(model, inputs[0], labels[0])  # makes the weights
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    save(os.path.join(folder, "model.safetensors"), {n: p.detach().float() for n, p in model.w.items()})
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(model.c, f, indent=1)
    tensors = {"inputs": inputs.int(), "labels": labels.int()}
    settings = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    result = dict(model=name, torch=torch.__version__, batch=BATCH, steps=STEPS, losses=[], clip_norms=[],
                  optimizer=dict(settings, name="AdamW", clip_norm=1.0, decay_all=True))
    params = list(model.w.items())
    optimizer = torch.optim.AdamW([p for _, p in params], **settings)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss, logits = loss_of(model, inputs[step], labels[step])
        loss.backward()
        if step == 0:
            tensors["logits0"], result["loss0"] = logits.detach().float(), loss.item()
            result["grad_norms"] = {n: p.grad.norm().item() for n, p in stacked(params)}
            tensors.update({"grad0." + n: p.grad.float() for n, p in stacked(params)})
        result["losses"].append(loss.item())
        result["clip_norms"].append(torch.nn.utils.clip_grad_norm_([p for _, p in params], 1.0).item())
        optimizer.step()
    if name.startswith("roberta") is False:
        tokens = inputs[0, 0, :6].tolist()
        prompt = list(tokens)
        with torch.no_grad():
            for _ in range(12):
                tokens.append(model.forward(torch.tensor([tokens]))[0, -1].argmax().item())
        result["greedy_after_training"] = dict(prompt=prompt, tokens=tokens)
    save(os.path.join(folder, "reference.safetensors"), tensors)
    with open(os.path.join(folder, "reference.json"), "w") as f:
        json.dump(result, f, indent=1)


class Stacked:
    def __init__(self, grad):
        self.grad = grad


def stacked(params):
    """Gradients of experts as transformers has them: all of a layer's in one tensor."""
    out, experts = [], {}
    for n, p in params:
        grad = p.grad if p.grad is not None else torch.zeros_like(p)
        if ".experts." not in n:
            out.append((n, Stacked(grad)))
            continue
        at, rest = n.split(".experts.")
        number, which = rest.split(".")[:2]
        experts.setdefault(at, {}).setdefault(int(number), {})[which] = grad
    for at, layers in experts.items():
        both = [torch.cat([e["gate_proj"], e["up_proj"]]) for _, e in sorted(layers.items())]
        out.append((at + ".experts.gate_up_proj", Stacked(torch.stack(both))))
        out.append((at + ".experts.down_proj", Stacked(torch.stack([e["down_proj"] for _, e in sorted(layers.items())]))))
    return out


def save(path, tensors):
    """A safetensors file."""
    head, chunks, at = {}, [], 0
    for name, x in tensors.items():
        data = x.contiguous().numpy().tobytes()
        head[name] = {"dtype": {torch.float32: "F32", torch.int32: "I32"}[x.dtype], "shape": list(x.shape),
                      "data_offsets": [at, at + len(data)]}
        chunks.append(data)
        at += len(data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(chunks))


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[2:] or CASES:
        record(sys.argv[1], name)
        print("recorded", name, flush=True)
