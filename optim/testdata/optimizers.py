"""Records steps of PyTorch's Adafactor and Muon in float64. Run: python3 optimizers.py OUT"""
import os, sys
import torch
from safetensors.torch import save_file

OUT = sys.argv[1]
os.makedirs(OUT, exist_ok=True)
SHAPES = {"wide": (4, 7), "tall": (9, 3), "bias": (5,)}


def run(make, shapes, steps=5):
    torch.manual_seed(3)
    params = {n: torch.nn.Parameter(torch.randn(*s, dtype=torch.float64)) for n, s in shapes.items()}
    tensors = {"first." + n: p.detach().clone() for n, p in params.items()}
    opt = make(list(params.values()))
    for i in range(steps):
        for n, p in params.items():
            p.grad = torch.randn_like(p)
            tensors[f"grad.{i}.{n}"] = p.grad.clone()
        opt.step()
        for n, p in params.items():
            tensors[f"next.{i}.{n}"] = p.detach().clone()
    return tensors


matrices = {n: s for n, s in SHAPES.items() if len(s) == 2}
save_file(run(lambda p: torch.optim.Adafactor(p, lr=1e-2, weight_decay=0.01), SHAPES), os.path.join(OUT, "adafactor.safetensors"))
# Muon orthogonalizes in bfloat16 by default; the definition is the same in any precision.
import torch.optim._muon as muon
source = muon._zeropower_via_newtonschulz


def exact(grad, coefficients, steps, eps):
    a, b, c = coefficients
    x = grad
    if grad.size(0) > grad.size(1):
        x = x.T
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if grad.size(0) > grad.size(1) else x


probe = torch.randn(6, 4)
print("muon: bfloat16 against float64:", float((source(probe, (3.4445, -4.7750, 2.0315), 5, 1e-7).float() - exact(probe.double(), (3.4445, -4.7750, 2.0315), 5, 1e-7)).abs().max()))
muon._zeropower_via_newtonschulz = exact
for name, extra in {"muon": {}, "muon_match": {"adjust_lr_fn": "match_rms_adamw", "nesterov": False}}.items():
    save_file(run(lambda p: torch.optim.Muon(p, lr=2e-2, weight_decay=0.1, momentum=0.95, **extra), matrices), os.path.join(OUT, name + ".safetensors"))
