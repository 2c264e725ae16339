"""Times a Llama in PyTorch: infer_torch.py DIR THREADS PROMPT TOKENS prints {"prefill": …, "decode": …}."""
import json
import mmap
import struct
import sys
import time

import torch
import torch.nn.functional as F


def weights(path):
    with open(path, "rb") as f:
        data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY)
    n = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, t in json.loads(data[8:8 + n]).items():
        if name == "__metadata__":
            continue
        count = 1
        for d in t["shape"]:
            count *= d
        first = 8 + n + t["data_offsets"][0]
        out[name] = torch.frombuffer(data, dtype=torch.bfloat16, count=count, offset=first).reshape(t["shape"])
    return out


def norm(x, w, eps):
    y = x.float()
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * w


class Llama:
    def __init__(self, dir, room):
        with open(dir + "/config.json") as f:
            self.c = c = json.load(f)
        self.w = weights(dir + "/model.safetensors")
        self.heads, self.kv = c["num_attention_heads"], c["num_key_value_heads"]
        self.dim = c["hidden_size"] // self.heads
        self.cache = [torch.zeros(2, self.kv, room, self.dim, dtype=torch.bfloat16) for _ in range(c["num_hidden_layers"])]
        freq = c.get("rope_theta", 1e4) ** (-torch.arange(0, self.dim, 2).float() / self.dim)
        angle = torch.outer(torch.arange(room).float(), freq)
        self.cos, self.sin = torch.cat((angle.cos(),) * 2, -1), torch.cat((angle.sin(),) * 2, -1)

    def turn(self, x, at):
        n, h = x.shape[1], self.dim // 2
        cos, sin = self.cos[at:at + n].to(x.dtype), self.sin[at:at + n].to(x.dtype)
        return x * cos + torch.cat((-x[..., h:], x[..., :h]), -1) * sin

    def run(self, ids, at):
        w, eps = self.w, self.c["rms_norm_eps"]
        x = F.embedding(ids, w["model.embed_tokens.weight"])
        n = len(ids)
        for i, cache in enumerate(self.cache):
            p = f"model.layers.{i}."
            h = norm(x, w[p + "input_layernorm.weight"], eps)
            q, k, v = (F.linear(h, w[p + f"self_attn.{s}_proj.weight"]).view(n, -1, self.dim).transpose(0, 1) for s in "qkv")
            q, k = self.turn(q, at), self.turn(k, at)
            cache[0, :, at:at + n], cache[1, :, at:at + n] = k, v
            each = self.heads // self.kv
            k, v = (cache[j, :, :at + n].repeat_interleave(each, 0) for j in (0, 1))
            scores = (q @ k.transpose(1, 2)).float() * self.dim ** -0.5
            if n > 1:
                scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
            a = scores.softmax(-1).to(x.dtype) @ v
            x = x + F.linear(a.transpose(0, 1).reshape(n, -1), w[p + "self_attn.o_proj.weight"])
            h = norm(x, w[p + "post_attention_layernorm.weight"], eps)
            g = F.silu(F.linear(h, w[p + "mlp.gate_proj.weight"])) * F.linear(h, w[p + "mlp.up_proj.weight"])
            x = x + F.linear(g, w[p + "mlp.down_proj.weight"])
        x = norm(x[-1:], w["model.norm.weight"], eps)
        return F.linear(x, w.get("lm_head.weight", w["model.embed_tokens.weight"])).argmax(-1)


def main():
    dir, threads, prompt, tokens = sys.argv[1], *map(int, sys.argv[2:5])
    torch.set_num_threads(threads)
    with torch.inference_mode():
        m = Llama(dir, prompt + tokens + 1)
        ids = torch.tensor([31 * j % m.c["vocab_size"] for j in range(prompt)])
        began = time.perf_counter()
        m.run(ids, 0)
        prefill = prompt / (time.perf_counter() - began)
        last = torch.tensor([1])
        began = time.perf_counter()
        for i in range(tokens):
            last = m.run(last, prompt + i)
        print(json.dumps({"prefill": prefill, "decode": tokens / (time.perf_counter() - began)}))


main()
