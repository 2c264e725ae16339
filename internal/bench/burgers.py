"""Training steps of a physics-informed network for Burgers' equation, as internal/bench/burgers.go takes them.

Arguments: points, hidden layers, width, f32 or f64, threads. A line on stdin is a number of steps to take; the
answer is the milliseconds of the fastest and the loss before the first of them.
"""
import math, os, sys, time

points, layers, width, threads = (int(sys.argv[i]) for i in (1, 2, 3, 5))
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(threads)
try:
    import torch
except ImportError as e:
    print("none", e, flush=True)
    sys.exit(0)

torch.set_num_threads(threads)
torch.set_default_dtype({"f32": torch.float32, "f64": torch.float64}[sys.argv[4]])
sizes = [2] + [width] * layers + [1]


def weights(layer, rows, cols):
    scale = math.sqrt(6 / (rows + cols))
    values = [scale * math.sin(1 + 10 * layer + k) for k in range(rows * cols)]
    return torch.tensor(values, dtype=torch.float64).reshape(rows, cols).to(torch.get_default_dtype())


ws = [weights(i, a, b).requires_grad_() for i, (a, b) in enumerate(zip(sizes, sizes[1:]))]
bs = [torch.zeros(b, requires_grad=True) for b in sizes[1:]]
xt = torch.tensor([[2 * (k * 0.6180339887 % 1) - 1, k * 0.7548776662 % 1] for k in range(points)])
adam = torch.optim.Adam(ws + bs, lr=1e-3)


def step():
    x = xt.detach().requires_grad_()
    h = x
    for i in range(len(ws)):
        h = h @ ws[i] + bs[i]
        if i < len(ws) - 1:
            h = torch.tanh(h)
    first = torch.autograd.grad(h.sum(), x, create_graph=True)[0]
    ux, ut = first[:, 0:1], first[:, 1:2]
    uxx = torch.autograd.grad(ux.sum(), x, create_graph=True)[0][:, 0:1]
    loss = (ut + h * ux - (0.01 / math.pi) * uxx).square().mean()
    adam.zero_grad()
    loss.backward()
    adam.step()
    return loss.item()


def blas():
    """Which library multiplies matrices: with the reference BLAS PyTorch is several times slower."""
    try:
        maps = open("/proc/self/maps").read()
    except OSError:
        return "an unknown BLAS"
    return next((name for name in ("libmkl_", "openblas", "blis") if name in maps), "the reference BLAS, no peer")


print("torch", torch.__version__, "with", blas(), flush=True)
for line in sys.stdin:
    best, loss = math.inf, None
    for _ in range(int(line)):
        start = time.perf_counter()
        value = step()
        best = min(best, 1e3 * (time.perf_counter() - start))
        loss = value if loss is None else loss
    print(best, loss, flush=True)
