#!/usr/bin/env python3
"""How soon a process at half speed is named, and what moving to another plan gains.

  bench/straggler.py GALLEY [--share 0.5] [--after 20] [--steps 150] [--mesh dp=2]
  bench/straggler.py GALLEY --model "--dim 256 --layers 4 --heads 8 --batch 8 --seq 64"

Two processes train with a thread each; after some steps the second may use only a share of its core: by a
cgroup or, where none can be made, by stopping it for a part of every 20 ms. What galley train --adapt says is
printed, with the step at which the process became slow: who is named when, and what the move to another plan
was predicted to gain and has gained. About a minute.
"""
import argparse, atexit, os, signal, sys, tempfile, threading, time

from elastic import Job, workers

NAME = "galley-straggler"
MODEL = "--dim 128 --layers 8 --heads 4 --batch 16 --seq 128"
PERIOD = 20_000  # microseconds: short beside a step


def limit(pid, share):
    """Lets a process use a share of one core."""
    old, new = f"/sys/fs/cgroup/cpu/{NAME}", f"/sys/fs/cgroup/{NAME}"
    quota = int(PERIOD * share)
    if os.path.isdir("/sys/fs/cgroup/cpu"):
        os.makedirs(old, exist_ok=True)
        files = {"cpu.cfs_period_us": PERIOD, "cpu.cfs_quota_us": quota, "cgroup.procs": pid}
        at = old
    else:
        os.makedirs(new, exist_ok=True)
        files = {"cpu.max": f"{quota} {PERIOD}", "cgroup.procs": pid}
        at = new
    for file, value in files.items():
        with open(os.path.join(at, file), "w") as f:
            f.write(str(value))


def stutter(pid, share):
    """Stops a process for a part of every period, for as long as this program runs."""
    def run():
        try:
            while True:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(PERIOD * (1 - share) / 1e6)
                os.kill(pid, signal.SIGCONT)
                time.sleep(PERIOD * share / 1e6)
        except ProcessLookupError:
            pass
    threading.Thread(target=run, daemon=True).start()
    atexit.register(lambda: os.path.exists(f"/proc/{pid}") and os.kill(pid, signal.SIGCONT))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("galley")
    p.add_argument("--share", type=float, default=0.5)
    p.add_argument("--after", type=int, default=20)
    p.add_argument("--steps", type=int, default=150)
    p.add_argument("--model", default=MODEL, help="flags of train for model and batch")
    p.add_argument("--mesh", default="dp=2", help="the plan that the run begins with")
    a = p.parse_args()
    train = [*a.model.split(), *"--tokens 0 --threads 1 --adapt on --checkpoint".split(), tempfile.mkdtemp()]
    job = Job(os.path.abspath(a.galley), 2, a.steps, elastic=False, train=train, mesh=a.mesh)
    job.wait(lambda r: len(r) >= a.after, 600)
    time.sleep(0.1)
    slow = workers(job.process.pid)[1]
    at = len(job.rows())
    try:
        limit(slow, a.share)
    except OSError:
        stutter(slow, a.share)
    print(f"step {at}: process {slow} has {a.share} of a core from now on", flush=True)
    job.process.wait()
    for at in ("/sys/fs/cgroup/cpu/" + NAME, "/sys/fs/cgroup/" + NAME):
        if os.path.isdir(at):
            os.rmdir(at)
    with open(os.path.join(job.dir, "out")) as f:
        for line in f:
            if "adapt" in line or "straggler" in line or "rror" in line:
                print(line.strip())
    return job.process.returncode


sys.exit(main())
