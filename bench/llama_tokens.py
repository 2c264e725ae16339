"""The tokens of llama.cpp and of Galley from the same GGUF files, for every family and kind of weights that is written.

Usage: bench/llama_tokens.py [DIR] [tokens]; DIR keeps node_modules and models (bench-infer by default). A small model
is trained on the embedded book, told to be of each family and trained on, and written as GGUF; both continue the same
prompt greedily. Needs Go, node and npm's registry. Exits with 1 where a token differs.
"""
import json
import os
import struct
import subprocess
import sys

WEIGHTS = ["f16", "bf16", "int8", "int4"]


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
    if family == "olmo2":  # llama.cpp wants a head of its own
        tensors.setdefault("lm_head.weight", tensors["model.embed_tokens.weight"])
        c["tie_word_embeddings"] = False
    if family == "granite":
        c.update(embedding_multiplier=2.0, attention_multiplier=0.2, residual_multiplier=0.8, logits_scaling=1.5)
    c["model_type"], c["sliding_window"] = family, None
    c.pop("architectures", None)
    with open(out + "/config.json", "w") as f:
        json.dump(c, f)
    write(out + "/model.safetensors", tensors)


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
    for family in ["llama", "mistral", "qwen2", "qwen3", "olmo2", "granite"]:
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
