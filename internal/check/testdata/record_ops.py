"""Records random cases of every op that `galley check ops` knows, computed by PyTorch.

    python record_ops.py OUT [--count 20000] [--parts 4] [--seed 1]

Each part is a directory OUT/N with ops.json and ops.safetensors, as internal/check/testdata/README.md says. Inputs are
float32, int32, int64 or bool; results are computed in float64 from those inputs. A case that PyTorch refuses is left out,
and so is one that float32 cannot compute well: PyTorch's own float32 results are compared with float64.
"""
import argparse
import json
import math
import multiprocessing
import os
import random
import struct
from collections import Counter

import torch
import torch.nn.functional as F

SPECIAL = [math.nan, math.inf, -math.inf, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 30.0, -30.0]


class Gen:
    """Random sizes and numbers of one case. kind: normal, edge (dims of 0 and 1) or nonfinite."""

    def __init__(self, seed, kind):
        self.r = random.Random(seed)
        self.t = torch.Generator().manual_seed(seed)
        self.kind = kind
        self.ties = kind != "edge" and self.r.random() < 0.2

    def dim(self, low=1, high=4):
        if self.kind == "edge":
            return self.r.choice([0, 1, 1, 2, 3])
        return self.r.randint(low, high)

    def shape(self, low=0, high=4):
        return [self.dim() for _ in range(self.r.randint(low, high))]

    def floats(self, shape, low=None, high=None, plain=False):
        """Normal numbers, or uniform ones between low and high; plain ones have no ties and are finite."""
        x = torch.randn(shape, generator=self.t)
        if low is not None and self.kind != "nonfinite":
            return torch.rand(shape, generator=self.t) * (high - low) + low
        if plain:
            return x
        if self.ties:
            x = x.round()
        if self.kind == "nonfinite" and x.numel():
            flat = x.view(-1)
            for i in range(flat.numel()):
                if self.r.random() < 0.35:
                    flat[i] = self.r.choice(SPECIAL)
        return x

    def ints(self, shape, low, high, dtype=torch.int32):
        if high <= low and math.prod(shape):
            raise ValueError("no index fits")
        return torch.randint(low, max(high, low + 1), shape, generator=self.t, dtype=dtype)

    def bools(self, shape):
        return torch.rand(shape, generator=self.t) < 0.5

    def pick(self, options):
        return self.r.choice(options)

    def coin(self, p=0.5):
        return self.r.random() < p

    def dims(self, rank, least=1):
        """Some dims, positive or counted from the last."""
        if rank == 0:
            return []
        chosen = sorted(self.r.sample(range(rank), self.r.randint(min(least, rank), rank)))
        return [d - rank if self.coin(0.3) else d for d in chosen]

    def one(self, rank):
        d = self.r.randrange(rank)
        return d - rank if self.coin(0.3) else d

    def broadcast(self):
        """Two shapes that broadcast together."""
        whole = self.shape(0, 3)
        return [self.part(whole), self.part(whole)] if self.coin() else [whole, whole]

    def part(self, whole):
        s = [1 if self.coin(0.25) else n for n in whole]
        while s and self.coin(0.2):
            s = s[1:]
        return s


OPS = {}
CALLED = {}


def op(*names, weight=1, finite=False, hvp=True):
    """Registers a function from a Gen to (attrs, inputs, function of the inputs)."""

    def register(f):
        for name in names:
            OPS[name] = (lambda g, name=name, f=f: f(g, name), weight, finite, hvp)
        return f

    return register


def positive(f, low, high):
    return lambda g, _: ({}, [g.floats(g.shape(), low, high)], lambda x: [f(x)])


for name, f in {
    "exp": torch.exp, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu, "silu": F.silu, "sin": torch.sin,
    "cos": torch.cos, "abs": torch.abs, "neg": torch.neg, "erf": torch.erf, "square": torch.square, "expm1": torch.expm1,
    "softplus": F.softplus, "sign": torch.sign, "floor": torch.floor, "ceil": torch.ceil, "round": torch.round,
    "isfinite": torch.isfinite,
}.items():
    op(name)(lambda g, _, f=f: ({}, [g.floats(g.shape())], lambda x: [f(x)]))
for name, f in {"log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal}.items():
    op(name)(positive(f, 0.3, 3))
op("log1p")(positive(torch.log1p, -0.7, 3))


@op("logical_not")
def _(g, _):
    return {}, [g.bools(g.shape())], lambda x: [~x]


@op("add", "sub", "mul", "maximum", "minimum", "swiglu", weight=2)
def _(g, name):
    a, b = g.broadcast()
    if name == "swiglu":
        a = b
    f = {"swiglu": lambda x, y: F.silu(x) * y}.get(name) or getattr(torch, name)
    if name != "swiglu" and g.coin(0.2):
        return {}, [g.ints(a, -9, 9), g.ints(b, -9, 9)], lambda x, y: [f(x, y)]
    return {}, [g.floats(a), g.floats(b)], lambda x, y: [f(x, y)]


@op("div")
def _(g, _):
    a, b = g.broadcast()
    return {}, [g.floats(a), g.floats(b, 0.5, 2)], lambda x, y: [x / y]


@op("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
def _(g, name):
    f = {"equal": torch.eq, "not_equal": torch.ne}.get(name) or getattr(torch, name)
    a, b = g.broadcast()
    make = (lambda s: g.ints(s, -3, 3)) if g.coin(0.4) else g.floats
    return {}, [make(a), make(b)], lambda x, y: [f(x, y)]


@op("logical_and", "logical_or", "logical_xor")
def _(g, name):
    a, b = g.broadcast()
    return {}, [g.bools(a), g.bools(b)], lambda x, y: [getattr(torch, name)(x, y)]


@op("remainder")
def _(g, _):
    a, b = g.broadcast()
    y = g.ints(b, 1, 6) * torch.where(g.bools(b), 1, -1).int()
    return {}, [g.ints(a, -20, 20), y], lambda x, y: [torch.remainder(x, y)]


@op("gelu")
def _(g, _):
    how = g.pick(["none", "tanh"])
    return {"approximate": how}, [g.floats(g.shape())], lambda x: [F.gelu(x, approximate=how)]


@op("pow")
def _(g, _):
    p = g.pick([2.0, 3.0, 1.0, 0.0, 0.5, -1.0, 1.7])
    low = (0.3, 3) if p not in (2.0, 3.0, 1.0, 0.0) else (None, None)
    return {"exponent": p}, [g.floats(g.shape(), *low)], lambda x: [torch.pow(x, p)]


@op("where")
def _(g, _):
    a, b = g.broadcast()
    return {}, [g.bools(a), g.floats(a), g.floats(b)], lambda c, x, y: [torch.where(c, x, y)]


@op("clamp")
def _(g, _):
    attrs = {}
    if g.coin(0.8):
        attrs["min"] = g.pick([-1.0, 0.0, -0.5])
    if g.coin(0.8) or not attrs:
        attrs["max"] = g.pick([0.0, 1.0, 0.25])
    if g.coin(0.2):
        attrs = {k: float(math.floor(v)) for k, v in attrs.items()}
        return attrs, [g.ints(g.shape(), -4, 4)], lambda x: [
            torch.clamp(x, **{k: int(v) for k, v in attrs.items()})]
    return attrs, [g.floats(g.shape())], lambda x: [torch.clamp(x, **attrs)]


@op("tril", "triu")
def _(g, name):
    d = g.r.randint(-4, 4)
    s = g.shape(2, 4)
    x = g.ints(s, -9, 9) if g.coin(0.2) else g.floats(s)
    return {"diagonal": d}, [x], lambda x: [getattr(torch, name)(x, d)]


@op("one_hot")
def _(g, _):
    n = g.r.randint(1, 6)
    return {"num_classes": n}, [g.ints(g.shape(), 0, n)], lambda x: [F.one_hot(x.long(), n)]


@op("sum", "mean", "amax", "amin", "prod", "logsumexp", "var", "any", "all", weight=3)
def _(g, name):
    s = g.shape(1 if name in ("logsumexp", "var") else 0, 4)
    dims = g.dims(len(s)) if g.coin(0.8) or name == "logsumexp" else []
    keep = g.coin() and bool(dims)
    attrs = {"dim": dims or None, "keepdim": keep}
    if name in ("any", "all"):
        x = g.bools(s)
    elif name in ("sum", "prod", "amax", "amin") and g.coin(0.2):
        x = g.ints(s, -3, 4)
    else:
        x = g.floats(s)
    if name == "var":
        attrs["unbiased"] = g.coin()

    def f(x):
        if name == "var":
            return [torch.var(x, dim=dims or None, unbiased=attrs["unbiased"], keepdim=keep)]
        if name == "prod":
            over = sorted((d % len(s) for d in dims or range(len(s))), reverse=True)
            for d in over:
                x = torch.prod(x, d, keepdim=keep)
            return [x]
        if not dims:
            return [torch.logsumexp(x, list(range(len(s)))) if name == "logsumexp" else getattr(torch, name)(x)]
        return [getattr(torch, name)(x, dims, keepdim=keep)]

    return attrs, [x], f


@op("norm", weight=2)
def _(g, _):
    s = g.shape(1, 3)
    dims = g.dims(len(s))
    p = g.pick([1.0, 2.0, 3.0, "inf", "-inf", 0.0])
    keep = g.coin()
    x = g.floats(s, 0.3, 3) if p == 3.0 else g.floats(s)
    attrs = {"p": p, "dim": dims, "keepdim": keep}
    return attrs, [x], lambda x: [torch.linalg.vector_norm(x, float(p), dim=dims, keepdim=keep)]


@op("argmax", "argmin", weight=2)
def _(g, name):
    s = g.shape(1, 4)
    d = g.one(len(s))
    x = g.ints(s, -5, 5) if g.coin(0.3) else g.floats(s)
    return {"dim": d}, [x], lambda x: [getattr(torch, name)(x, d)]


@op("cumsum")
def _(g, _):
    s = g.shape(1, 4)
    d = g.one(len(s))
    x = g.ints(s, -5, 5) if g.coin(0.3) else g.floats(s)
    return {"dim": d}, [x], lambda x: [torch.cumsum(x, d)]


@op("cummax", "cummin")
def _(g, name):
    s = g.shape(1, 4)
    d = g.one(len(s))
    return {"dim": d}, [g.floats(s)], lambda x: list(getattr(torch, name)(x, d))


@op("slice")
def _(g, _):
    s = g.shape(1, 4)
    start, end, step = [], [], []
    for n in s:
        a = g.r.randint(0, n)
        b = g.r.randint(a, n)
        start.append(a), end.append(b), step.append(g.r.randint(1, 3))
    x = g.ints(s, -9, 9) if g.coin(0.2) else g.floats(s)
    at = tuple(slice(a, b, c) for a, b, c in zip(start, end, step))
    return {"start": start, "end": end, "step": step}, [x], lambda x: [x[at].clone()]


@op("concat", "stack")
def _(g, name):
    s = g.shape(1, 3)
    n = g.r.randint(1, 4)
    d = g.one(len(s) + (name == "stack"))
    shapes = [list(s) for _ in range(n)]
    if name == "concat":
        for t in shapes:
            t[d] = g.dim()
    f = torch.cat if name == "concat" else torch.stack
    return {"dim": d}, [g.floats(t) for t in shapes], lambda *x: [f(x, d)]


@op("split")
def _(g, _):
    s = g.shape(1, 3)
    d = g.one(len(s))
    sizes = [g.r.randint(0, 3) for _ in range(g.r.randint(1, 4))]
    s[d] = sum(sizes)
    return {"dim": d, "sizes": sizes}, [g.floats(s)], lambda x: list(torch.split(x, sizes, d))


@op("transpose")
def _(g, _):
    s = g.shape(1, 4)
    perm = g.r.sample(range(len(s)), len(s))
    perm = [p - len(s) if g.coin(0.3) else p for p in perm]
    x = g.ints(s, -9, 9) if g.coin(0.2) else g.floats(s)
    return {"perm": perm}, [x], lambda x: [x.permute(perm).clone()]


@op("reshape")
def _(g, _):
    s = g.shape(0, 4)
    n = math.prod(s)
    if n == 0:
        to = g.r.sample(s, len(s))
    else:
        a = g.pick([d for d in range(1, n + 1) if n % d == 0])
        to = g.pick([[n], [a, n // a], [-1, a], [a, 1, -1]])
    return {"shape": to}, [g.floats(s)], lambda x: [x.reshape(to)]


@op("expand")
def _(g, _):
    to = g.shape(0, 4)
    return {"shape": to}, [g.floats(g.part(to))], lambda x: [x.expand(to).clone()]


@op("tile")
def _(g, _):
    s = g.shape(1, 3)
    reps = [g.r.randint(0, 3) for _ in s]
    return {"reps": reps}, [g.floats(s)], lambda x: [x.repeat(reps)]


@op("pad")
def _(g, _):
    s = g.shape(1, 3)
    low, high = [g.r.randint(0, 2) for _ in s], [g.r.randint(0, 2) for _ in s]
    v = g.pick([0.0, 0.5, -1.0])
    flat = [n for a, b in zip(reversed(low), reversed(high)) for n in (a, b)]
    return {"low": low, "high": high, "value": v}, [g.floats(s)], lambda x: [F.pad(x, flat, value=v)]


@op("flip")
def _(g, _):
    s = g.shape(1, 4)
    d = g.dims(len(s))
    return {"dim": d}, [g.floats(s)], lambda x: [torch.flip(x, d)]


@op("roll")
def _(g, _):
    s = g.shape(1, 3)
    d = g.dims(len(s))
    shift = [g.r.randint(-7, 7) for _ in d]
    return {"shift": shift, "dim": d}, [g.floats(s)], lambda x: [torch.roll(x, shift, d)]


@op("sort", weight=2)
def _(g, _):
    s = g.shape(1, 3)
    d, down = g.one(len(s)), g.coin()
    x = g.ints(s, -5, 5) if g.coin(0.2) else g.floats(s)
    return {"dim": d, "descending": down}, [x], lambda x: list(torch.sort(x, dim=d, descending=down, stable=True))


def unequal(g, s, d):
    """Numbers without ties along dim d, for results that depend on the order of equal ones."""
    x = torch.randn(s, generator=g.t)
    if g.kind == "nonfinite" and s[d]:
        lines = x.movedim(d, -1)
        flat = lines.reshape(-1, s[d]).clone()
        for line in flat.unbind():
            for v in g.r.sample([math.nan, math.inf, -math.inf], g.r.randint(0, min(3, s[d]))):
                line[g.r.randrange(s[d])] = v
        x = flat.reshape(lines.shape).movedim(-1, d).contiguous()
    return x


@op("topk", weight=2)
def _(g, _):
    s = g.shape(1, 3)
    d = g.one(len(s))
    k = g.r.randint(0, s[d])
    return {"k": k, "dim": d}, [unequal(g, s, d)], lambda x: list(torch.topk(x, k, dim=d))


@op("embedding")
def _(g, _):
    n = g.r.randint(1, 5)
    row = g.shape(1, 1)
    return {}, [g.ints(g.shape(0, 3), 0, n), g.floats([n] + row)], lambda i, t: [F.embedding(i, t)]


@op("take_along_dim")
def _(g, _):
    s = g.shape(1, 3)
    d = g.one(len(s))
    at = list(s)
    at[d] = g.dim()
    return {"dim": d}, [g.floats(s), g.ints(at, 0, s[d])], lambda x, i: [torch.take_along_dim(x, i.long(), d)]


@op("index_select")
def _(g, _):
    s = g.shape(1, 3)
    d = g.one(len(s))
    x = g.ints(s, -9, 9) if g.coin(0.2) else g.floats(s)
    return {"dim": d}, [x, g.ints([g.dim()], 0, s[d])], lambda x, i: [torch.index_select(x, d, i)]


@op("index_add")
def _(g, _):
    s = g.shape(1, 3)
    d = g.one(len(s))
    n = g.dim()
    src = list(s)
    src[d] = n
    return {"dim": d}, [g.floats(s), g.ints([n], 0, s[d]), g.floats(src)], lambda x, i, y: [torch.index_add(x, d, i, y)]


@op("scatter_add")
def _(g, _):
    s = g.shape(1, 3)
    d = g.one(len(s))
    src = list(s)
    src[d] = g.dim()
    return {"dim": d}, [g.floats(s), g.ints(src, 0, s[d]), g.floats(src)], lambda x, i, y: [
        torch.scatter_add(x, d, i.long(), y)]


@op("matmul", weight=3)
def _(g, _):
    m, n, k = g.dim(), g.dim(), g.dim()
    ta, tb = g.coin(0.3), g.coin(0.3)
    a, b = ([k, m] if ta else [m, k]), ([n, k] if tb else [k, n])
    lead = g.pick([([], []), (None, None), (None, []), ([], None)])
    batch = g.shape(1, 2)
    a = (batch if lead[0] is None else []) + a
    b = (batch if lead[1] is None else []) + b
    attrs = {}
    if ta or tb:
        attrs = {"transpose_a": ta, "transpose_b": tb}
    make = (lambda s: g.ints(s, -4, 4)) if g.coin(0.15) else g.floats
    turn = lambda x, t: x.transpose(-1, -2) if t else x
    return attrs, [make(a), make(b)], lambda x, y: [torch.matmul(turn(x, ta), turn(y, tb))]


@op("einsum", weight=3)
def _(g, _):
    letters = "abcde"
    sizes = {c: g.dim(1, 4) for c in letters}
    words = ["".join(g.r.sample(letters, g.r.randint(0, 3))) for _ in range(g.pick([1, 2, 2, 3, 4]))]
    used = sorted(set("".join(words)))
    out = "".join(g.r.sample(used, g.r.randint(0, len(used))))
    eq = ",".join(words) + "->" + out
    xs = [g.floats([sizes[c] for c in w]) for w in words]
    return {"equation": eq}, xs, lambda *x: [torch.einsum(eq, *x)]


def conv(n):
    @op(f"conv{n}d", f"conv_transpose{n}d", finite=True)
    def _(g, name):
        turned = "transpose" in name
        groups = g.pick([1, 1, 1, 2])
        batch, cin, cout = g.dim(1, 2), g.r.randint(1, 2), g.r.randint(1, 2)
        kernel = [g.r.randint(1, 3) for _ in range(n)]
        stride = [g.r.randint(1, 3) for _ in range(n)]
        pad = [g.r.randint(0, 2) for _ in range(n)]
        dilate = [g.pick([1, 1, 2]) for _ in range(n)]
        size = [g.r.randint(1, 6 if n < 3 else 4) for _ in range(n)]
        attrs = {"stride": stride, "padding": pad, "dilation": dilate, "groups": groups}
        x = g.floats([batch, groups * cin] + size)
        w = g.floats([groups * cin, cout] + kernel) if turned else g.floats([groups * cout, cin] + kernel)
        inputs = [x, w]
        if g.coin():
            inputs.append(g.floats([groups * cout]))
        if turned:
            extra = [g.r.randint(0, s - 1) for s in stride]
            attrs["output_padding"] = extra
            f = getattr(F, f"conv_transpose{n}d")
            return attrs, inputs, lambda x, w, b=None: [f(x, w, b, stride, pad, extra, groups, dilate)]
        f = getattr(F, f"conv{n}d")
        return attrs, inputs, lambda x, w, b=None: [f(x, w, b, stride, pad, dilate, groups)]


def pool(n):
    @op(f"max_pool{n}d", f"avg_pool{n}d")
    def _(g, name):
        kernel = [g.r.randint(1, 3) for _ in range(n)]
        stride = [g.r.randint(1, 3) for _ in range(n)]
        pad = [g.r.randint(0, k // 2) for k in kernel]
        size = [g.r.randint(1, 7 if n < 3 else 4) for _ in range(n)]
        x = g.floats([g.dim(1, 2), g.r.randint(1, 2)] + size, plain=name.startswith("max") and g.kind != "nonfinite")
        f = getattr(F, name)
        return {"kernel": kernel, "stride": stride, "padding": pad}, [x], lambda x: [f(x, kernel, stride, pad)]


for n in (1, 2, 3):
    conv(n)
    pool(n)


@op("softmax", "log_softmax", weight=2)
def _(g, name):
    s = g.shape(1, 3)
    d = g.one(len(s))
    return {"dim": d}, [g.floats(s)], lambda x: [getattr(F, name)(x, d)]


@op("layer_norm", "rms_norm", weight=2)
def _(g, name):
    s = g.shape(1, 3)
    eps = g.pick([1e-5, 1e-3, 1e-6])
    if name == "rms_norm":
        f = lambda x, w: [x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * w]
        return {"eps": eps}, [g.floats(s), g.floats(s[-1:], plain=True)], f
    f = lambda x, w, b: [F.layer_norm(x, x.shape[-1:], w, b, eps)]
    return {"eps": eps}, [g.floats(s), g.floats(s[-1:], plain=True), g.floats(s[-1:], plain=True)], f


@op("group_norm", "instance_norm", "batch_norm", "batch_norm_inference", weight=2)
def _(g, name):
    groups, per = g.r.randint(1, 3), g.r.randint(1, 2)
    c = groups * per
    s = [g.dim(1, 3), c] + g.shape(0 if name.startswith("batch") else 1, 2)
    eps = g.pick([1e-5, 1e-3])
    x, w, b = g.floats(s), g.floats([c], plain=True), g.floats([c], plain=True)
    if name == "group_norm":
        return {"eps": eps, "num_groups": groups}, [x, w, b], lambda x, w, b: [torch.group_norm(x, groups, w, b, eps)]
    if name == "instance_norm":
        return {"eps": eps}, [x, w, b], lambda x, w, b: [torch.group_norm(x, c, w, b, eps)]
    if name == "batch_norm":
        return {"eps": eps}, [x, w, b], lambda x, w, b: [
            torch.batch_norm(x, w, b, None, None, True, 0.0, eps, False)]
    m, v = g.floats([c], plain=True), torch.rand([c], generator=g.t) + 0.5
    along = [1, c] + [1] * (len(s) - 2)  # PyTorch does not differentiate by running statistics
    f = lambda x, m, v, w, b: [
        (x - m.view(along)) * torch.rsqrt(v + eps).view(along) * w.view(along) + b.view(along)]
    return {"eps": eps}, [x, m, v, w, b], f


@op("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", weight=2)
def _(g, name):
    s = g.shape(0, 3)
    attrs = {"reduction": g.pick(["mean", "sum", "none"])}
    kw = dict(attrs)
    if name == "smooth_l1_loss":
        kw["beta"] = attrs["beta"] = g.pick([1.0, 0.5, 0.0])
    if name == "huber_loss":
        kw["delta"] = attrs["delta"] = g.pick([1.0, 0.5, 2.0])
    return attrs, [g.floats(s), g.floats(s, plain=True)], lambda x, y: [getattr(F, name)(x, y, **kw)]


@op("binary_cross_entropy", "binary_cross_entropy_with_logits", weight=2)
def _(g, name):
    s = g.shape(0, 3)
    how = g.pick(["mean", "sum", "none"])
    y = torch.rand(s, generator=g.t) if g.coin() else g.bools(s).float()
    if name == "binary_cross_entropy":
        p = torch.rand(s, generator=g.t) * 0.9 + 0.05
        if g.kind == "nonfinite" and p.numel():
            p.view(-1)[0] = g.pick([0.0, 1.0])
        return {"reduction": how}, [p, y], lambda p, y: [F.binary_cross_entropy(p, y, reduction=how)]
    return {"reduction": how}, [g.floats(s), y], lambda x, y: [F.binary_cross_entropy_with_logits(x, y, reduction=how)]


@op("kl_div", weight=2)
def _(g, _):
    s = g.shape(1, 3)
    how, logs = g.pick(["mean", "sum", "none", "batchmean"]), g.coin()
    y = torch.rand(s, generator=g.t) + 0.05
    if not logs and y.numel() and g.coin(0.3):
        y.view(-1)[0] = 0.0
    return {"reduction": how, "log_target": logs}, [g.floats(s), y.log() if logs else y], lambda x, y: [
        F.kl_div(x, y, reduction=how, log_target=logs)]


def labels_of(g, lead, classes, ignore):
    labels = g.ints(lead, 0, classes)
    if ignore is not None and labels.numel():
        drop = torch.rand(lead, generator=g.t) < g.pick([0.3, 0.3, 1.1])
        labels = torch.where(drop, torch.tensor(ignore, dtype=labels.dtype), labels)
    return labels


def last_to_second(x):
    return x.reshape(-1, x.shape[-1])


@op("cross_entropy", "nll_loss", weight=4)
def _(g, name):
    lead, classes = g.shape(1, 2), g.r.randint(1, 5)
    how = g.pick(["mean", "sum", "none"])
    attrs = {"reduction": how}
    ignore = g.pick([None, -100, 0])
    kw = {"reduction": how}
    if ignore is not None:
        kw["ignore_index"] = attrs["ignore_index"] = ignore
    if name == "cross_entropy" and g.coin(0.4):
        kw["label_smoothing"] = attrs["label_smoothing"] = g.pick([0.1, 0.5, 1.0])

    def f(x, y):
        loss = getattr(F, name)(last_to_second(x), y.reshape(-1).long(), **kw)
        return [loss.reshape(y.shape) if how == "none" else loss]

    return attrs, [g.floats(lead + [classes]), labels_of(g, lead, classes, ignore)], f


@op("attention", weight=4, finite=True)
def _(g, _):
    b, sq, sk = g.dim(1, 2), g.dim(1, 4), g.dim(1, 4)
    groups, per, d, dv = g.r.randint(1, 2), g.r.randint(1, 2), g.r.randint(1, 4), g.r.randint(1, 4)
    causal, window = g.coin(), g.pick([0, 0, 1, 2])
    scale = g.pick([1.0, 0.5, 1 / math.sqrt(d)])
    attrs = {"causal": causal, "window": window, "scale": scale, "layout": "batch,seq,heads,dim"}

    def f(q, k, v):
        k, v = k.repeat_interleave(per, 2), v.repeat_interleave(per, 2)
        scores = torch.einsum("bshd,bthd->bhst", q, k) * scale
        at, key = torch.arange(sq)[:, None], torch.arange(sk)[None, :]
        seen = torch.ones(sq, sk, dtype=torch.bool)
        if causal:
            seen &= key <= at
        if window:
            seen &= (key <= at) & (key > at - window)
        rows = seen.any(-1, keepdim=True)
        scores = scores.masked_fill(~seen & rows, -math.inf)
        weights = torch.softmax(scores, -1) * rows
        return [torch.einsum("bhst,bthd->bshd", weights, v)]

    return attrs, [g.floats([b, sq, groups * per, d]), g.floats([b, sk, groups, d]), g.floats([b, sk, groups, dv])], f


@op("rope", finite=True)
def _(g, _):
    theta, style = g.pick([10000.0, 100.0]), g.pick(["half-split", "interleaved"])
    b, s, h, half = g.dim(1, 2), g.dim(1, 5), g.dim(1, 3), g.r.randint(1, 3)
    attrs = {"theta": theta, "style": style, "layout": "batch,seq,heads,dim"}

    def f(x):
        freqs = theta ** (-torch.arange(half, dtype=x.dtype) / half)
        angle = torch.arange(s, dtype=x.dtype)[:, None] * freqs
        cos, sin = angle.cos()[None, :, None, :], angle.sin()[None, :, None, :]
        if style == "half-split":
            a, c = x[..., :half], x[..., half:]
            return [torch.cat([a * cos - c * sin, c * cos + a * sin], -1)]
        a, c = x[..., 0::2], x[..., 1::2]
        return [torch.stack([a * cos - c * sin, c * cos + a * sin], -1).flatten(-2)]

    return attrs, [g.floats([b, s, h, 2 * half])], f


def differentiable(f, inputs):
    """The inputs that PyTorch differentiates by."""
    return [i for i, x in enumerate(inputs) if x.is_floating_point() and i not in getattr(f, "fixed", ())]


def evaluate(f, inputs, cts, vs, dtype, hvp):
    """Outputs, gradients and Hessian products in a dtype; None for what there is not."""
    xs = [x.detach().to(dtype, copy=True) if x.is_floating_point() else x for x in inputs]
    leaves = [xs[i].requires_grad_() for i in differentiable(f, inputs)]
    outs = f(*xs)
    total = [(o * c.to(dtype)).sum() for o, c in zip(outs, cts(outs)) if o.requires_grad]
    if not total or not leaves:
        return [o.detach() for o in outs], None, None
    grads = torch.autograd.grad(sum(total), leaves, create_graph=hvp, allow_unused=True)
    grads = [torch.zeros_like(x) if d is None else d for d, x in zip(grads, leaves)]
    products = None
    if hvp and any(d.requires_grad for d in grads):
        inner = sum((d * v.to(dtype)).sum() for d, v in zip(grads, vs(leaves)) if d.requires_grad)
        products = torch.autograd.grad(inner, leaves, allow_unused=True)
        products = [torch.zeros_like(x) if h is None else h.detach() for h, x in zip(products, leaves)]
    return [o.detach() for o in outs], [d.detach() for d in grads], products


def close(a, b):
    """Whether float32 results are those of float64, but for rounding."""
    if a.shape != b.shape:
        return False
    if not a.is_floating_point():
        return torch.equal(a.double(), b.double())
    b = b.float().double()
    a = a.double()
    same = (a == b) | (a.isnan() & b.isnan())
    fa, fb = a.isfinite(), b.isfinite()
    if not torch.equal(fa, fb) or not bool(same[~fb].all()):
        return False
    diff, norm = (a[fb] - b[fb]).norm(), b[fb].norm()
    return bool(diff <= 2e-6 * norm) or bool(norm == 0 and diff == 0)


class Writer:
    """Cases and tensors of one part."""

    def __init__(self):
        self.cases, self.names, self.chunks, self.at = [], {}, [], 0

    TYPES = {torch.float64: "F64", torch.float32: "F32", torch.int64: "I64", torch.int32: "I32", torch.bool: "BOOL"}

    def put(self, name, x):
        data = x.detach().contiguous().numpy(force=True).tobytes()
        self.names[name] = {"dtype": self.TYPES[x.dtype], "shape": list(x.shape), "data_offsets": [self.at, self.at + len(data)]}
        self.chunks.append(data)
        self.at += len(data)
        return name

    def save(self, folder):
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "ops.json"), "w") as out:
            out.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in self.cases) + "\n]\n")
        header = json.dumps(self.names, separators=(",", ":")).encode()
        header += b" " * (-len(header) % 8)
        with open(os.path.join(folder, "ops.safetensors"), "wb") as out:
            out.write(struct.pack("<Q", len(header)) + header + b"".join(self.chunks))


def record(w, name, seed, kind, count):
    make, _, finite, hvp = OPS[name]
    if finite and kind == "nonfinite":
        kind = "normal"
    g = Gen(seed, kind)
    attrs, inputs, f = make(g)
    hvp = hvp and kind != "nonfinite"
    made = {}

    def cts(outs):
        if "ct" not in made:
            made["ct"] = [torch.randn(o.shape, generator=g.t) for o in outs]
        return made["ct"]

    def vs(leaves):
        if "v" not in made:
            made["v"] = [torch.randn(x.shape, generator=g.t) for x in leaves]
        return made["v"]

    try:
        wide = evaluate(f, inputs, cts, vs, torch.float64, hvp)
    except RuntimeError:  # PyTorch may have no second derivative
        hvp = False
        wide = evaluate(f, inputs, cts, vs, torch.float64, hvp)
    narrow = evaluate(f, inputs, cts, vs, torch.float32, hvp)
    for a, b in zip(narrow, wide):
        if (a is None) != (b is None) or a is not None and not all(close(x, y) for x, y in zip(a, b)):
            raise ArithmeticError("float32 does not compute it")
    outs, grads, products = wide
    key = f"{count}."
    case = {"id": f"{count}-{kind}", "op": CALLED.get(name, name), "attrs": attrs,
            "inputs": [w.put(f"{key}i{i}", x) for i, x in enumerate(inputs)],
            "outputs": [w.put(f"{key}o{i}", x) for i, x in enumerate(outs)]}
    if grads is not None:
        floats = differentiable(f, inputs)
        case["cotangents"] = [[i, w.put(f"{key}c{i}", made["ct"][i])] for i, o in enumerate(outs) if o.is_floating_point()]
        case["grads"] = [[i, w.put(f"{key}g{i}", d)] for i, d in zip(floats, grads)]
    if products is not None:
        case["hvp"] = [[w.put(f"{key}v{i}", v), w.put(f"{key}h{i}", h)] for i, v, h in zip(floats, made["v"], products)]
    w.cases.append(case)


def part(args):
    out, index, first, count, seed = args
    torch.set_num_threads(1)
    names = [n for n, (_, weight, _, _) in OPS.items() for _ in range(weight)]
    w, skipped, kept, why = Writer(), Counter(), Counter(), {}
    tried = 0
    while len(w.cases) < count and tried < 8 * count:
        r = random.Random(seed * 1000003 + first + tried)
        name = names[(first + tried) % len(names)]
        kind = r.choices(["normal", "edge", "nonfinite"], [0.5, 0.25, 0.25])[0]
        tried += 1
        try:
            record(w, name, r.randrange(1 << 31), kind, first + len(w.cases))
            kept[name] += 1
        except Exception as e:  # a case that PyTorch refuses, or that float32 cannot compute
            skipped[name] += 1
            why.setdefault(name, Counter())[f"{type(e).__name__}: {str(e)[:100]}".replace("\n", " ")] += 1
    w.save(os.path.join(out, str(index)))
    return kept, skipped, why


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--count", type=int, default=20000)
    p.add_argument("--parts", type=int, default=4)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--processes", type=int, default=8)
    a = p.parse_args()
    each = a.count // a.parts
    jobs = [(a.out, i, i * 10 * each, each, a.seed) for i in range(a.parts)]
    with multiprocessing.get_context("spawn").Pool(a.processes) as pool:
        results = pool.map(part, jobs)
    kept, skipped = sum((r[0] for r in results), Counter()), sum((r[1] for r in results), Counter())
    print(f"PyTorch {torch.__version__}: {sum(kept.values())} cases, {sum(skipped.values())} left out")
    for name in OPS:
        whys = sum((r[2].get(name, Counter()) for r in results), Counter()).most_common(2)
        print(f"{name:34} {kept[name]:5} kept {skipped[name]:5} left out  " + "; ".join(f"{n}x {t}" for t, n in whys)[:150])


if __name__ == "__main__":
    main()
