"""Writes small models with results that the families' written definitions give in float64: plain Python, no library, every
sum spelled out; gradients by central differences. By definition only: no other program has seen these models.
gptj: one norm before attention and the MLP, which are added together; neighbours of the first rotary_dim elements turn.
starcoder2: LayerNorm, biases, a plain MLP with tanh's GELU, a window. llama_dynamic: rope whose base grows with sequences
longer than max_position_embeddings. Run: python3 relatives.py [NAME...]"""
import json, math, os, random, struct, sys

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB, H, I, LAYERS, HEADS, KV, B, T = 16, 8, 10, 2, 2, 1, 2, 6
R = random.Random(11)


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def save(path, tensors):  # name: (shape, flat list)
    header, data = {}, b""
    for name, (shape, flat) in tensors.items():
        whole = all(isinstance(x, int) for x in flat)
        raw = struct.pack(f"<{len(flat)}{'i' if whole else 'f'}", *flat)
        header[name] = {"dtype": "I32" if whole else "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


class Model:
    def __init__(self, config):
        self.c, self.P, self.shape = config, {}, {}

    def new(self, name, *shape, base=0.0, std=0.4):
        n = math.prod(shape)
        self.P[name], self.shape[name] = [f32(base + std * R.gauss(0, 1)) for _ in range(n)], list(shape)

    def linear(self, name, i, o, bias):
        self.new(name + ".weight", o, i)
        if bias:
            self.new(name + ".bias", o)

    def norm(self, name, bias=True):
        self.new(name + ".weight", H, base=1.0)
        if bias:
            self.new(name + ".bias", H)

    def apply(self, name, x):  # y = W x + b
        w, b, n = self.P[name + ".weight"], self.P.get(name + ".bias"), len(x)
        return [dot(w[o * n:(o + 1) * n], x) + (b[o] if b else 0.0) for o in range(len(w) // n)]

    def layernorm(self, name, x, eps):
        m = sum(x) / len(x)
        s = math.sqrt(sum((v - m) ** 2 for v in x) / len(x) + eps)
        return [(v - m) / s * w + b for v, w, b in zip(x, self.P[name + ".weight"], self.P[name + ".bias"])]

    def rmsnorm(self, name, x, eps):
        s = math.sqrt(sum(v * v for v in x) / len(x) + eps)
        return [v / s * w for v, w in zip(x, self.P[name + ".weight"])]


def gelu_tanh(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def silu(x):
    return x / (1 + math.exp(-x))


def halves(x, at, theta):  # element i turns with element i + d/2
    d, y = len(x), list(x)
    for i in range(d // 2):
        a = at * theta ** (-2 * i / d)
        y[i] = x[i] * math.cos(a) - x[i + d // 2] * math.sin(a)
        y[i + d // 2] = x[i + d // 2] * math.cos(a) + x[i] * math.sin(a)
    return y


def neighbours(x, at, d):  # element 2i turns with 2i + 1, among the first d
    y = list(x)
    for i in range(d // 2):
        a = at * 10000.0 ** (-2 * i / d)
        y[2 * i] = x[2 * i] * math.cos(a) - x[2 * i + 1] * math.sin(a)
        y[2 * i + 1] = x[2 * i + 1] * math.cos(a) + x[2 * i] * math.sin(a)
    return y


def attend(qs, ks, vs, window=0):  # lists by position of lists of heads
    out, d = [], len(qs[0][0])
    for t, q in enumerate(qs):
        row = []
        for h in range(len(q)):
            kv = h * len(ks[0]) // len(q)
            seen = range(max(0, t - window + 1) if window else 0, t + 1)
            s = [dot(q[h], ks[j][kv]) / math.sqrt(d) for j in seen]
            top = max(s)
            e = [math.exp(x - top) for x in s]
            for k in range(d):
                row.append(sum(w * vs[j][kv][k] for w, j in zip(e, seen)) / sum(e))
        out.append(row)
    return out


def heads(x, n):
    d = len(x) // n
    return [x[i * d:(i + 1) * d] for i in range(n)]


def add(*xs):
    return [sum(v) for v in zip(*xs)]


def gptj():
    m = Model({"model_type": "gptj", "architectures": ["GPTJForCausalLM"], "vocab_size": VOCAB, "n_embd": H, "n_layer": LAYERS,
               "n_head": HEADS, "n_inner": I, "n_positions": 32, "rotary_dim": 2, "activation_function": "gelu_new",
               "layer_norm_epsilon": 1e-5, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
               "tie_word_embeddings": False})
    m.new("transformer.wte.weight", VOCAB, H)
    for n in range(LAYERS):
        at = f"transformer.h.{n}."
        m.norm(at + "ln_1")
        for x in "kvq":
            m.linear(at + f"attn.{x}_proj", H, H, False)
        m.linear(at + "attn.out_proj", H, H, False)
        m.linear(at + "mlp.fc_in", H, I, True), m.linear(at + "mlp.fc_out", I, H, True)
    m.norm("transformer.ln_f")
    m.linear("lm_head", H, VOCAB, True)

    def forward(ids):
        xs = [m.P["transformer.wte.weight"][i * H:(i + 1) * H] for i in ids]
        for n in range(LAYERS):
            at = f"transformer.h.{n}."
            hs = [m.layernorm(at + "ln_1", x, 1e-5) for x in xs]
            q, k, v = ([heads(m.apply(at + f"attn.{z}_proj", h), HEADS) for h in hs] for z in "qkv")
            q = [[neighbours(h, t, 2) for h in row] for t, row in enumerate(q)]
            k = [[neighbours(h, t, 2) for h in row] for t, row in enumerate(k)]
            ys = [m.apply(at + "attn.out_proj", y) for y in attend(q, k, v)]
            zs = [m.apply(at + "mlp.fc_out", [gelu_tanh(u) for u in m.apply(at + "mlp.fc_in", h)]) for h in hs]
            xs = [add(x, y, z) for x, y, z in zip(xs, ys, zs)]
        return [m.apply("lm_head", m.layernorm("transformer.ln_f", x, 1e-5)) for x in xs]
    return m, forward


def llama_like(m, norm, mlp, window, theta, bias):
    m.new("model.embed_tokens.weight", VOCAB, H)
    d = H // HEADS
    for n in range(LAYERS):
        at = f"model.layers.{n}."
        for x, o in (("q", HEADS * d), ("k", KV * d), ("v", KV * d), ("o", H)):
            m.linear(at + f"self_attn.{x}_proj", HEADS * d if x == "o" else H, o, bias)
        mlp(at + "mlp.", None)
        m.norm(at + "input_layernorm", norm == m.layernorm), m.norm(at + "post_attention_layernorm", norm == m.layernorm)
    m.norm("model.norm", norm == m.layernorm)
    if not m.c["tie_word_embeddings"]:
        m.linear("lm_head", H, VOCAB, False)

    def forward(ids):
        base = theta(len(ids))
        table = m.P["model.embed_tokens.weight"]
        xs = [table[i * H:(i + 1) * H] for i in ids]
        for n in range(LAYERS):
            at = f"model.layers.{n}."
            hs = [norm(at + "input_layernorm", x, 1e-5) for x in xs]
            q, k, v = ([heads(m.apply(at + f"self_attn.{z}_proj", h), c) for h in hs] for z, c in
                       (("q", HEADS), ("k", KV), ("v", KV)))
            q = [[halves(h, t, base) for h in row] for t, row in enumerate(q)]
            k = [[halves(h, t, base) for h in row] for t, row in enumerate(k)]
            xs = [add(x, m.apply(at + "self_attn.o_proj", y)) for x, y in zip(xs, attend(q, k, v, window))]
            xs = [add(x, mlp(at + "mlp.", norm(at + "post_attention_layernorm", x, 1e-5))) for x in xs]
        ys = [norm("model.norm", x, 1e-5) for x in xs]
        if m.c["tie_word_embeddings"]:
            return [[dot(y, table[i * H:(i + 1) * H]) for i in range(VOCAB)] for y in ys]
        return [m.apply("lm_head", y) for y in ys]
    return m, forward


def starcoder2():
    m = Model({"model_type": "starcoder2", "architectures": ["Starcoder2ForCausalLM"], "vocab_size": VOCAB, "hidden_size": H,
               "intermediate_size": I, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV,
               "max_position_embeddings": 32, "hidden_act": "gelu_pytorch_tanh", "norm_epsilon": 1e-5, "use_bias": True,
               "sliding_window": 4, "rope_theta": 100.0, "attention_dropout": 0.0, "residual_dropout": 0.0,
               "embedding_dropout": 0.0, "tie_word_embeddings": True})

    def mlp(at, x):
        if x is None:
            m.linear(at + "c_fc", H, I, True), m.linear(at + "c_proj", I, H, True)
            return None
        return m.apply(at + "c_proj", [gelu_tanh(u) for u in m.apply(at + "c_fc", x)])
    return llama_like(m, m.layernorm, mlp, 4, lambda n: 100.0, True)


def llama_dynamic():
    m = Model({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": VOCAB, "hidden_size": H,
               "intermediate_size": I, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV,
               "max_position_embeddings": 4, "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
               "rope_parameters": {"rope_type": "dynamic", "rope_theta": 100.0, "factor": 2.0}})

    def mlp(at, x):
        if x is None:
            m.linear(at + "gate_proj", H, I, False), m.linear(at + "up_proj", H, I, False)
            m.linear(at + "down_proj", I, H, False)
            return None
        gate, up = m.apply(at + "gate_proj", x), m.apply(at + "up_proj", x)
        return m.apply(at + "down_proj", [silu(g) * u for g, u in zip(gate, up)])
    d = H // HEADS
    stretched = lambda n: 100.0 * (2.0 * n / 4 - 1) ** (d / (d - 2)) if n > 4 else 100.0
    return llama_like(m, m.rmsnorm, mlp, 0, stretched, False)


def loss_of(forward, ids):
    total = 0.0
    for row in ids:
        for logits, label in zip(forward(row[:-1]), row[1:]):
            top = max(logits)
            total += math.log(sum(math.exp(x - top) for x in logits)) + top - logits[label]
    return total / (B * T)


def write(name, build):
    m, forward = build()
    out = os.path.join(HERE, name)
    os.makedirs(out, exist_ok=True)
    ids = [[R.randrange(VOCAB) for _ in range(T + 1)] for _ in range(B)]
    logits = [x for row in ids for y in forward(row[:-1]) for x in y]
    loss, grads, step = loss_of(forward, ids), {}, 1e-5
    for key, values in m.P.items():
        g = []
        for i, x in enumerate(values):
            values[i] = x + step
            high = loss_of(forward, ids)
            values[i] = x - step
            g.append((high - loss_of(forward, ids)) / (2 * step))
            values[i] = x
        grads[key] = g
    with open(os.path.join(out, "config.json"), "w") as f:
        json.dump(m.c, f, indent=1)
    save(os.path.join(out, "model.safetensors"), {k: (m.shape[k], v) for k, v in m.P.items()})
    save(os.path.join(out, "reference.safetensors"),
         {"ids": ([1, B, T + 1], [i for row in ids for i in row]), "logits0": ([B, T, VOCAB], logits),
          **{"grad0." + k: (m.shape[k], v) for k, v in grads.items()}})
    with open(os.path.join(out, "reference.json"), "w") as f:
        json.dump({"loss0": loss, "grad_norms": {k: math.sqrt(dot(v, v)) for k, v in grads.items()}}, f, indent=1)


for name in sys.argv[1:] or ["gptj", "starcoder2", "llama_dynamic"]:
    R = random.Random(name)
    write(name, globals()[name])
