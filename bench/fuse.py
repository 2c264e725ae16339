"""All that loops must show, in one run: functions beside PyTorch's eager ops, whole steps with and without
loops, a physics-informed network, and how long loops take to make. Rounds are in turns, the best of each.

Run by bench/fuse.sh: fuse.py GALLEY ROUNDS ROWSxCOLS,... THREADS,... PARTS
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
PARTS = sys.argv[5].split(",")
GAIN = 4.0  # what every row should have over PyTorch
LARGE = 1 << 23  # elements from which on a round is long: there are fewer
SHORT = []  # what fell short


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


# The function, shapes of its operands, and of how many of them gradients are taken, as in
# internal/bench/fuse.go.
OPS = {
    "rmsnorm": (rmsnorm, weights(1), 2), "layernorm": (layernorm, weights(2), 3),
    "softmax": (softmax, matrices(1), 1), "gelu": (gelu, matrices(1), 1), "swiglu": (swiglu, matrices(2), 2),
    "adamw": (adamw, matrices(4), 0), "crossentropy": (crossentropy, matrices(2), 1),
    "rope": (rope, heads, 1),
}


def must(name, grad):
    """The least gain over op by op (negative: as a part of what bytes allow), and the most of by hand."""
    if name in ("softmax", "swiglu", "crossentropy"):
        return (5.0 if grad else -0.8), None
    if name == "rmsnorm" and not grad:
        return -0.9, 1.2
    return (6.0 if grad else 4.0), 1.6 if name == "adamw" else None if grad else 1.2


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
    for _ in range(4 if rows * cols >= LARGE else 6):
        start = clock()
        if grad:
            torch.autograd.grad(f(*args)[0], args[:wrt], dy)
        else:
            with torch.no_grad():
                f(*args)
        best = min(best, (clock() - start) * 1e3)
    return best


def galley(*args):
    """What a command prints as JSON, a line each."""
    run = subprocess.run([GALLEY, *args, "--json"], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"galley {' '.join(args)}: {run.stderr.strip()}")
    return [json.loads(line) for line in run.stdout.splitlines()]


def verdict(what, *shorts):
    """What a line falls short of, for its end; it is kept for the last lines, too."""
    shorts = [s for s in shorts if s]
    SHORT.extend(f"{what}: {s}" for s in shorts)
    return "  SHORT: " + ", ".join(shorts) if shorts else ""


def row(name, rows, cols, grad, threads):
    large = rows * cols >= LARGE
    theirs, best = math.inf, {}
    for _ in range(max(1, ROUNDS // 3) if large else ROUNDS):
        theirs = min(theirs, peer(name, rows, cols, grad, threads))
        r = galley("bench", "fuse", "--op", name, "--rows", str(rows), "--cols", str(cols), "--threads",
                   str(threads), "--runs", "1" if large else "3", *(["--grad"] if grad else []))[0]
        for k in ("apart_ms", "fused_ms", "hand_ms", "bound_ms"):
            if k in r:
                best[k] = min(best.get(k, math.inf), r[k])
        gb = r["fused_gb_s"] * r["fused_ms"]  # the bytes, in MB
    fused = best["fused_ms"]
    hand = fused / best["hand_ms"] if "hand_ms" in best else None
    gain, over = best["apart_ms"] / fused, theirs / fused
    least, most = must(name, grad)
    if least < 0:
        least *= -r["allowed"]
    label = name + (" grad" if grad else "")
    print(f"{label:18} {rows}x{cols:<5} {threads:2} {theirs:9.2f} {best['apart_ms']:9.2f} {fused:8.2f} "
          f"{gain:7.2f}x {r['allowed']:6.2f}x {f'{hand:6.2f}x' if hand else '      –'} {over:7.2f}x "
          f"{gb / fused:7.1f} {gb / best['bound_ms']:7.1f}" +
          verdict(f"{label} {rows}x{cols}, {threads} thread(s)",
                  gain < least and f"{gain:.2f}x over op by op, want {least:.2f}x",
                  hand and most and hand > most and f"{hand:.2f}x of by hand, want {most:.2f}x",
                  over < GAIN and f"{over:.2f}x PyTorch, want {GAIN:g}x"), flush=True)


def functions():
    print(f"PyTorch {torch.__version__}; ms, the best of rounds in turns; with one thread the processor's")
    print(f"{'function':18} {'size':10} thr   pytorch  op by op    loops    gain   bytes  of hand  "
          "pytorch    GB/s   bound")
    for rows, cols in SIZES:
        for threads in THREADS:
            for grad in (False, True):
                for name, (_, _, wrt) in OPS.items():
                    if wrt or not grad:
                        row(name, rows, cols, grad, threads)


def steps():
    """Training steps in primitive ops and in fused ones, each with and without loops."""
    print("\nsteps, one thread, ms: primitive ops without and with loops; fused ops the same; arenas, MB")
    ways = [(p, f) for p in (True, False) for f in ("off", "on")]
    for model in ("gpt2", "llama"):
        best, arena = {}, {}
        for _ in range(ROUNDS):
            for primitive, fuse in ways:
                r = galley("bench", "step", "--model", model, "--threads", "1", "--runs", "2",
                           f"--fuse={fuse}", *(["--primitive"] if primitive else []))[0]
                k = primitive, fuse
                best[k], arena[k] = min(best.get(k, math.inf), r["best_ms"]), r["peak_bytes"] / 1e6
        off, on, plain, loops = (best[k] for k in ways)
        print(f"{model:6} {off:8.1f} {on:8.1f} {off / on:6.2f}x {on / loops:6.2f}x of fused ops; "
              f"{plain:8.1f} {loops:8.1f} {loops / plain:7.3f}; {arena[ways[0]]:7.1f} {arena[ways[1]]:7.1f}" +
              verdict(f"step of {model}", off / on < 1.35 and f"{off / on:.2f}x over op by op, want 1.35x",
                      on / loops > 1.10 and f"{on / loops:.2f}x of fused ops, want 1.10x",
                      loops / plain > 1.01 and f"fused ops {loops / plain:.3f}x with loops, want 1.01x",
                      arena[ways[1]] > arena[ways[0]] and "the arena grows"), flush=True)


def burgers():
    """A physics-informed network beside PyTorch's gradients of gradients."""
    print("\nBurgers, ms of a step: series, gradients of gradients, PyTorch")
    for layers in ("8", "2"):
        for r in galley("bench", "burgers", "--points", "2048,10000", "--layers", layers, "--width", "20",
                        "--dtype", "f32,f64", "--threads", ",".join(map(str, THREADS)),
                        "--runs", str(ROUNDS + 1), "--python", sys.executable):
            what = f"2-20x{layers}-1, {r['points']} points, {r['dtype']}, {r['threads']} thread(s)"
            if "torch_ms" not in r:
                sys.exit(f"{what}: no PyTorch: {r['torch']}")
            over = r["torch_ms"] / min(r["series_ms"], r["grad_ms"])
            print(f"{what:46} {r['series_ms']:8.3f} {r['grad_ms']:8.3f} {r['torch_ms']:8.3f} {over:6.2f}x" +
                  verdict(what, over < 3 and f"{over:.2f}x PyTorch, want 3x"), flush=True)


def making():
    """How long the loops of a program take to make."""
    m = min((galley("bench", "fuse", "--nodes", "1600")[0] for _ in range(ROUNDS)), key=lambda m: m["ms"])
    print(f"\n{m['nodes']} ops, {m['loops']} loops: {m['ms']:.1f} ms of the processor, "
          f"{m['code_bytes']} bytes of code" +
          verdict("making loops", m["ms"] > 100 and f"{m['ms']:.0f} ms, want 100",
                  m["code_bytes"] > 1 << 20 and f"{m['code_bytes']} bytes, want 2^20"), flush=True)


def main():
    start = time.time()
    for part in PARTS:
        {"functions": functions, "steps": steps, "burgers": burgers, "compile": making}[part]()
    end = f"{len(SHORT)} figure(s) fell short:" if SHORT else "all shown"
    print(f"\n{time.time() - start:.0f} s; {end}")
    for line in SHORT:
        print("  " + line)


main()
