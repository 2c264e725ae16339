"""The tokens of llama.cpp and of Galley from the same GGUF files, for every family and kind of weights that is written.

Usage: bench/llama_tokens.py [DIR] [tokens]; FAMILIES and WEIGHTS choose some of them; DIR keeps node_modules and models (bench-infer by default). A small model
is trained on the embedded book, told to be of each family and trained on, and written as GGUF; both continue the same
prompt greedily. Needs Go, node and npm's registry. Exits with 1 where a token differs.
"""
import json
import os
import struct
import subprocess
import sys

WEIGHTS = os.environ.get("WEIGHTS", "f16 bf16 int8 int4").split()


def run(*args, cwd=None):
    return subprocess.run(args, check=True, stdout=subprocess.PIPE, cwd=cwd).stdout


def read(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(n))
        data = f.read()
    header.pop("__metadata__", None)
    return {k: (t["dtype"], t["shape"], data[t["data_offsets"][0]:t["data_offsets"][1]]) for k, t in header.items()}


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


def floats(n, value):
    return struct.pack(f"<{n}f", *[value] * n)


def as_family(base, out, family):
    """Writes a llama as a model of another family, with the parameters that it has beside."""
    os.makedirs(out, exist_ok=True)
    with open(base + "/config.json") as f:
        c = json.load(f)
    tensors = read(base + "/model.safetensors")
    dim, heads = c["head_dim"], c["num_attention_heads"]
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}.self_attn."
        if family == "qwen2":
            for s in "qkv":
                tensors[p + s + "_proj.bias"] = ("F32", [heads * dim], floats(heads * dim, 0.01))
        if family == "qwen3":
            for s in "qk":
                tensors[p + s + "_norm.weight"] = ("F32", [dim], floats(dim, 1.0))
        if family == "olmo2":
            for s in "qk":
                tensors[p + s + "_norm.weight"] = ("F32", [heads * dim], floats(heads * dim, 1.0))
            at = f"model.layers.{i}."
            tensors[at + "post_feedforward_layernorm.weight"] = tensors.pop(at + "input_layernorm.weight")
    if family in ("olmo2", "qwen2_moe", "stablelm"):  # llama.cpp wants a head of its own
        tensors.setdefault("lm_head.weight", tensors["model.embed_tokens.weight"])
        c["tie_word_embeddings"] = False
    own(c, tensors, family)
    if family == "granite":
        c.update(embedding_multiplier=2.0, attention_multiplier=0.2, residual_multiplier=0.8, logits_scaling=1.5)
    c["model_type"] = family
    if family != "gemma2":
        c["sliding_window"] = None
    c.pop("architectures", None)
    with open(out + "/config.json", "w") as f:
        json.dump(c, f)
    write(out + "/model.safetensors", tensors)


def own(c, tensors, family):
    """Makes parameters and settings of families that differ from llama by more than a name."""
    hidden, dim = c["hidden_size"], c["head_dim"]
    bias = lambda name, n: tensors.update({name: ("F32", [n], floats(n, 0.01))})
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        if family in ("gemma", "gemma2"):
            for s in ("input_layernorm", "post_attention_layernorm"):
                tensors[at + s + ".weight"] = ("F32", [hidden], floats(hidden, 0.1))
        if family == "gemma2":
            for s in ("pre_feedforward_layernorm", "post_feedforward_layernorm"):
                tensors[at + s + ".weight"] = ("F32", [hidden], floats(hidden, 0.1))
        if family == "phi3":
            join(tensors, at + "self_attn.qkv_proj.weight", [at + f"self_attn.{s}_proj.weight" for s in "qkv"])
            join(tensors, at + "mlp.gate_up_proj.weight", [at + f"mlp.{s}_proj.weight" for s in ("gate", "up")])
        if family in ("starcoder2", "stablelm"):
            for s in ("input_layernorm", "post_attention_layernorm"):
                bias(at + s + ".bias", hidden)
        if family == "starcoder2":
            for s in "qkvo":
                name = at + f"self_attn.{s}_proj"
                bias(name + ".bias", tensors[name + ".weight"][1][0])
            tensors.pop(at + "mlp.gate_proj.weight")
            for s, t in (("c_fc", "up_proj"), ("c_proj", "down_proj")):
                w = tensors[at + f"mlp.{s}.weight"] = tensors.pop(at + f"mlp.{t}.weight")
                bias(at + f"mlp.{s}.bias", w[1][0])
        if family in ("mixtral", "qwen2_moe", "qwen3_moe"):
            experts(c, tensors, at, family)
        if family == "qwen2_moe":
            for s in "qkv":
                name = at + f"self_attn.{s}_proj"
                bias(name + ".bias", tensors[name + ".weight"][1][0])
        if family == "qwen3_moe":
            for s in "qk":
                tensors[at + f"self_attn.{s}_norm.weight"] = ("F32", [dim], floats(dim, 1.0))
    if family in ("gemma", "gemma2"):
        tensors["model.norm.weight"] = ("F32", [hidden], floats(hidden, 0.1))
        tensors.pop("lm_head.weight", None)
        c.update(tie_word_embeddings=True, hidden_act="gelu_pytorch_tanh", hidden_activation="gelu_pytorch_tanh")
    if family == "gemma2":
        c.update(query_pre_attn_scalar=dim, sliding_window=32)
    if family in ("starcoder2", "stablelm"):
        bias("model.norm.bias", hidden)
        c.pop("rms_norm_eps")
    if family == "starcoder2":
        c.update(norm_epsilon=1e-5, use_bias=True, hidden_act="gelu_pytorch_tanh")
    if family == "stablelm":
        c.update(layer_norm_eps=1e-5, use_qkv_bias=False)
        c["rope_parameters"]["partial_rotary_factor"] = 0.5
    if family == "phi3":
        c.update(pad_token_id=None, original_max_position_embeddings=c["max_position_embeddings"])
    if family not in ("llama", "mistral", "granite"):
        c.pop("mlp_bias", None)
    if family in ("mixtral", "phi3", "starcoder2", "stablelm", "qwen2_moe"):
        c.pop("attention_bias", None)


def experts(c, tensors, at, family):
    """Makes four experts of an MLP, two of them for each token, and a shared one of qwen2_moe's."""
    mlp = {s: tensors.pop(at + f"mlp.{s}_proj.weight") for s in ("gate", "up", "down")}
    width, hidden = mlp["gate"][1]
    router = [((7 * i) % 13 - 6) / 40 for i in range(4 * hidden)]
    moe = "block_sparse_moe" if family == "mixtral" else "mlp"
    tensors[at + moe + ".gate.weight"] = ("F32", [4, hidden], struct.pack(f"<{len(router)}f", *router))
    names = {"gate": "w1", "up": "w3", "down": "w2"} if family == "mixtral" else {s: s + "_proj" for s in mlp}
    for e in range(4):
        for s, w in mlp.items():
            tensors[at + f"{moe}.experts.{e}.{names[s]}.weight"] = w
    if family == "qwen2_moe":
        for s, w in mlp.items():
            tensors[at + f"mlp.shared_expert.{s}_proj.weight"] = w
        tensors[at + "mlp.shared_expert_gate.weight"] = ("F32", [1, hidden], floats(hidden, 0.01))
    c["num_experts_per_tok"] = 2
    if family == "mixtral":
        c["num_local_experts"] = 4
    else:
        c.update(num_experts=4, moe_intermediate_size=width, norm_topk_prob=family == "qwen3_moe")
    if family == "qwen2_moe":
        c["shared_expert_intermediate_size"] = width


def join(tensors, name, parts):
    all = [tensors.pop(p) for p in parts]
    rows = sum(a[1][0] for a in all)
    tensors[name] = (all[0][0], [rows, all[0][1][1]], b"".join(a[2] for a in all))


def same(dir, galley, file, count):
    theirs = bytes(json.loads(run("node", "infer.mjs", file, "1", "text", str(count), "1", cwd=dir)))
    ours = run(galley, "generate", file, "--prompt", "Call me", "--temperature", "0", f"--tokens={count}", "--threads=1")
    ours = ours.removeprefix(b"Call me")
    n = 0
    while n < count and theirs[n:n + 1] == ours[n:n + 1]:
        n += 1
    return n


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    dir = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "bench-infer")
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    os.makedirs(dir, exist_ok=True)
    galley = dir + "/galley"
    run("go", "build", "-o", galley, "./cmd/galley", cwd=here + "/..")
    if not os.path.isdir(dir + "/node_modules/node-llama-cpp"):
        run("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "node-llama-cpp@3.22.1", cwd=dir)
    with open(here + "/infer.mjs") as f, open(dir + "/infer.mjs", "w") as g:
        g.write(f.read())
    base = dir + "/small-llama"
    if not os.path.isdir(base):
        run(galley, "train", "--steps", "600", "--batch", "8", "--seq", "64", "--tokens", "0", "--save", base)
    wrong = 0
    every = ["llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "olmo2", "granite", "gemma",
             "gemma2", "phi3", "starcoder2", "stablelm"]
    for family in os.environ.get("FAMILIES", " ".join(every)).split():
        model = base
        if family != "llama":
            model = f"{dir}/small-{family}"
            if not os.path.isdir(model):
                as_family(base, model + "-first", family)
                run(galley, "train", "--model", model + "-first", "--steps", "60", "--batch", "8", "--seq", "64",
                    "--tokens", "0", "--save", model)
        for w in WEIGHTS:
            file = f"{model}-{w}.gguf"
            run(galley, "quantize", model, file, "--weights", w)
            n = same(dir, galley, file, count)
            wrong += n < count
            print(f"{family} {w}: the first {n} of {count} tokens are the same", flush=True)
    sys.exit(1 if wrong else 0)


main()
