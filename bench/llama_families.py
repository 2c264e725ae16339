"""Small models of other families, made of the weights of a small llama."""
import array
import json
import os
import struct

ALL = ["llama", "mistral", "ministral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "olmo",
       "olmo2", "olmo3", "olmoe", "granite", "gemma", "gemma2", "gemma3_text", "phi", "phi3", "starcoder2",
       "stablelm", "smollm3", "ernie4_5", "ernie4_5_moe", "cohere", "cohere2", "glm", "glm4", "glm4_moe",
       "deepseek_v2", "deepseek_v3", "gpt2", "gpt_neox", "falcon", "llama+llama3", "gemma3_text+linear",
       "qwen3+yarn", "deepseek_v2+yarn"]
# How positions may be stretched.
ROPES = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 128},
}
# Families whose keys are of half as many heads; the others have one for each head of queries.
SHARED_KEYS = ["olmo", "olmo3", "gemma3_text", "phi", "smollm3", "ernie4_5", "ernie4_5_moe", "cohere",
               "cohere2", "glm", "glm4", "glm4_moe", "falcon"]
# Families in which neighbours turn together.
INTERLEAVED = ["ernie4_5", "ernie4_5_moe", "cohere", "cohere2"]
# Families whose first layer has no experts here.
LATER_EXPERTS = ["ernie4_5_moe", "glm4_moe", "deepseek_v2", "deepseek_v3"]


def read(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(n))
        data = f.read()
    header.pop("__metadata__", None)
    return {k: (t["dtype"], t["shape"], data[t["data_offsets"][0]:t["data_offsets"][1]])
            for k, t in header.items()}


def write(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for k, (dtype, shape, data) in tensors.items():
        header[k] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            f.write(data)


def vector(n, value):
    return "F32", [n], struct.pack(f"<{n}f", *[value] * n)


def varied(*shape, period=13, size=40):
    """Returns small numbers that are not all the same."""
    n = 1
    for d in shape:
        n *= d
    values = [((7 * i) % period - period // 2) / size for i in range(n)]
    return "F32", list(shape), struct.pack(f"<{n}f", *values)


def rows(w, order):
    """Returns rows of a matrix in an order."""
    size = len(w[2]) // w[1][0]
    return w[0], [len(order), *w[1][1:]], b"".join(w[2][i * size:(i + 1) * size] for i in order)


def joined(parts):
    return parts[0][0], [sum(p[1][0] for p in parts), *parts[0][1][1:]], b"".join(p[2] for p in parts)


def transposed(w):
    n, m = w[1]
    a = array.array("f", w[2])
    return w[0], [m, n], array.array("f", [a[i * m + j] for j in range(m) for i in range(n)]).tobytes()


class Model:
    """The config.json and the tensors of a llama on its way to another family."""

    def __init__(self, base, family):
        with open(base + "/config.json") as f:
            self.config = json.load(f)
        self.tensors = read(base + "/model.safetensors")
        self.family = family
        c = self.config
        self.hidden, self.dim, self.heads = c["hidden_size"], c["head_dim"], c["num_attention_heads"]
        self.layers = range(c["num_hidden_layers"])
        self.keys = self.heads

    def bias(self, name, value=0.01):
        """Adds a bias to a matrix, or to a norm."""
        self.tensors[name + ".bias"] = vector(self.tensors[name + ".weight"][1][0], value)

    def rename(self, name, other):
        for end in (".weight", ".bias"):
            if name + end in self.tensors:
                self.tensors[other + end] = self.tensors.pop(name + end)

    def own_head(self):
        self.tensors.setdefault("lm_head.weight", self.tensors["model.embed_tokens.weight"])
        self.config["tie_word_embeddings"] = False

    def share_keys(self):
        """Leaves the keys and values of the first half of the heads."""
        self.keys = self.config["num_key_value_heads"] = self.heads // 2
        for i in self.layers:
            for s in "kv":
                name = f"model.layers.{i}.self_attn.{s}_proj.weight"
                self.tensors[name] = rows(self.tensors[name], range(self.keys * self.dim))

    def interleave(self):
        """Puts what turns together side by side."""
        half = self.dim // 2
        for i in self.layers:
            for s in "qk":
                name = f"model.layers.{i}.self_attn.{s}_proj.weight"
                w = self.tensors[name]
                heads = range(w[1][0] // self.dim)
                self.tensors[name] = rows(w, [h * self.dim + j % 2 * half + j // 2 for h in heads
                                              for j in range(self.dim)])

    def take(self, *names):
        for name in names:
            self.tensors.pop(name, None)

    def drop(self, *words):
        for word in words:
            self.config.pop(word, None)

    def save(self, out):
        os.makedirs(out, exist_ok=True)
        c = self.config
        c["model_type"] = self.family
        c.setdefault("sliding_window", None)
        c.pop("architectures", None)
        if self.family not in ("llama", "mistral", "granite", "smollm3"):
            c.pop("mlp_bias", None)
        with open(out + "/config.json", "w") as f:
            json.dump(c, f)
        write(out + "/model.safetensors", self.tensors)


def as_family(base, out, family):
    """Writes a llama as a model of another family, with the parameters that it has beside; after a plus, it
    is how positions are stretched."""
    family, _, rope = family.partition("+")
    m = Model(base, family)
    if family in SHARED_KEYS:
        m.share_keys()
    if family in INTERLEAVED:
        m.interleave()
    if family in ("olmo2", "olmo3", "olmoe", "qwen2_moe", "stablelm", "phi", "gpt_neox", "olmo"):
        m.own_head()  # llama.cpp wants one
    for i in m.layers:
        attention(m, f"model.layers.{i}.")
        norms(m, f"model.layers.{i}.")
        mlp(m, f"model.layers.{i}.", i)
    settings(m)
    {"gpt2": gpt2, "gpt_neox": gpt_neox, "falcon": falcon}.get(family, lambda m: None)(m)
    if rope:
        m.config["rope_parameters"] = {"rope_theta": 10000.0, **ROPES[rope]}
    if rope and family.startswith("deepseek"):
        m.config["rope_parameters"].update(mscale=0.7, mscale_all_dim=0.7)
    m.save(out)


def attention(m, at):
    t, family = m.tensors, m.family
    p = at + "self_attn."
    if family in ("qwen2", "qwen2_moe", "starcoder2", "phi", "glm", "glm4", "glm4_moe"):
        for s in "qkv":
            m.bias(p + s + "_proj")
    if family in ("starcoder2", "phi"):
        m.bias(p + "o_proj")
    if family in ("qwen3", "qwen3_moe", "glm4_moe", "gemma3_text"):
        for s in "qk":
            t[p + s + "_norm.weight"] = vector(m.dim, 0.1 if family == "gemma3_text" else 1.0)
    if family in ("olmo2", "olmo3", "olmoe"):
        for s, heads in (("q", m.heads), ("k", m.keys)):
            t[p + s + "_norm.weight"] = vector(heads * m.dim, 1.0)
    if family == "phi3":
        t[p + "qkv_proj.weight"] = joined([t.pop(p + s + "_proj.weight") for s in "qkv"])
    if family == "phi":
        m.rename(p + "o_proj", p + "dense")
    if family.startswith("deepseek"):
        latent(m, p)


def latent(m, p):
    """Makes keys and values of a latent vector: half of a head has positions."""
    t, rank, turned = m.tensors, m.hidden // 2, m.dim // 2
    k, v = t.pop(p + "k_proj.weight"), t.pop(p + "v_proj.weight")
    t[p + "kv_a_proj_with_mqa.weight"] = joined([rows(v, range(rank)), rows(k, range(turned))])
    t[p + "kv_a_layernorm.weight"] = vector(rank, 1.0)
    t[p + "kv_b_proj.weight"] = varied(m.heads * (m.dim - turned + m.dim), rank, period=101, size=400)
    m.config.update(kv_lora_rank=rank, qk_nope_head_dim=m.dim - turned, qk_rope_head_dim=turned,
                    v_head_dim=m.dim, head_dim=turned, q_lora_rank=None)
    if m.family == "deepseek_v3":
        q = t.pop(p + "q_proj.weight")
        t[p + "q_a_proj.weight"] = rows(q, range(rank))
        t[p + "q_a_layernorm.weight"] = vector(rank, 1.0)
        t[p + "q_b_proj.weight"] = varied(m.heads * m.dim, rank, period=103, size=400)
        m.config["q_lora_rank"] = rank


def norms(m, at):
    t, family = m.tensors, m.family
    if family in ("olmo2", "olmo3"):
        m.rename(at + "input_layernorm", at + "post_feedforward_layernorm")
    if family.startswith("gemma"):
        for s in ("input_layernorm", "post_attention_layernorm"):
            t[at + s + ".weight"] = vector(m.hidden, 0.1)
    if family in ("gemma2", "gemma3_text"):
        for s in ("pre_feedforward_layernorm", "post_feedforward_layernorm"):
            t[at + s + ".weight"] = vector(m.hidden, 0.1)
    if family in ("starcoder2", "stablelm", "phi", "gpt2", "gpt_neox", "falcon"):
        for s in ("input_layernorm", "post_attention_layernorm"):
            m.bias(at + s)
    if family in ("phi", "cohere", "cohere2", "olmo"):
        m.take(at + "post_attention_layernorm.weight", at + "post_attention_layernorm.bias")
    if family == "olmo":
        m.take(at + "input_layernorm.weight")
    if family == "glm4":
        for s in ("post_self_attn_layernorm", "post_mlp_layernorm"):
            t[at + s + ".weight"] = vector(m.hidden, 1.0)


def mlp(m, at, i):
    t, family = m.tensors, m.family
    if family in ("starcoder2", "phi", "gpt2", "gpt_neox", "falcon"):
        m.take(at + "mlp.gate_proj.weight")
    if family in ("starcoder2", "phi"):
        names = {"starcoder2": ("c_fc", "c_proj"), "phi": ("fc1", "fc2")}[family]
        for s, other in zip(("up_proj", "down_proj"), names):
            m.bias(at + "mlp." + s)
            m.rename(at + "mlp." + s, at + "mlp." + other)
    if family in ("phi3", "glm", "glm4"):
        both = [t.pop(at + f"mlp.{s}_proj.weight") for s in ("gate", "up")]
        t[at + "mlp.gate_up_proj.weight"] = joined(both)
    first = 1 if family in LATER_EXPERTS else 0
    if family in ("mixtral", "qwen2_moe", "qwen3_moe", "olmoe", *LATER_EXPERTS) and i >= first:
        experts(m, at)


def experts(m, at):
    """Makes four experts of an MLP, two of them for each token, and shared ones."""
    c, t, family = m.config, m.tensors, m.family
    mlp = {s: t.pop(at + f"mlp.{s}_proj.weight") for s in ("gate", "up", "down")}
    width = mlp["gate"][1][0]
    moe = "block_sparse_moe" if family == "mixtral" else "mlp"
    t[at + moe + ".gate.weight"] = varied(4, m.hidden)
    names = {"gate": "w1", "up": "w3", "down": "w2"} if family == "mixtral" else {s: s + "_proj" for s in mlp}
    for e in range(4):
        for s, w in mlp.items():
            t[at + f"{moe}.experts.{e}.{names[s]}.weight"] = w
    if family == "qwen2_moe":
        for s, w in mlp.items():
            t[at + f"mlp.shared_expert.{s}_proj.weight"] = w
        t[at + "mlp.shared_expert_gate.weight"] = "F32", [1, m.hidden], vector(m.hidden, 0.01)[2]
        c["shared_expert_intermediate_size"] = width
    if family in LATER_EXPERTS:
        for s, w in mlp.items():
            t[at + f"mlp.shared_experts.{s}_proj.weight"] = w
    if family == "ernie4_5_moe":
        t[at + "mlp.moe_statics.e_score_correction_bias"] = varied(1, 4)
        c.update(moe_num_experts=4, moe_k=2, moe_intermediate_size=width, moe_num_shared_experts=1,
                 moe_layer_start_index=1)
        return
    c["num_experts_per_tok"] = 2
    if family == "mixtral":
        c["num_local_experts"] = 4
    elif family in LATER_EXPERTS:
        c.update(n_routed_experts=4, moe_intermediate_size=width, n_shared_experts=1, first_k_dense_replace=1,
                 routed_scaling_factor=1.5)
        if family != "deepseek_v2":
            t[at + "mlp.gate.e_score_correction_bias"] = varied(4)
            c.update(n_group=2, topk_group=1)
        if family == "glm4_moe":
            c["use_qk_norm"] = True
    elif family == "olmoe":
        c.update(num_experts=4, norm_topk_prob=False)
    else:
        c.update(num_experts=4, moe_intermediate_size=width, norm_topk_prob=family == "qwen3_moe")


def settings(m):
    """Sets what is outside of the layers, and the words of config.json."""
    c, t, family = m.config, m.tensors, m.family
    if family.startswith("gemma"):
        t["model.norm.weight"] = vector(m.hidden, 0.1)
        m.take("lm_head.weight")
        c.update(tie_word_embeddings=True, hidden_act="gelu_pytorch_tanh",
                 hidden_activation="gelu_pytorch_tanh")
    if family in ("gemma2", "gemma3_text"):
        c.update(query_pre_attn_scalar=m.dim, sliding_window=32)
    if family == "gemma3_text":
        m.drop("rope_parameters")
        c.update(sliding_window_pattern=2, rope_theta=20000.0, rope_local_base_freq=10000.0)
    if family in ("olmo3", "cohere2"):
        c.update(sliding_window=32)
    if family in ("cohere", "cohere2"):
        m.take("lm_head.weight")
        c.update(tie_word_embeddings=True, logit_scale=0.8, layer_norm_eps=1e-5)
    if family == "granite":
        c.update(embedding_multiplier=2.0, attention_multiplier=0.2, residual_multiplier=0.8,
                 logits_scaling=1.5)
    if family in ("starcoder2", "stablelm", "phi", "gpt2", "gpt_neox", "falcon"):
        m.bias("model.norm")
    if family == "starcoder2":
        c.update(norm_epsilon=1e-5, use_bias=True, hidden_act="gelu_pytorch_tanh")
    if family == "stablelm":
        c.update(layer_norm_eps=1e-5, use_qkv_bias=False)
    if family in ("stablelm", "phi", "glm", "glm4", "glm4_moe", "gpt_neox"):
        c["rope_parameters"]["partial_rotary_factor"] = 0.5
    if family == "phi3":
        c.update(pad_token_id=None, original_max_position_embeddings=c["max_position_embeddings"])
    if family == "phi":
        m.rename("model.norm", "model.final_layernorm")
        m.bias("lm_head")
        c.update(layer_norm_eps=1e-5, hidden_act="gelu_new")
    if family == "olmo":
        m.take("model.norm.weight")
        c.update(clip_qkv=3.0)
    if family in ("glm", "glm4", "glm4_moe"):
        c["attention_bias"] = True
    if family in ("ernie4_5", "ernie4_5_moe"):
        c["use_bias"] = False
    if family in ("starcoder2", "stablelm", "phi", "gpt2", "gpt_neox", "falcon", "olmo", "cohere", "cohere2"):
        m.drop("rms_norm_eps")
    if family in ("mixtral", "phi", "phi3", "starcoder2", "stablelm", "qwen2_moe", "ernie4_5",
                  "ernie4_5_moe"):
        m.drop("attention_bias")


def gpt2(m):
    """Positions are learned, and matrices are stored by columns."""
    c, t = m.config, m.tensors
    m.rename("model.embed_tokens", "transformer.wte")
    m.rename("model.norm", "transformer.ln_f")
    t["transformer.wpe.weight"] = varied(c["max_position_embeddings"], m.hidden, period=1009, size=20000)
    for i in m.layers:
        old, at = f"model.layers.{i}.", f"transformer.h.{i}."
        m.rename(old + "input_layernorm", at + "ln_1")
        m.rename(old + "post_attention_layernorm", at + "ln_2")
        all = [t.pop(old + f"self_attn.{s}_proj.weight") for s in "qkv"]
        t[at + "attn.c_attn.weight"] = transposed(joined(all))
        for name, other in (("self_attn.o_proj", "attn.c_proj"), ("mlp.up_proj", "mlp.c_fc"),
                            ("mlp.down_proj", "mlp.c_proj")):
            t[at + other + ".weight"] = transposed(t.pop(old + name + ".weight"))
        for name in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"):
            t[at + name + ".bias"] = vector(t[at + name + ".weight"][1][1], 0.01)
    m.config = {"vocab_size": c["vocab_size"], "n_embd": m.hidden, "n_head": m.heads,
                "n_layer": len(m.layers), "n_positions": c["max_position_embeddings"],
                "n_inner": c["intermediate_size"]}


def fused(m, at, old, each):
    """Joins the queries of each head of keys, its key and its value, and the next."""
    t = m.tensors
    parts = []
    q, k, v = (t.pop(old + f"self_attn.{s}_proj.weight") for s in "qkv")
    for g in range(m.keys):
        parts.append(rows(q, range(g * each * m.dim, (g + 1) * each * m.dim)))
        parts += [rows(w, range(g * m.dim, (g + 1) * m.dim)) for w in (k, v)]
    t[at + "query_key_value.weight"] = joined(parts)
    m.rename(old + "self_attn.o_proj", at + "dense")


def gpt_neox(m):
    c = m.config
    m.rename("model.embed_tokens", "gpt_neox.embed_in")
    m.rename("model.norm", "gpt_neox.final_layer_norm")
    m.rename("lm_head", "embed_out")
    for i in m.layers:
        old, at = f"model.layers.{i}.", f"gpt_neox.layers.{i}."
        for s in ("input_layernorm", "post_attention_layernorm"):
            m.rename(old + s, at + s)
        fused(m, at + "attention.", old, 1)
        m.rename(old + "mlp.up_proj", at + "mlp.dense_h_to_4h")
        m.rename(old + "mlp.down_proj", at + "mlp.dense_4h_to_h")
        for s in ("attention.query_key_value", "attention.dense", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"):
            m.bias(at + s)
    m.drop("head_dim", "num_key_value_heads")
    c.update(hidden_act="gelu", attention_bias=True, layer_norm_eps=1e-5)


def falcon(m):
    c = m.config
    m.rename("model.embed_tokens", "transformer.word_embeddings")
    m.rename("model.norm", "transformer.ln_f")
    for i in m.layers:
        old, at = f"model.layers.{i}.", f"transformer.h.{i}."
        m.rename(old + "input_layernorm", at + "ln_attn")
        m.rename(old + "post_attention_layernorm", at + "ln_mlp")
        fused(m, at + "self_attention.", old, m.heads // m.keys)
        m.rename(old + "mlp.up_proj", at + "mlp.dense_h_to_4h")
        m.rename(old + "mlp.down_proj", at + "mlp.dense_4h_to_h")
    m.config = {k: c[k] for k in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                                  "max_position_embeddings", "rope_parameters")}
    m.config.update(num_kv_heads=m.keys, new_decoder_architecture=True, bias=False,
                    ffn_hidden_size=c["intermediate_size"])
