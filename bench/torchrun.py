#!/usr/bin/env python3
"""Goodput of PyTorch's torchrun with a process killed every so often, beside `bench/elastic.py GALLEY goodput`.

  bench/torchrun.py [--seconds 90] [--every 30]

Two processes train a small model with DistributedDataParallel over gloo and save a checkpoint every ten steps,
from which torchrun's restarts resume. A step counts once, however often it is repeated. PYTHON is the
interpreter that has PyTorch, /usr/bin/python3 by default.
"""
import argparse, os, random, shutil, signal, statistics, subprocess, sys, tempfile, time

SAVE_EVERY = 10


def train(out):
    """What each process runs."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    layers = [torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)] * 2
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    path, step = os.path.join(out, "checkpoint.pt"), 0
    if os.path.exists(path):
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    while True:
        optimizer.zero_grad()
        model(torch.randn(256, 256)).square().mean().backward()
        optimizer.step()
        step += 1
        if dist.get_rank() == 0:
            with open(os.path.join(out, "steps"), "a") as f:
                f.write(f"{step}\n")
            if step % SAVE_EVERY == 0:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
                           path + ".new")
                os.replace(path + ".new", path)


def workers(out):
    """The processes that train, not the launcher."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
        except OSError:
            continue
        if out.encode() in words and b"torch.distributed.run" not in words:
            found.append(int(pid))
    return found


def most(out):
    """The number of the last step that was made."""
    try:
        return max(map(int, open(os.path.join(out, "steps")).read().split()), default=0)
    except (OSError, ValueError):
        return 0


def rate(seconds, every):
    """Steps a second, with a kill every so many seconds; 0 is none."""
    out = tempfile.mkdtemp()
    python = os.environ.get("PYTHON", "/usr/bin/python3")
    # PyTorch 1.13 takes no other redirects and tees under Python 3.11.
    command = [python, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--max_restarts", "1000",
               "--redirects", "1", "--tee", "1", "--master_port", str(random.randint(20000, 40000)),
               os.path.abspath(__file__), "--train", out]
    job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        while most(out) < 20:
            time.sleep(0.1)
        began, first = time.monotonic(), most(out)
        due = began + every / 2
        while time.monotonic() < began + seconds:
            time.sleep(0.2)
            alive = workers(out)
            if every and time.monotonic() > due and alive:
                os.kill(random.choice(alive), signal.SIGKILL)
                due += every
        return (most(out) - first) / (time.monotonic() - began)
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        shutil.rmtree(out, ignore_errors=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seconds", type=float, default=90)
    p.add_argument("--every", type=float, default=30)
    p.add_argument("--train", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.train:
        train(a.train)
    random.seed(1)
    calm = [rate(15, 0)]
    killed = rate(a.seconds, a.every)
    calm.append(rate(15, 0))
    plain = statistics.mean(calm)
    print(f"torchrun, a kill every {a.every:.0f} s: {killed:.1f} steps a second for {a.seconds:.0f} s, "
          f"{plain:.1f} without kills: {100 * killed / plain:.1f}%")


sys.exit(main())
