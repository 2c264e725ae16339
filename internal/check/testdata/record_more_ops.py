"""Records random cases of further ops and options, as record_ops.py does of the first ones.

    python record_more_ops.py OUT [--count 800] [--parts 1] [--seed 1]
"""
import math

import torch
import torch.nn.functional as F

import record_ops
from record_ops import op

record_ops.OPS.clear()

PLAIN = {
    "tan": torch.tan, "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh, "asinh": torch.asinh, "exp2": torch.exp2,
    "trunc": torch.trunc, "frac": torch.frac, "isnan": torch.isnan, "isinf": torch.isinf, "selu": F.selu, "relu6": F.relu6,
    "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "mish": F.mish, "logsigmoid": F.logsigmoid,
    "softsign": F.softsign, "tanhshrink": F.tanhshrink, "erfc": torch.erfc,
}
for name, f in PLAIN.items():
    op(name, finite=True)(lambda g, _, f=f: ({}, [g.floats(g.shape())], lambda x: [f(x)]))
BETWEEN = {
    "asin": (torch.asin, -0.9, 0.9), "acos": (torch.acos, -0.9, 0.9), "acosh": (torch.acosh, 1.2, 4),
    "atanh": (torch.atanh, -0.9, 0.9), "log2": (torch.log2, 0.3, 3), "log10": (torch.log10, 0.3, 3),
}
for name, (f, low, high) in BETWEEN.items():
    op(name, finite=True)(lambda g, _, f=f, a=low, b=high: ({}, [g.floats(g.shape(), a, b)], lambda x: [f(x)]))
NUMBERS = {
    "elu": (F.elu, "alpha", [1.0, 0.5, 2.0]), "celu": (F.celu, "alpha", [1.0, 0.5, 2.0]),
    "leaky_relu": (F.leaky_relu, "negative_slope", [0.01, 0.2]), "softshrink": (F.softshrink, "lambd", [0.5, 0.2]),
    "hardshrink": (F.hardshrink, "lambd", [0.5, 0.2]), "glu": (F.glu, "dim", [-1, 0]),
}
for name, (f, key, values) in NUMBERS.items():
    def _(g, name, f=f, key=key, values=values):
        v = g.pick(values)
        shape = [2 * g.r.randint(1, 2) for _ in range(g.r.randint(1, 3))] if name == "glu" else g.shape()
        attrs = {} if g.coin(0.2) and key != "dim" else {key: v}
        return attrs, [g.floats(shape, plain=True)], lambda x: [f(x, **attrs) if key != "dim" else f(x, v)]
    op(name, finite=True)(_)


@op("hardtanh", "threshold", "softplus_options", finite=True)
def _(g, name):
    if name == "hardtanh":
        a = {"min_val": g.pick([-1.0, -0.3]), "max_val": g.pick([1.0, 0.4])}
        return a, [g.floats(g.shape())], lambda x: [F.hardtanh(x, a["min_val"], a["max_val"])]
    if name == "threshold":
        a = {"threshold": g.pick([0.1, -0.5]), "value": g.pick([0.0, 7.0])}
        return a, [g.floats(g.shape())], lambda x: [F.threshold(x, a["threshold"], a["value"])]
    a = {"beta": g.pick([0.5, 2.0]), "threshold": g.pick([20.0, 1.0])}
    return a, [g.floats(g.shape())], lambda x: [F.softplus(x, a["beta"], a["threshold"])]


@op("prelu", finite=True)
def _(g, _):
    s = [g.dim(1, 3), g.dim(1, 3)] + g.shape(0, 2)
    w = g.floats([s[1] if g.coin() else 1], plain=True)
    return {}, [g.floats(s), w], lambda x, w: [F.prelu(x, w)]


@op("softmin")
def _(g, _):
    s = g.shape(1, 3)
    d = g.one(len(s))
    return {"dim": d}, [g.floats(s)], lambda x: [F.softmin(x, d)]


@op("atan2", "logaddexp", "hypot", "fmod", "remainder_floats", "floor_divide", "copysign", finite=True)
def _(g, name):
    a, b = g.broadcast()
    y = g.floats(b, plain=True)
    f = {"remainder_floats": torch.remainder, "fmod": torch.fmod}.get(name) or getattr(torch, name)
    if name == "floor_divide":
        f = lambda x, y: torch.div(x, y, rounding_mode="floor")
    return {}, [g.floats(a, plain=True), y], lambda x, y: [f(x, y)]


@op("pow_tensor", finite=True)
def _(g, _):
    a, b = g.broadcast()
    return {}, [g.floats(a, 0.3, 2), g.floats(b, plain=True)], lambda x, y: [torch.pow(x, y)]


@op("add_alpha", "sub_alpha", "lerp", "addcmul", "addcdiv", "div_rounded", finite=True)
def _(g, name):
    a, b = g.broadcast()
    x, y = g.floats(a, plain=True), g.floats(b, 0.5, 2)
    if name in ("add_alpha", "sub_alpha"):
        f = torch.add if name == "add_alpha" else torch.sub
        return {"alpha": 2.5}, [x, y], lambda x, y: [f(x, y, alpha=2.5)]
    if name == "lerp":
        return {"weight": 0.3}, [g.floats(a, plain=True), g.floats(a, plain=True)], lambda x, y: [torch.lerp(x, y, 0.3)]
    if name == "div_rounded":
        how = g.pick(["trunc", "floor"])
        return {"rounding_mode": how}, [x, y], lambda x, y: [torch.div(x, y, rounding_mode=how)]
    f = getattr(torch, name)
    z = g.floats(b, 0.5, 2)
    return {"value": 0.7}, [x, y, z], lambda x, y, z: [f(x, y, z, value=0.7)]


@op("masked_fill")
def _(g, _):
    a, b = g.broadcast()
    v = g.pick([0.0, -3.5])
    return {"value": v}, [g.floats(a), g.bools(a)], lambda x, m: [x.masked_fill(m, v)]


@op("nan_to_num", "round_decimals", hvp=False)
def _(g, name):
    if name == "round_decimals":
        return {"decimals": 2}, [g.floats(g.shape(), plain=True)], lambda x: [torch.round(x, decimals=2)]
    a = {"nan": 0.5, "posinf": 3.0, "neginf": -2.0}
    return a, [g.floats(g.shape())], lambda x: [torch.nan_to_num(x, **a)]


@op("std", "var_correction", finite=True)
def _(g, name):
    s = [g.r.randint(3, 5) for _ in range(g.r.randint(1, 3))]
    dims, keep = g.dims(len(s)), g.coin()
    if name == "std":
        u = g.coin()
        return {"dim": dims, "keepdim": keep, "unbiased": u}, [g.floats(s, plain=True)], lambda x: [
            torch.std(x, dims, unbiased=u, keepdim=keep)]
    c = g.pick([0, 1, 2])
    return {"dim": dims, "keepdim": keep, "correction": c}, [g.floats(s, plain=True)], lambda x: [
        torch.var(x, dims, correction=c, keepdim=keep)]


@op("var_mean", "std_mean", "aminmax", finite=True)
def _(g, name):
    s = [g.r.randint(2, 4) for _ in range(g.r.randint(1, 3))]
    d, keep = g.one(len(s)), g.coin()
    f = getattr(torch, name)
    if name == "aminmax":
        return {"dim": d, "keepdim": keep}, [g.floats(s, plain=True)], lambda x: list(f(x, dim=d, keepdim=keep))
    return {"dim": [d], "keepdim": keep, "unbiased": True}, [g.floats(s, plain=True)], lambda x: list(
        f(x, [d], unbiased=True, keepdim=keep))


@op("cumprod", "logcumsumexp", finite=True)
def _(g, name):
    s = [g.r.randint(1, 5) for _ in range(g.r.randint(1, 3))]
    d = g.one(len(s))
    x = g.floats(s, plain=True)
    if name == "cumprod" and g.coin(0.4):
        x = torch.where(g.bools(s), x, torch.zeros(s))
    return {"dim": d}, [x], lambda x: [getattr(torch, name)(x, d)]


@op("max_dim", "min_dim", "median", "kthvalue", "topk_smallest", finite=True)
def _(g, name):
    s = [g.r.randint(1, 5) for _ in range(g.r.randint(1, 3))]
    d, keep = g.one(len(s)), g.coin()
    x = g.floats(s, plain=True)
    a = {"dim": d, "keepdim": keep}
    if name == "kthvalue":
        k = g.r.randint(1, s[d])
        return {"k": k, **a}, [x], lambda x: list(torch.kthvalue(x, k, d, keep))
    if name == "topk_smallest":
        k = g.r.randint(1, s[d])
        return {"k": k, "dim": d, "largest": False}, [x], lambda x: list(torch.topk(x, k, d, largest=False))
    f = {"max_dim": torch.max, "min_dim": torch.min, "median": torch.median}[name]
    return a, [x], lambda x: list(f(x, d, keep))


@op("argmax_all", "argmax_keep")
def _(g, name):
    s = [g.r.randint(1, 4) for _ in range(g.r.randint(1, 3))]
    if name == "argmax_all":
        return {"dim": None}, [g.floats(s, plain=True)], lambda x: [torch.argmax(x)]
    d = g.one(len(s))
    return {"dim": d, "keepdim": True}, [g.floats(s, plain=True)], lambda x: [torch.argmax(x, d, keepdim=True)]


@op("scatter", "scatter_value", "index_copy", "index_fill", "take", "index_add_alpha", finite=True)
def _(g, name):
    s = [g.r.randint(2, 4) for _ in range(g.r.randint(1, 3))]
    d = g.one(len(s))
    x = g.floats(s, plain=True)
    if name == "take":
        n = math.prod(s)
        return {}, [x, g.ints([3, 2], 0, n)], lambda x, i: [torch.take(x, i.long())]
    if name.startswith("scatter"):
        at = list(s)
        at[d] = g.r.randint(1, s[d])
        i = torch.rand(at, generator=g.t).argsort(d).int()  # no place twice
        if name == "scatter":
            return {"dim": d}, [x, i, g.floats(at, plain=True)], lambda x, i, y: [x.scatter(d, i.long(), y)]
        return {"dim": d, "value": 1.5}, [x, i], lambda x, i: [x.scatter(d, i.long(), 1.5)]
    n = g.r.randint(1, s[d])
    i = torch.randperm(s[d], generator=g.t)[:n].int()
    src = list(s)
    src[d] = n
    if name == "index_fill":
        return {"dim": d, "value": -2.0}, [x, i], lambda x, i: [x.index_fill(d, i.long(), -2.0)]
    if name == "index_copy":
        return {"dim": d}, [x, i, g.floats(src, plain=True)], lambda x, i, y: [x.index_copy(d, i.long(), y)]
    return {"dim": d, "alpha": 0.5}, [x, i, g.floats(src, plain=True)], lambda x, i, y: [
        x.index_add(d, i.long(), y, alpha=0.5)]


@op("pad_modes", finite=True)
def _(g, _):
    how = g.pick(["reflect", "replicate", "circular"])
    n = g.r.randint(1, 3)
    size = [g.r.randint(3, 5) for _ in range(n)]
    pad = [g.r.randint(0, 2) for _ in range(2 * n)]
    return {"pad": pad, "mode": how}, [g.floats([2, 2] + size, plain=True)], lambda x: [F.pad(x, pad, mode=how)]


@op("repeat_interleave", "tile_more", "movedim", "diagonal", "diag_embed", "diag", "chunk", "narrow", "select", "squeeze",
    "unsqueeze", "flatten", "split_each", "roll_all", "trace", "expand_same")
def _(g, name):
    s = [g.r.randint(2, 4) for _ in range(3)]
    d = g.one(3)
    x = g.floats(s, plain=True)
    if name == "repeat_interleave":
        return {"repeats": 3, "dim": d}, [x], lambda x: [x.repeat_interleave(3, d)]
    if name == "tile_more":
        return {"reps": [2, 1, 1, 3]}, [x], lambda x: [torch.tile(x, (2, 1, 1, 3))]
    if name == "movedim":
        return {"source": [0, 2], "destination": [1, 0]}, [x], lambda x: [torch.movedim(x, (0, 2), (1, 0)).clone()]
    if name == "diagonal":
        o = g.r.randint(-1, 1)
        return {"offset": o, "dim1": 0, "dim2": 2}, [x], lambda x: [torch.diagonal(x, o, 0, 2).clone()]
    if name == "diag_embed":
        o = g.r.randint(-2, 2)
        return {"offset": o}, [x], lambda x: [torch.diag_embed(x, o)]
    if name == "diag":
        o = g.r.randint(-1, 1)
        y = x[0] if g.coin() else x[0, 0]
        return {"diagonal": o}, [y.clone()], lambda x: [torch.diag(x, o)]
    if name == "chunk":
        return {"chunks": 2, "dim": d}, [x], lambda x: list(torch.chunk(x, 2, d))
    if name == "narrow":
        return {"dim": d, "start": 1, "length": s[d] - 1}, [x], lambda x: [x.narrow(d, 1, s[d] - 1).clone()]
    if name == "select":
        return {"dim": d, "index": -1}, [x], lambda x: [x.select(d, -1).clone()]
    if name == "squeeze":
        return {"dim": 1}, [x[:, :1].clone()], lambda x: [x.squeeze(1)]
    if name == "unsqueeze":
        return {"dim": d}, [x], lambda x: [x.unsqueeze(d)]
    if name == "flatten":
        return {"start_dim": 1}, [x], lambda x: [x.flatten(1)]
    if name == "split_each":
        return {"split_size": 2, "dim": d}, [x], lambda x: list(torch.split(x, 2, d))
    if name == "roll_all":
        return {"shift": 2}, [x], lambda x: [torch.roll(x, 2)]
    if name == "trace":  # PyTorch 1.13 has a wrong gradient where there are more rows than columns
        return {}, [x[0][:, :2][:2].clone()], lambda x: [torch.trace(x)]
    return {"shape": [5, -1, s[1], s[2]]}, [x], lambda x: [x.expand(5, -1, s[1], s[2]).clone()]


@op("addmm", "baddbmm", "bmm", "mv", "outer", "linear", "tensordot", "kron", "cross", "inner", finite=True)
def _(g, name):
    b, m, k, n = (g.r.randint(1, 4) for _ in range(4))
    f = lambda *s: g.floats(list(s), plain=True)
    if name == "addmm":
        return {"beta": 0.5, "alpha": 2.0}, [f(m, n), f(m, k), f(k, n)], lambda x, y, z: [
            torch.addmm(x, y, z, beta=0.5, alpha=2.0)]
    if name == "baddbmm":
        return {}, [f(b, m, n), f(b, m, k), f(b, k, n)], lambda x, y, z: [torch.baddbmm(x, y, z)]
    if name == "bmm":
        return {}, [f(b, m, k), f(b, k, n)], lambda x, y: [torch.bmm(x, y)]
    if name == "mv":
        return {}, [f(m, k), f(k)], lambda x, y: [torch.mv(x, y)]
    if name == "outer":
        return {}, [f(m), f(n)], lambda x, y: [torch.outer(x, y)]
    if name == "inner":
        return {}, [f(m, k), f(n, k)], lambda x, y: [torch.inner(x, y)]
    if name == "linear":
        return {}, [f(b, m, k), f(n, k), f(n)], lambda x, w, c: [F.linear(x, w, c)]
    if name == "tensordot":
        return {"dims": [[1], [0]]}, [f(b, m, k), f(m, n)], lambda x, y: [torch.tensordot(x, y, ([1], [0]))]
    if name == "kron":
        return {}, [f(m, k), f(b, n)], lambda x, y: [torch.kron(x, y)]
    return {"dim": 1}, [f(b, 3, n), f(b, 3, n)], lambda x, y: [torch.cross(x, y, dim=1)]


@op("max_pool2d_more", "avg_pool2d_more", "max_pool1d_more", weight=3, finite=True)
def _(g, name):
    n = 1 if "1d" in name else 2
    kernel = [g.r.randint(1, 3) for _ in range(n)]
    stride = [g.r.randint(1, 3) for _ in range(n)]
    pad = [g.r.randint(0, k // 2) for k in kernel]
    x = g.floats([g.r.randint(1, 2), 2] + [g.r.randint(5, 7) for _ in range(n)], plain=True)
    a = {"kernel": kernel, "stride": stride, "padding": pad, "ceil_mode": g.coin(0.7)}
    if "max" in name:
        a["dilation"] = [g.pick([1, 2]) for _ in range(n)]
        f = F.max_pool1d if n == 1 else F.max_pool2d
        return a, [x], lambda x: [f(x, kernel, stride, pad, a["dilation"], a["ceil_mode"])]
    a["count_include_pad"] = g.coin()
    if g.coin(0.3):
        a["divisor_override"] = 3
    return a, [x], lambda x: [F.avg_pool2d(
        x, kernel, stride, pad, a["ceil_mode"], a["count_include_pad"], a.get("divisor_override"))]


@op("adaptive_avg_pool2d", "adaptive_max_pool2d", "adaptive_avg_pool1d", finite=True)
def _(g, name):
    n = 1 if "1d" in name else 2
    size = [g.r.randint(1, 4) for _ in range(n)]
    return {"output_size": size}, [g.floats([2, 2] + [g.r.randint(4, 7) for _ in range(n)], plain=True)], lambda x: [
        getattr(F, name)(x, size)]


@op("unfold", "fold", weight=2, finite=True)
def _(g, name):
    kernel, dil = [g.r.randint(1, 3) for _ in range(2)], [g.pick([1, 2]) for _ in range(2)]
    pad, stride = [g.r.randint(0, 1) for _ in range(2)], [g.r.randint(1, 2) for _ in range(2)]
    size = [g.r.randint(5, 7) for _ in range(2)]
    a = {"kernel_size": kernel, "dilation": dil, "padding": pad, "stride": stride}
    x = g.floats([2, 2] + size, plain=True)
    if name == "unfold":
        return a, [x], lambda x: [F.unfold(x, kernel, dil, pad, stride)]
    y = F.unfold(x, kernel, dil, pad, stride)
    return {"output_size": size, **a}, [y], lambda x: [F.fold(x, size, kernel, dil, pad, stride)]


@op("interpolate", weight=4, finite=True)
def _(g, _):
    how = g.pick(["nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area"])
    n = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}.get(how) or g.r.randint(1, 2)
    x = g.floats([1, 2] + [g.r.randint(2, 5) for _ in range(n)], plain=True)
    a = {"mode": how}
    if how in ("linear", "bilinear", "trilinear", "bicubic"):
        a["align_corners"] = g.coin()
    if g.coin(0.4) and how != "area":
        a["scale_factor"] = g.pick([2.0, 1.5, 0.5])
        kw = dict(a)
    else:
        a["size"] = [g.r.randint(1, 8) for _ in range(n)]
        kw = dict(a)
    return a, [x], lambda x: [F.interpolate(x, **kw)]


@op("pixel_shuffle", "pixel_unshuffle")
def _(g, name):
    f = g.r.randint(1, 2)
    if name == "pixel_shuffle":
        return {"upscale_factor": f}, [g.floats([2, 2 * f * f, 2, 3], plain=True)], lambda x: [F.pixel_shuffle(x, f)]
    return {"downscale_factor": f}, [g.floats([2, 2, 2 * f, 3 * f], plain=True)], lambda x: [F.pixel_unshuffle(x, f)]


@op("conv2d_same", "conv1d_same", finite=True)
def _(g, name):
    n = 1 if "1d" in name else 2
    k, d = [g.r.randint(1, 4) for _ in range(n)], [g.pick([1, 2]) for _ in range(n)]
    x, w = g.floats([2, 2] + [6] * n, plain=True), g.floats([4, 1] + k, plain=True)
    f = F.conv1d if n == 1 else F.conv2d
    return {"padding": "same", "dilation": d, "groups": 2}, [x, w], lambda x, w: [
        f(x, w, None, 1, "same", d, 2)]


@op("layer_norm_more", "group_norm_plain", "local_response_norm", "normalize", finite=True)
def _(g, name):
    s = [2, 4] + [g.r.randint(2, 3) for _ in range(2)]
    x = g.floats(s, plain=True)
    if name == "layer_norm_more":
        shape = s[2:]
        if g.coin():
            return {"normalized_shape": shape, "eps": 1e-4}, [x, g.floats(shape, plain=True), g.floats(shape, plain=True)], \
                lambda x, w, b: [F.layer_norm(x, shape, w, b, 1e-4)]
        return {"normalized_shape": shape}, [x], lambda x: [F.layer_norm(x, shape)]
    if name == "group_norm_plain":
        return {"num_groups": 2}, [x], lambda x: [F.group_norm(x, 2)]
    if name == "normalize":
        p, d = g.pick([1.0, 2.0]), g.one(4)
        return {"p": p, "dim": d}, [x], lambda x: [F.normalize(x, p, d)]
    a = {"size": g.r.randint(1, 4), "alpha": 0.1, "beta": 0.75, "k": 1.0}
    return a, [x], lambda x: [F.local_response_norm(x, **a)]


@op("attention_mask", "attention_sdpa", weight=4, finite=True)
def _(g, name):
    b, sq, sk, kv, per, d = (g.r.randint(1, 3) for _ in range(6))
    sq, sk = sq + 1, sk + 1
    cap = g.pick([0.0, 0.0, 1.5])
    causal = g.coin(0.3)
    mask = g.bools([b, 1, sq, sk]) if g.coin() else g.floats([sq, sk], plain=True)
    a = {"causal": causal, "softcap": cap, "scale": 0.4, "layout": "batch,seq,heads,dim"}
    inner = name == "attention_sdpa"
    if inner:
        a = {"is_causal": causal, "scale": 0.4, "softcap": cap}
        kv = 1

    def f(q, k, v, m):
        if inner:
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        k, v = k.repeat_interleave(q.shape[2] // k.shape[2], 2), v.repeat_interleave(q.shape[2] // v.shape[2], 2)
        s = torch.einsum("bshd,bthd->bhst", q, k) * 0.4
        if cap:
            s = cap * torch.tanh(s / cap)
        seen = torch.ones(sq, sk, dtype=torch.bool)
        if causal:
            seen = seen.tril()
        if m.dtype == torch.bool:
            seen = seen & m
        else:
            s = s + m
        rows = seen.any(-1, keepdim=True)
        w = torch.softmax(s.masked_fill(~seen & rows, -math.inf), -1) * rows
        out = torch.einsum("bhst,bthd->bshd", w, v)
        return [out.transpose(1, 2) if inner else out]

    shape = (lambda s, h: [b, h, s, d]) if inner else (lambda s, h: [b, s, h, d])
    return a, [g.floats(shape(sq, kv * per), plain=True), g.floats(shape(sk, kv), plain=True),
               g.floats(shape(sk, kv), plain=True), mask], f


def fixed(f, *inputs):
    """A function that PyTorch does not differentiate by some of its inputs."""
    f.fixed = inputs
    return f


def reduction(g):
    return g.pick(["mean", "sum", "none"])


@op("cross_entropy_weights", "nll_loss_weights", "cross_entropy_soft", "cross_entropy_images", weight=3, finite=True)
def _(g, name):
    n, c = g.r.randint(2, 4), g.r.randint(2, 4)
    how = reduction(g)
    a = {"reduction": how}
    w = torch.rand([c], generator=g.t) + 0.5
    if name == "cross_entropy_soft":
        y = torch.softmax(torch.randn([n, c], generator=g.t), -1)
        a["label_smoothing"] = g.pick([0.0, 0.2])
        return a, [g.floats([n, c], plain=True), y], lambda x, y: [F.cross_entropy(x, y, **a)]
    if name == "cross_entropy_images":
        return a, [g.floats([n, c, 5, 6], plain=True), g.ints([n, 5, 6], 0, c)], lambda x, y: [
            F.cross_entropy(x, y.long(), **a)]
    labels = g.ints([n], 0, c)
    a["ignore_index"] = g.pick([-100, 0])
    labels[0] = 1
    if name == "nll_loss_weights":
        return a, [g.floats([n, c], plain=True), labels, w], fixed(lambda x, y, w: [F.nll_loss(x, y.long(), w, **a)], 2)
    a["label_smoothing"] = g.pick([0.0, 0.1])
    return a, [g.floats([n, c], plain=True), labels, w], fixed(
        lambda x, y, w: [F.cross_entropy(x, y.long(), w, **a)], 2)


@op("bce_weights", "bce_logits_weights", "bce_logits_pos", "poisson_nll_loss", "gaussian_nll_loss", "soft_margin_loss",
    "hinge_embedding_loss", "margin_ranking_loss", "cosine_embedding_loss", "triplet_margin_loss", "multi_margin_loss",
    "cosine_similarity", "pairwise_distance", "cdist", finite=True)
def _(g, name):
    n, c = g.r.randint(1, 4), g.r.randint(2, 4)
    f = lambda *s: g.floats(list(s), plain=True)
    how = reduction(g)
    a = {"reduction": how}
    signs = lambda *s: torch.where(g.bools(list(s)), 1.0, -1.0)
    y, w = torch.rand([n, c], generator=g.t), torch.rand([n, c], generator=g.t) + 0.5
    if name == "bce_weights":
        p = torch.rand([n, c], generator=g.t) * 0.9 + 0.05
        return a, [p, y, w], fixed(lambda p, y, w: [F.binary_cross_entropy(p, y, w, reduction=how)], 1, 2)
    if name == "bce_logits_weights":
        v = torch.rand([c], generator=g.t) + 0.5
        return a, [f(n, c), y, w, v], fixed(lambda x, y, w, v: [
            F.binary_cross_entropy_with_logits(x, y, w, reduction=how, pos_weight=v)], 2, 3)
    if name == "bce_logits_pos":
        v = torch.rand([c], generator=g.t) + 0.5
        return {**a, "pos_weight": True}, [f(n, c), y, v], fixed(lambda x, y, v: [
            F.binary_cross_entropy_with_logits(x, y, reduction=how, pos_weight=v)], 2)
    if name == "poisson_nll_loss":
        a |= {"log_input": g.coin(), "full": g.coin()}
        x = f(n, c) if a["log_input"] else w
        return a, [x, 3 * y], lambda x, y: [F.poisson_nll_loss(x, y, **a)]
    if name == "gaussian_nll_loss":
        a |= {"full": g.coin()}
        return a, [f(n, c), f(n, c), w], lambda x, y, v: [F.gaussian_nll_loss(x, y, v, **a)]
    if name == "soft_margin_loss":
        return a, [f(n, c), signs(n, c)], fixed(lambda x, y: [F.soft_margin_loss(x, y, **a)], 1)
    if name == "hinge_embedding_loss":
        return {**a, "margin": 0.7}, [f(n, c), signs(n, c).int()], lambda x, y: [
            F.hinge_embedding_loss(x, y.to(x.dtype), 0.7, reduction=how)]
    if name == "margin_ranking_loss":
        return {**a, "margin": 0.2}, [f(n), f(n), signs(n)], lambda x, y, z: [
            F.margin_ranking_loss(x, y, z, 0.2, reduction=how)]
    if name == "cosine_embedding_loss":
        return {**a, "margin": 0.1}, [f(n, c), f(n, c), signs(n).int()], lambda x, y, z: [
            F.cosine_embedding_loss(x, y, z, 0.1, reduction=how)]
    if name == "triplet_margin_loss":
        a |= {"margin": 0.8, "p": 2.0, "swap": g.coin()}
        return a, [f(n, c), f(n, c), f(n, c)], lambda x, y, z: [F.triplet_margin_loss(x, y, z, **a)]
    if name == "multi_margin_loss":
        a |= {"p": g.pick([1, 2]), "margin": 0.6}
        return a, [f(n, c), g.ints([n], 0, c)], lambda x, y: [F.multi_margin_loss(x, y.long(), **a)]
    if name == "cosine_similarity":
        return {"dim": 1}, [f(n, c), f(n, c)], lambda x, y: [F.cosine_similarity(x, y, 1)]
    if name == "pairwise_distance":
        return {"p": 2.0}, [f(n, c), f(n, c)], lambda x, y: [F.pairwise_distance(x, y, 2.0)]
    return {"p": 1.0}, [f(n, 2, c), f(n, 3, c)], lambda x, y: [torch.cdist(x, y, 1.0)]


@op("embedding_padding")
def _(g, _):
    n = g.r.randint(2, 5)
    a = {"padding_idx": g.r.randint(0, n - 1)}
    return a, [g.ints([3, 2], 0, n), g.floats([n, 3], plain=True)], lambda i, t: [F.embedding(i, t, **a)]


record_ops.CALLED.update({
    "softplus_options": "softplus", "remainder_floats": "remainder", "pow_tensor": "pow", "add_alpha": "add",
    "sub_alpha": "sub", "div_rounded": "div", "round_decimals": "round", "var_correction": "var", "max_dim": "max",
    "min_dim": "min", "topk_smallest": "topk", "argmax_all": "argmax", "argmax_keep": "argmax", "scatter_value": "scatter",
    "index_add_alpha": "index_add", "pad_modes": "pad", "tile_more": "tile", "split_each": "split", "roll_all": "roll",
    "expand_same": "expand", "max_pool2d_more": "max_pool2d", "avg_pool2d_more": "avg_pool2d",
    "max_pool1d_more": "max_pool1d", "conv2d_same": "conv2d", "conv1d_same": "conv1d", "layer_norm_more": "layer_norm",
    "group_norm_plain": "group_norm", "attention_mask": "attention", "attention_sdpa": "scaled_dot_product_attention",
    "cross_entropy_weights": "cross_entropy", "nll_loss_weights": "nll_loss", "cross_entropy_soft": "cross_entropy",
    "cross_entropy_images": "cross_entropy", "bce_weights": "binary_cross_entropy",
    "bce_logits_weights": "binary_cross_entropy_with_logits", "bce_logits_pos": "binary_cross_entropy_with_logits",
    "embedding_padding": "embedding",
})  # the names of ops of which several kinds of cases are made

if __name__ == "__main__":
    record_ops.main()
