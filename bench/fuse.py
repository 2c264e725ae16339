"""Functions in PyTorch's primitive ops, eagerly, beside `galley bench fuse`: rounds in turns, the best of each.

Run by bench/fuse.sh: fuse.py GALLEY ROUNDS ROWSxCOLS,... THREADS,...
"""
import json
import math
import subprocess
import sys
import time

import torch

GALLEY, ROUNDS = sys.argv[1], int(sys.argv[2])
SIZES = [tuple(map(int, s.split("x"))) for s in sys.argv[3].split(",")]
THREADS = [int(t) for t in sys.argv[4].split(",")]
GAIN = 4.0  # what every row should have over PyTorch


def rmsnorm(x, w):
    return (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w,)


def layernorm(x, w, b):
    d = x - x.mean(-1, keepdim=True)
    return (d * torch.rsqrt((d * d).mean(-1, keepdim=True) + 1e-5) * w + b,)


def softmax(x):
    e = torch.exp(x - x.amax(-1, keepdim=True).detach())
    return (e / e.sum(-1, keepdim=True),)


def gelu(x):
    t = torch.tanh((x + x * x * x * 0.044715) * math.sqrt(2 / math.pi))
    return (x * 0.5 * (t + 1),)


def swiglu(x, y):
    return (x * torch.sigmoid(x) * y,)


def adamw(w, g, m, v):
    m = m * 0.9 + g * 0.1
    v = v * 0.999 + g * g * 0.001
    step = m * 10.0 / (torch.sqrt(torch.abs(v * 1000.0)) + 1e-8)
    return (w - (step + w * 0.01) * 1e-3, m, v)


def crossentropy(x, shares):
    d = x - x.amax(-1, keepdim=True).detach()
    lse = torch.log(torch.exp(d).sum(-1, keepdim=True))
    return (-(shares * (d - lse)).sum(-1).mean(),)


def rope(x, cos, sin):
    a, b = x.chunk(2, -1)
    return (torch.cat((a * cos - b * sin, b * cos + a * sin), -1),)


def weights(n):
    return lambda rows, cols: [(rows, cols)] + [(cols,)] * n


def matrices(n):
    return lambda rows, cols: [(rows, cols)] * n


def heads(rows, cols):
    half = min(cols, 128) // 2
    return [(rows, max(1, cols // (2 * half)), 2 * half), (rows, 1, half), (rows, 1, half)]


# The function, shapes of its operands, and of how many of them gradients are taken, as internal/bench/fuse.go.
OPS = {
    "rmsnorm": (rmsnorm, weights(1), 2), "layernorm": (layernorm, weights(2), 3),
    "softmax": (softmax, matrices(1), 1), "gelu": (gelu, matrices(1), 1), "swiglu": (swiglu, matrices(2), 2),
    "adamw": (adamw, matrices(4), 0), "crossentropy": (crossentropy, matrices(2), 1), "rope": (rope, heads, 1),
}


def peer(name, rows, cols, grad, threads):
    """The best milliseconds of a round: of the processor with one thread, else those that pass."""
    torch.set_num_threads(threads)
    f, shapes, wrt = OPS[name]
    args = [torch.randn(s) for s in shapes(rows, cols)]
    for x in args[:wrt]:
        x.requires_grad_(grad)
    dy = torch.randn_like(f(*args)[0])
    clock = time.process_time if threads == 1 else time.perf_counter
    best = math.inf
    for _ in range(6):
        start = clock()
        if grad:
            torch.autograd.grad(f(*args)[0], args[:wrt], dy)
        else:
            with torch.no_grad():
                f(*args)
        best = min(best, (clock() - start) * 1e3)
    return best


def ours(name, rows, cols, grad, threads):
    cmd = [GALLEY, "bench", "fuse", "--op", name, "--rows", str(rows), "--cols", str(cols), "--threads",
           str(threads), "--runs", "3", "--json"]
    run = subprocess.run(cmd + (["--grad"] if grad else []), capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{' '.join(cmd)}: {run.stderr.strip()}")
    return json.loads(run.stdout)


def row(name, rows, cols, grad, threads):
    theirs, best = math.inf, {}
    for _ in range(ROUNDS):
        theirs = min(theirs, peer(name, rows, cols, grad, threads))
        r = ours(name, rows, cols, grad, threads)
        for k in ("apart_ms", "fused_ms", "hand_ms", "bound_ms"):
            if k in r:
                best[k] = min(best.get(k, math.inf), r[k])
        gb = r["fused_gb_s"] * r["fused_ms"]  # the bytes, in MB
    hand = f"{best['fused_ms'] / best['hand_ms']:6.2f}x" if "hand_ms" in best else "      –"
    gain = theirs / best["fused_ms"]
    print(f"{name + (' grad' if grad else ''):18} {rows}x{cols:<5} {threads:2} {theirs:9.2f} {best['apart_ms']:9.2f} "
          f"{best['fused_ms']:8.2f} {best['apart_ms'] / best['fused_ms']:7.2f}x {hand} {gain:7.2f}x "
          f"{gb / best['fused_ms']:7.1f} {gb / best['bound_ms']:7.1f}{'' if gain >= GAIN else '  < %gx' % GAIN}",
          flush=True)
    return gain >= GAIN


def main():
    print(f"PyTorch {torch.__version__}; milliseconds, the best of {ROUNDS} rounds in turns")
    print(f"{'function':18} {'size':10} thr   pytorch  op by op    loops    gain  of hand  pytorch    GB/s   bound")
    short = 0
    for rows, cols in SIZES:
        for threads in THREADS:
            for grad in (False, True):
                for name, (_, _, wrt) in OPS.items():
                    if wrt or not grad:
                        short += not row(name, rows, cols, grad, threads)
    print(f"{short} row(s) below {GAIN:g}x PyTorch" if short else f"all rows at least {GAIN:g}x PyTorch")


main()
