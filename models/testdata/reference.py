"""Writes small models of every family with results that plain PyTorch gives in float64: no transformers, only the
formulas, so that features which the larger recorded models lack are checked too. Run: python3 reference.py"""
import json, math, os, struct
import torch
import torch.nn.functional as F

torch.manual_seed(7)
HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB, H, I, LAYERS, HEADS, KV, B, T = 24, 8, 12, 2, 4, 2, 2, 9
ACT = {"silu": F.silu, "gelu": F.gelu, "relu": F.relu,
       "gelu_new": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))}


def save(path, tensors):
    header, data = {}, b""
    for name, t in tensors.items():
        kind = "I32" if t.dtype == torch.int32 else "F32"
        raw = t.contiguous().to(torch.int32 if kind == "I32" else torch.float32).numpy().tobytes()
        header[name] = {"dtype": kind, "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def rand(*shape, base=0.0, std=0.4):
    return (base + std * torch.randn(*shape)).float().double().requires_grad_()


def rms(x, w, eps):
    return w * x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps)


def frequencies(rope, d):
    f = [rope["rope_theta"] ** (-2 * i / d) for i in range(d // 2)]
    kind = rope.get("rope_type", "default")
    if kind == "linear":
        f = [x / rope["factor"] for x in f]
    if kind == "llama3":
        low, high, old = rope["low_freq_factor"], rope["high_freq_factor"], rope["original_max_position_embeddings"]
        out = []
        for x in f:
            wave = 2 * math.pi / x
            if wave < old / high:
                out.append(x)
            elif wave > old / low:
                out.append(x / rope["factor"])
            else:
                s = (old / wave - low) / (high - low)
                out.append((1 - s) * x / rope["factor"] + s * x)
        f = out
    return torch.tensor(f, dtype=torch.float64)


def turn(x, freqs):  # [b, heads, t, d]
    angle = torch.arange(x.shape[2]).double()[:, None] * torch.cat([freqs, freqs])[None]
    half = x.shape[-1] // 2
    return x * angle.cos() + torch.cat([-x[..., half:], x[..., :half]], -1) * angle.sin()


def attend(q, k, v, scale, window):
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ k.transpose(-1, -2) * scale
    i, j = torch.arange(q.shape[2])[:, None], torch.arange(q.shape[2])[None]
    hide = (j > i) | ((j <= i - window) if window else torch.zeros(()).bool())
    y = s.masked_fill(hide, -math.inf).softmax(-1) @ v
    return y.transpose(1, 2).flatten(2)


def split(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def llama(c, d, windows):
    kind, P = c["model_type"], {}
    bias = c.get("attention_bias", False)

    def linear(name, i, o, b):
        P[name + ".weight"] = rand(o, i)
        if b:
            P[name + ".bias"] = rand(o)
    P["model.embed_tokens.weight"] = rand(VOCAB, H)
    for n in range(LAYERS):
        at = f"model.layers.{n}."
        for x, o in (("q", HEADS * d), ("k", KV * d), ("v", KV * d)):
            linear(at + f"self_attn.{x}_proj", H, o, bias or kind == "qwen2")
        linear(at + "self_attn.o_proj", HEADS * d, H, bias)
        if kind == "qwen3":
            P[at + "self_attn.q_norm.weight"], P[at + "self_attn.k_norm.weight"] = rand(d, base=1), rand(d, base=1)
        if kind == "mixtral":
            e = c["num_local_experts"]
            linear(at + "mlp.gate", H, e, False)
            P[at + "mlp.experts.gate_up_proj"], P[at + "mlp.experts.down_proj"] = rand(e, 2 * I, H), rand(e, H, I)
        else:
            for x, i, o in (("gate", H, I), ("up", H, I), ("down", I, H)):
                linear(at + f"mlp.{x}_proj", i, o, c.get("mlp_bias", False))
        P[at + "input_layernorm.weight"], P[at + "post_attention_layernorm.weight"] = rand(H, base=1), rand(H, base=1)
    P["model.norm.weight"] = rand(H, base=1)
    if not c["tie_word_embeddings"]:
        P["lm_head.weight"] = rand(VOCAB, H)
    rope = c.get("rope_parameters") or {"rope_theta": c["rope_theta"], **(c.get("rope_scaling") or {})}
    rope.setdefault("rope_type", rope.get("type", "default"))
    freqs, eps, act = frequencies(rope, d), c["rms_norm_eps"], ACT[c["hidden_act"]]

    def apply(name, x):
        return F.linear(x, P[name + ".weight"], P.get(name + ".bias"))

    def mlp(at, x):
        if kind != "mixtral":
            return apply(at + "down_proj", act(apply(at + "gate_proj", x)) * apply(at + "up_proj", x))
        probs = apply(at + "gate", x).softmax(-1)
        top, which = probs.topk(c["num_experts_per_tok"], -1)
        top = top / top.sum(-1, keepdim=True)
        y = torch.zeros_like(x)
        for e in range(c["num_local_experts"]):
            gate, up = F.linear(x, P[at + "experts.gate_up_proj"][e]).chunk(2, -1)
            one = F.linear(act(gate) * up, P[at + "experts.down_proj"][e])
            y = y + one * (top * (which == e)).sum(-1, keepdim=True)
        return y

    def forward(ids):
        x = P["model.embed_tokens.weight"][ids]
        for n in range(LAYERS):
            at = f"model.layers.{n}."
            h = rms(x, P[at + "input_layernorm.weight"], eps)
            q, k, v = (split(apply(at + f"self_attn.{z}_proj", h), m) for z, m in (("q", HEADS), ("k", KV), ("v", KV)))
            if kind == "qwen3":
                q, k = rms(q, P[at + "self_attn.q_norm.weight"], eps), rms(k, P[at + "self_attn.k_norm.weight"], eps)
            y = attend(turn(q, freqs), turn(k, freqs), v, d ** -0.5, windows[n])
            x = x + apply(at + "self_attn.o_proj", y)
            x = x + mlp(at + "mlp.", rms(x, P[at + "post_attention_layernorm.weight"], eps))
        return F.linear(rms(x, P["model.norm.weight"], eps), P.get("lm_head.weight", P["model.embed_tokens.weight"]))
    return P, forward


def gpt2(c):
    P, inner = {}, c["n_inner"]
    P["transformer.wte.weight"], P["transformer.wpe.weight"] = rand(VOCAB, H), rand(c["n_positions"], H)

    def norm(name):
        P[name + ".weight"], P[name + ".bias"] = rand(H, base=1), rand(H)

    def conv(name, i, o):
        P[name + ".weight"], P[name + ".bias"] = rand(i, o), rand(o)
    for n in range(LAYERS):
        at = f"transformer.h.{n}."
        norm(at + "ln_1"), conv(at + "attn.c_attn", H, 3 * H), conv(at + "attn.c_proj", H, H)
        norm(at + "ln_2"), conv(at + "mlp.c_fc", H, inner), conv(at + "mlp.c_proj", inner, H)
    norm("transformer.ln_f")
    if not c["tie_word_embeddings"]:
        P["lm_head.weight"] = rand(VOCAB, H)

    def ln(name, x):
        return F.layer_norm(x, (H,), P[name + ".weight"], P[name + ".bias"], c["layer_norm_epsilon"])

    def lin(name, x):
        return x @ P[name + ".weight"] + P[name + ".bias"]

    def forward(ids):
        x = P["transformer.wte.weight"][ids] + P["transformer.wpe.weight"][: ids.shape[1]]
        for n in range(LAYERS):
            at = f"transformer.h.{n}."
            q, k, v = (split(z, HEADS) for z in lin(at + "attn.c_attn", ln(at + "ln_1", x)).split(H, -1))
            scale = (H // HEADS) ** -0.5 if c.get("scale_attn_weights", True) else 1
            scale /= n + 1 if c.get("scale_attn_by_inverse_layer_idx") else 1
            x = x + lin(at + "attn.c_proj", attend(q, k, v, scale, 0))
            x = x + lin(at + "mlp.c_proj", ACT[c["activation_function"]](lin(at + "mlp.c_fc", ln(at + "ln_2", x))))
        return F.linear(ln("transformer.ln_f", x), P.get("lm_head.weight", P["transformer.wte.weight"]))
    return P, forward


def checkpoint(c, P):
    """The names that Hugging Face's files use."""
    out = {}
    for name, t in P.items():
        t = t.detach()
        if ".mlp.experts." in name:
            at, which = name.split(".mlp.experts.")
            for e, m in enumerate(t):
                parts = {"w2": m} if which == "down_proj" else dict(zip(("w1", "w3"), m.chunk(2)))
                out.update({f"{at}.block_sparse_moe.experts.{e}.{w}.weight": p for w, p in parts.items()})
        else:
            out[name.replace(".mlp.gate.", ".block_sparse_moe.gate.")] = t
    return out


def record(name, config, P, forward):
    at = os.path.join(HERE, name)
    os.makedirs(at, exist_ok=True)
    ids = torch.randint(0, VOCAB, (1, B, T + 1), dtype=torch.int32)
    logits = forward(ids[0, :, :-1].long())
    loss = F.cross_entropy(logits.flatten(0, 1), ids[0, :, 1:].long().flatten())
    loss.backward()
    with open(os.path.join(at, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
        f.write("\n")
    save(os.path.join(at, "model.safetensors"), checkpoint(config, P))
    save(os.path.join(at, "reference.safetensors"),
         {"ids": ids, "logits0": logits.detach(), **{"grad0." + k: p.grad for k, p in P.items()}})
    with open(os.path.join(at, "reference.json"), "w") as f:
        json.dump({"loss0": loss.item(), "grad_norms": {k: p.grad.norm().item() for k, p in P.items()}}, f, indent=1)
        f.write("\n")


BASE = {"vocab_size": VOCAB, "hidden_size": H, "intermediate_size": I, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV, "rms_norm_eps": 1e-6, "max_position_embeddings": 64}


def like(kind, **more):
    return {"model_type": kind, "hidden_act": "silu", "tie_word_embeddings": False, **BASE, **more}


c = like("llama", head_dim=6, attention_bias=True, mlp_bias=True, hidden_act="gelu", torch_dtype="float32", rope_theta=100.0,
         rope_scaling={"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                       "original_max_position_embeddings": 40})
record("llama", c, *llama(c, 6, [0, 0]))
c = like("mistral", head_dim=None, sliding_window=4, rope_theta=10000.0)
record("mistral", c, *llama(c, 2, [4, 4]))
c = like("qwen2", tie_word_embeddings=True, rope_theta=10000.0, rope_scaling={"type": "linear", "factor": 2.5},
         sliding_window=3, use_sliding_window=True, max_window_layers=1)
record("qwen2", c, *llama(c, 2, [0, 3]))
c = like("qwen3", head_dim=4, attention_bias=True, dtype="float32", sliding_window=4, use_sliding_window=True,
         layer_types=["sliding_attention", "full_attention"], rope_parameters={"rope_theta": 1000.0, "rope_type": "default"})
record("qwen3", c, *llama(c, 4, [4, 0]))
c = like("mixtral", tie_word_embeddings=True, num_local_experts=5, num_experts_per_tok=3, sliding_window=None,
         rope_parameters={"rope_theta": 1000.0, "rope_type": "default"})
record("mixtral", c, *llama(c, 2, [0, 0]))
c = {"model_type": "gpt2", "vocab_size": VOCAB, "n_embd": H, "n_layer": LAYERS, "n_head": HEADS, "n_inner": 20, "n_positions": 16,
     "activation_function": "gelu", "layer_norm_epsilon": 1e-5, "scale_attn_by_inverse_layer_idx": True,
     "tie_word_embeddings": False}
record("gpt2", c, *gpt2(c))
