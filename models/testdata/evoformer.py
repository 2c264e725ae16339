"""Records a block of AlphaFold's Evoformer [Jumper et al. 2021, algorithm 6] in plain PyTorch and float64, with the
outer product at the end, so that the branches of sequences and pairs do not depend on each other within a block.
Run: python3 evoformer.py OUT"""
import os, sys
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

torch.manual_seed(11)
S, R, CM, CZ, HEADS, C, TRI, OPM, EXPAND = 3, 5, 8, 6, 2, 4, 4, 3, 2  # sequences, residues, widths
P = {}


def linear(name, x, out, bias=True):
    w = P.setdefault(name + ".weight", (0.4 * torch.randn(out, x.shape[-1])).double().requires_grad_())
    y = x @ w.T
    if bias:
        y = y + P.setdefault(name + ".bias", (0.2 * torch.randn(out)).double().requires_grad_())
    return y


def norm(name, x):
    n = x.shape[-1]
    w = P.setdefault(name + ".weight", (1 + 0.2 * torch.randn(n)).double().requires_grad_())
    b = P.setdefault(name + ".bias", (0.2 * torch.randn(n)).double().requires_grad_())
    return F.layer_norm(x, (n,), w, b, 1e-5)


def heads(x):
    return x.reshape(*x.shape[:-1], HEADS, C)


def attention(name, x, bias):
    """Gated attention over the last dim but one of x [..., n, width]; bias [heads, n, n] or None."""
    q, k, v = (heads(linear(f"{name}.{n}", x, HEADS * C, False)) for n in ("q", "k", "v"))
    scores = torch.einsum("...ihc,...jhc->...hij", q, k) / C ** 0.5
    if bias is not None:
        scores = scores + bias
    out = torch.einsum("...hij,...jhc->...ihc", scores.softmax(-1), v)
    gate = torch.sigmoid(heads(linear(f"{name}.gate", x, HEADS * C)))
    return linear(f"{name}.o", (gate * out).flatten(-2), x.shape[-1])


def row_attention(m, z):
    bias = linear("msa_row.pair", norm("msa_row.pair_norm", z), HEADS, False).permute(2, 0, 1)
    return attention("msa_row", norm("msa_row.norm", m), bias)


def column_attention(m):
    x = norm("msa_column.norm", m).transpose(-2, -3)
    return attention("msa_column", x, None).transpose(-2, -3)


def transition(name, x):
    return linear(f"{name}.down", F.relu(linear(f"{name}.up", norm(f"{name}.norm", x), EXPAND * x.shape[-1])), x.shape[-1])


def outer_product_mean(m):
    x = norm("outer.norm", m)
    a, b = linear("outer.a", x, OPM), linear("outer.b", x, OPM)
    o = torch.einsum("sic,sjd->ijcd", a, b).flatten(-2) / S
    return linear("outer.o", o, CZ)


def triangle_update(name, z, equation):
    x = norm(f"{name}.norm", z)
    a = torch.sigmoid(linear(f"{name}.a_gate", x, TRI)) * linear(f"{name}.a", x, TRI)
    b = torch.sigmoid(linear(f"{name}.b_gate", x, TRI)) * linear(f"{name}.b", x, TRI)
    g = torch.sigmoid(linear(f"{name}.gate", x, CZ))
    return g * linear(f"{name}.o", norm(f"{name}.out_norm", torch.einsum(equation, a, b)), CZ)


def triangle_attention(name, z):
    x = norm(f"{name}.norm", z)
    bias = linear(f"{name}.pair", x, HEADS, False).permute(2, 0, 1)
    return attention(name, x, bias)


def block(m, z):
    n = m + row_attention(m, z)
    n = n + column_attention(n)
    n = n + transition("msa_transition", n)
    y = z + triangle_update("triangle_out", z, "ikc,jkc->ijc")
    y = y + triangle_update("triangle_in", y, "kic,kjc->ijc")
    y = y + triangle_attention("triangle_start", y)
    y = y + triangle_attention("triangle_end", y.transpose(0, 1)).transpose(0, 1)
    y = y + transition("pair_transition", y)
    return n, y + outer_product_mean(n)


m = torch.randn(S, R, CM, dtype=torch.float64, requires_grad=True)
z = torch.randn(R, R, CZ, dtype=torch.float64, requires_grad=True)
n, y = block(m, z)
loss = (n ** 2).mean() + (y ** 2).mean()
loss.backward()
tensors = {"m": m, "z": z, "msa": n, "pair": y, "loss": loss[None], "grad.m": m.grad, "grad.z": z.grad}
for name, p in P.items():
    tensors["param." + name], tensors["grad." + name] = p, p.grad
os.makedirs(sys.argv[1], exist_ok=True)
save_file({k: v.detach().contiguous() for k, v in tensors.items()}, os.path.join(sys.argv[1], "evoformer.safetensors"))
