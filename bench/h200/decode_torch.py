# Decoding in PyTorch on one GPU: a Llama with random weights, a static cache and a compiled step, in bf16 and
# with int8 weights (a scale for each row); then transformers' generate, if it is installed. A JSON object a line.
#   python3 decode_torch.py [sequences...]
import json, sys, time
import torch, torch.nn.functional as F

V, L, D, H, KV, FF, HD = 128256, 32, 4096, 32, 8, 14336, 128
PROMPT, STEPS = 128, 64
torch.set_float32_matmul_precision("high")


class Linear(torch.nn.Module):
    def __init__(self, inp, out, int8):
        super().__init__()
        w = torch.randn(out, inp, device="cuda", dtype=torch.bfloat16) * 0.02
        self.int8 = int8
        if int8:
            s = w.abs().amax(1, keepdim=True).float() / 127
            self.register_buffer("w", (w.float() / s).round().to(torch.int8))
            self.register_buffer("s", s[:, 0].to(torch.bfloat16))
        else:
            self.register_buffer("w", w)

    def forward(self, x):
        return F.linear(x, self.w.to(x.dtype)) * self.s if self.int8 else F.linear(x, self.w)


class Layer(torch.nn.Module):
    def __init__(self, batch, length, int8):
        super().__init__()
        self.qkv, self.o = Linear(D, D + 2 * KV * HD, int8), Linear(D, D, int8)
        self.gate, self.up, self.down = Linear(D, FF, int8), Linear(D, FF, int8), Linear(FF, D, int8)
        for n in ("n1", "n2"):
            self.register_buffer(n, torch.ones(D, device="cuda", dtype=torch.bfloat16))
        for n in ("k", "v"):
            self.register_buffer(n, torch.zeros(batch, KV, length, HD, device="cuda", dtype=torch.bfloat16))

    def forward(self, x, pos, mask, cos, sin):
        b = x.shape[0]
        q, k, v = self.qkv(F.rms_norm(x, (D,), self.n1, 1e-5)).split([D, KV * HD, KV * HD], -1)
        turn = lambda t, n: rotate(t.view(b, 1, n, HD), cos, sin).transpose(1, 2)
        q, k, v = turn(q, H), turn(k, KV), v.view(b, 1, KV, HD).transpose(1, 2)
        self.k[:, :, pos], self.v[:, :, pos] = k, v
        y = F.scaled_dot_product_attention(q, self.k, self.v, attn_mask=mask, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, 1, D))
        h = F.rms_norm(x, (D,), self.n2, 1e-5)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def rotate(t, cos, sin):
    a, b = t.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(t.dtype)


class Model(torch.nn.Module):
    def __init__(self, batch, length, int8):
        super().__init__()
        self.table = torch.randn(V, D, device="cuda", dtype=torch.bfloat16) * 0.02
        self.layers = torch.nn.ModuleList(Layer(batch, length, int8) for _ in range(L))
        self.head, self.norm = Linear(D, V, int8), torch.ones(D, device="cuda", dtype=torch.bfloat16)
        self.length, self.rates = length, 500000.0 ** (-torch.arange(0, HD, 2, device="cuda") / HD)

    def forward(self, ids, pos):
        x = self.table[ids]
        t = pos.float()[:, None] * self.rates[None]
        cos, sin = t.cos()[None, :, None], t.sin()[None, :, None]
        mask = (torch.arange(self.length, device="cuda")[None] <= pos[:, None])[None, None]
        for layer in self.layers:
            x = layer(x, pos, mask, cos, sin)
        return self.head(F.rms_norm(x, (D,), self.norm, 1e-5)).argmax(-1)


@torch.no_grad()
def bench(batch, context, int8):
    m = Model(batch, context + STEPS + 32, int8)
    step = torch.compile(m, mode="reduce-overhead", fullgraph=True)
    ids, pos = torch.ones(batch, 1, dtype=torch.long, device="cuda"), torch.tensor([context], device="cuda")
    for _ in range(8):
        ids = step(ids, pos).clone()
    torch.cuda.synchronize()
    t = time.time()
    for _ in range(STEPS):
        ids = step(ids, pos).clone()
        pos += 1
    torch.cuda.synchronize()
    s = (time.time() - t) / STEPS
    print(json.dumps(dict(what="torch.compile", weights="int8" if int8 else "bf16", sequences=batch,
                          context=context, ms=round(s * 1e3, 3), tokens_per_s=round(batch / s, 1))), flush=True)
    del m, step
    torch._dynamo.reset()
    torch.cuda.empty_cache()


@torch.no_grad()
def generate():
    from transformers import LlamaConfig, LlamaForCausalLM
    c = LlamaConfig(vocab_size=V, hidden_size=D, intermediate_size=FF, num_hidden_layers=L, num_attention_heads=H,
                    num_key_value_heads=KV, eos_token_id=None, pad_token_id=0)
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        m = LlamaForCausalLM(c).eval()
    ids = torch.ones(1, PROMPT, dtype=torch.long, device="cuda")
    for _ in range(2):
        torch.cuda.synchronize()
        t = time.time()
        m.generate(ids, max_new_tokens=STEPS, min_new_tokens=STEPS, do_sample=False)
        torch.cuda.synchronize()
        s = time.time() - t
    print(json.dumps(dict(what="transformers generate", sequences=1, tokens_per_s=round(STEPS / s, 1))), flush=True)


x = torch.empty(1 << 31, dtype=torch.int32, device="cuda").fill_(1)
for _ in range(2):
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record(); x.max(); b.record(); torch.cuda.synchronize()
print(json.dumps(dict(what="read of memory", gb_per_s=round(x.numel() * 4 / a.elapsed_time(b) / 1e6))), flush=True)
del x
torch.cuda.empty_cache()
bench(1, PROMPT, False)
bench(1, PROMPT, True)
bench(64, 1024, False)
try:
    generate()
except Exception as e:
    print("transformers:", e)
