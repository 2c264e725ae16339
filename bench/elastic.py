#!/usr/bin/env python3
"""What a loss costs an elastic job, and what snapshots cost a step.

  bench/elastic.py GALLEY kills -n 2 --kills 200      kill -9 of a random process, again and again
  bench/elastic.py GALLEY snapshots --rounds 5        speed with an agent and snapshots against without, in turns
  bench/elastic.py GALLEY goodput --seconds 120       a kill every 30 s

It needs nothing but Python and galley (and MPICH, as any job of galley launch).
"""
import argparse, json, os, random, signal, statistics, subprocess, sys, tempfile, time

MODEL = "--dim 64 --layers 2 --heads 4 --batch 8 --seq 32 --tokens 0".split()


def children(pid):
    """The processes that a process has started, and theirs."""
    out = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as f:
                for child in map(int, f.read().split()):
                    out += [child] + children(child)
    except FileNotFoundError:
        pass
    return out


def workers(agent):
    """The processes that train: those whose command line says so."""
    out = []
    for pid in children(agent):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except FileNotFoundError:
            continue
        if b"train" in words and b"launch" not in words:
            out.append(pid)
    return out


class Job:
    """A job of one host that logs its steps."""

    def __init__(self, galley, n, steps, elastic=True, train=MODEL, mesh=None):
        self.dir = tempfile.mkdtemp()
        self.log = os.path.join(self.dir, "log.jsonl")
        launch = ["launch"] + (["--elastic", "1:1"] if elastic else []) + ["-n", str(n), "--"]
        args = ["train", *train, "--mesh", mesh or f"dp={n}", "--steps", str(steps), "--log", self.log]
        self.out = open(os.path.join(self.dir, "out"), "w")
        self.read, self.known, self.end, self.most = 0, [], b"", 0
        self.process = subprocess.Popen([galley, *launch, *args], stdout=self.out, stderr=self.out)

    def rows(self):
        """The complete lines of the log so far. What has come since is read, not all of it, which would keep a
        core busy; all of it where an epoch has cut off the steps that it takes again."""
        try:
            with open(self.log, "rb") as f:
                f.seek(max(0, self.read - len(self.end)))
                if f.read(len(self.end)) != self.end:
                    f.seek(0)
                    self.read, self.known = 0, []
                text = f.read()
        except FileNotFoundError:
            return self.known
        text = text[:text.rfind(b"\n") + 1]
        self.read += len(text)
        self.end = text[-200:] or self.end
        self.known = self.known + [json.loads(line) for line in text.splitlines()]
        self.most = max([self.most] + [x["step"] for x in self.known[-1000:] if "loss" in x])
        return self.known

    def losses(self):
        """The loss of each step. Of those that were taken again the log has the last."""
        return {r["step"]: r["loss"] for r in self.rows()
                if r.get("loss") is not None and r.get("valid_loss") is None}

    def wait(self, done, limit=300):
        end = time.monotonic() + limit
        while time.monotonic() < end:
            r = self.rows()
            if done(r):
                return r
            if self.process.poll() is not None:
                return self.rows()
            time.sleep(0.005)
        raise SystemExit(f"nothing happened for {limit} s: {self.dir}")


def after_epoch(r, epochs=0):
    """Whether a loss was logged after the line that says that another epoch began."""
    at = [i for i, x in enumerate(r) if "event" in x]
    return len(at) > epochs and any("loss" in x for x in r[at[-1] + 1:])


def kills(a):
    random.seed(a.seed)
    job = Job(a.galley, a.n, a.steps)
    job.wait(after_epoch)
    took, steps = [], []
    while len(took) < a.kills and job.process.poll() is None:
        time.sleep(random.uniform(0.05, 0.3))
        epochs = sum("event" in x for x in job.rows())
        alive = workers(job.process.pid)
        if not alive:
            continue
        began = time.monotonic()
        os.kill(random.choice(alive), signal.SIGKILL)
        told = job.most
        r = job.wait(lambda r: after_epoch(r, epochs), 60)
        if not after_epoch(r, epochs):
            break  # the run was over
        took.append(time.monotonic() - began)
        at = [i for i, x in enumerate(r) if "event" in x][-1]
        first = next(x["step"] for x in r[at + 1:] if "loss" in x)
        steps.append(max(0, told + 1 - first))  # of those that were told before the kill
    job.process.send_signal(signal.SIGTERM)
    job.process.wait()
    losses = job.losses()
    reference = Job(a.galley, 1, a.steps, elastic=False, mesh=f"dp={a.n}")  # the rate depends on the steps to come
    reference.wait(lambda r: r and r[-1].get("step", 0) >= max(losses), 3000)
    reference.process.send_signal(signal.SIGTERM)
    reference.process.wait()
    want = reference.losses()
    wrong = sum(want.get(s) != x for s, x in losses.items())
    missing = max(losses) - len(losses)
    print(f"{len(took)} kills of {a.n} processes: next loss after {statistics.median(took):.2f} s (median), "
          f"{max(took):.2f} s (worst); at most {max(steps)} steps taken again, {sum(steps)} in "
          f"all; {len(losses)} steps: {wrong} differ from a run that nothing happened to, "
          f"{missing} missing")
    return 1 if wrong or missing else 0


WINDOW = 24  # steps: whole turns of snapshots after every 1, 2, 3, 4, 6, 8 or 12 steps


def windows(job):
    """Seconds a step of every WINDOW steps on end. Single steps would not do: a step without a snapshot is told
    of after the next one."""
    at = [r["seconds"] for r in job.rows() if r.get("seconds") and "loss" in r]  # since the run began
    at = at[WINDOW:]  # the first ones learn what a snapshot costs
    return [(b - a) / WINDOW for a, b in zip(at, at[WINDOW:])]


def processor(job):
    """Processor seconds so far of a job's processes and of who started them."""
    ticks = 0
    for pid in [job.process.pid] + children(job.process.pid):
        with open(f"/proc/{pid}/stat") as f:
            ticks += sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def used_by_step(job, first, last):
    """Processor seconds a step between two steps."""
    at = []
    for step in first, last:
        r = job.wait(lambda r: r and r[-1].get("step", 0) >= step)
        at.append((r[-1]["step"], processor(job)))
    return (at[1][1] - at[0][1]) / (at[1][0] - at[0][0])


def said(job):
    """What a run says of its snapshots."""
    with open(job.out.name) as f:
        lines = f.read().replace("\r", "\n").splitlines()
    return next((line.strip() for line in lines if "snapshots after" in line), "")


def snapshots(a):
    train = "--dim 256 --layers 4 --heads 4 --batch 8 --seq 128 --tokens 0".split()
    took, used = {False: [], True: []}, {False: [], True: []}
    for i in range(a.rounds):
        for elastic in (False, True) if i % 2 == 0 else (True, False):
            job = Job(a.galley, a.n, a.steps, elastic, train)
            used[elastic].append(used_by_step(job, WINDOW, a.steps - 10))
            job.process.wait()
            took[elastic].append(windows(job))
            if elastic:
                print(f"load {os.getloadavg()[0]:.0f}; {said(job)}", flush=True)
    best = {e: min(min(w) for w in x) for e, x in took.items()}
    runs = {e: [f"{1e3 * statistics.mean(w):.1f}" for w in x] for e, x in took.items()}
    print(f"a step without an agent {1e3 * best[False]:.1f} ms, with snapshots {1e3 * best[True]:.1f} ms: "
          f"{100 * best[False] / best[True]:.1f}% of the speed (best {WINDOW} steps on end; runs {runs[False]}, "
          f"{runs[True]} ms)")
    print(f"processor time a step {1e3 * min(used[False]):.1f} and {1e3 * min(used[True]):.1f} ms: "
          f"{100 * min(used[False]) / min(used[True]):.1f}% (best runs; the agent's counted in)")
    return 0


def goodput(a):
    steps = {}
    for killing in (False, True):
        job = Job(a.galley, a.n, 10**7)
        job.wait(after_epoch)
        began, first = time.monotonic(), len(job.losses())
        due = began + a.every
        while time.monotonic() < began + a.seconds:
            time.sleep(0.2)
            alive = workers(job.process.pid)
            if killing and time.monotonic() > due and alive:
                os.kill(random.choice(alive), signal.SIGKILL)
                due += a.every
        steps[killing] = len(job.losses()) - first
        job.process.send_signal(signal.SIGTERM)
        job.process.wait()
    print(f"{steps[True]} steps in {a.seconds} s with a kill every {a.every} s, {steps[False]} without: "
          f"{100 * steps[True] / steps[False]:.1f}%")
    return 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("galley")
    p.add_argument("what", choices=["kills", "snapshots", "goodput"])
    p.add_argument("-n", type=int, default=2)
    p.add_argument("--kills", type=int, default=200)
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=120)
    p.add_argument("--every", type=float, default=30)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    if not a.steps:
        a.steps = {"kills": 10**7, "snapshots": 150}.get(a.what, 0)
    a.galley = os.path.abspath(a.galley)
    return {"kills": kills, "snapshots": snapshots, "goodput": goodput}[a.what](a)


if __name__ == "__main__":
    sys.exit(main())
