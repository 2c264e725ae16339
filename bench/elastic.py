#!/usr/bin/env python3
"""What a loss costs an elastic job, what snapshots cost a step, and what changes of plan do to losses.

  bench/elastic.py GALLEY all                         all of it in under 4 minutes, as one table
  bench/elastic.py GALLEY kills -n 2 --kills 200      kill -9 of a random process, again and again
  bench/elastic.py GALLEY plans                       4, 2 and 3 processes, each by a plan of its own
  bench/elastic.py GALLEY snapshots --rounds 5        speed with an agent and snapshots against without, in turns
  bench/elastic.py GALLEY goodput --seconds 90        a kill every 30 s
  bench/elastic.py GALLEY clock                       the machine's clock jumps (it needs root, and a machine
                                                      that nobody else uses: the clock is set back afterwards)

It needs nothing but Python and galley. Processes are connected by MPICH where it is installed, else by TCP.
"""
import argparse, atexit, json, os, random, re, signal, socket, statistics, subprocess, sys, tempfile, time

# A step of some 10 ms and more, beside which the copy of 1.4 MB of state is less than 3 %.
MODEL = "--dim 64 --layers 2 --heads 4 --batch 16 --seq 128 --tokens 0".split()
TINY = "--dim 32 --layers 2 --heads 2 --batch 12 --seq 16 --threads 1 --tokens 0 --lr 1e-4".split()


def children(pid):
    """The processes that a process has started, and theirs."""
    out = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as f:
                for child in map(int, f.read().split()):
                    out += [child] + children(child)
    except (FileNotFoundError, ProcessLookupError):
        pass
    return out


def workers(agent):
    """The processes that train: those whose command line says so."""
    out = []
    for pid in children(agent):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if b"train" in words and b"launch" not in words:
            out.append(pid)
    return out


class Job:
    """A job that logs its steps, of one host unless others are added."""

    def __init__(self, galley, n, steps, elastic=True, train=MODEL, mesh=None, launch=("--elastic", "1:1")):
        self.dir = tempfile.mkdtemp()
        self.log = os.path.join(self.dir, "log.jsonl")
        self.name = f"bench{os.getpid()}-{os.path.basename(self.dir)}".replace("_", "-")
        flags = [*launch, "--job", self.name] if elastic else []
        spread = ["--mesh", mesh or f"dp={n}"] if mesh != "" else []
        self.command = [galley, "launch", *flags, "-n", str(n)]
        self.train = ["--", "train", *train, *spread, "--steps", str(steps), "--log", self.log]
        self.out = open(os.path.join(self.dir, "out"), "w")
        self.read, self.known, self.end, self.most = 0, [], b"", 0
        self.process = self.start()

    def start(self, *flags):
        """The agent of a host, or what starts the processes."""
        p = subprocess.Popen([*self.command, *flags, *self.train], stdout=self.out, stderr=self.out)
        atexit.register(lambda: p.poll() is None and p.kill())
        return p

    def said(self):
        """All that its processes have said."""
        with open(self.out.name) as f:
            return f.read().replace("\r", "\n")

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
                r = self.rows()
                if not r:
                    raise SystemExit(f"the job has ended:\n{self.said()[-2000:]}")
                return r
            time.sleep(0.005)
        raise SystemExit(f"nothing happened for {limit} s: {self.dir}")

    def stop(self):
        """Ends it after a step."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def after_epoch(r, epochs=0):
    """Whether a loss was logged after the line that says that another epoch began."""
    at = [i for i, x in enumerate(r) if "event" in x]
    return len(at) > epochs and any("loss" in x for x in r[at[-1] + 1:])


def kill_one(job):
    """Kills a process and waits for the next loss: the seconds, and how many steps were taken again."""
    epochs = sum("event" in x for x in job.rows())
    alive = workers(job.process.pid)
    if not alive:
        return None
    began = time.monotonic()
    os.kill(random.choice(alive), signal.SIGKILL)
    told = job.most
    r = job.wait(lambda r: after_epoch(r, epochs), 60)
    if not after_epoch(r, epochs):
        return None  # the run was over
    took = time.monotonic() - began
    at = [i for i, x in enumerate(r) if "event" in x][-1]
    first = next(x["step"] for x in r[at + 1:] if "loss" in x)
    return took, max(0, told + 1 - first)  # of those that were told before the kill


def undisturbed(a, last, **how):
    """The losses of a run of as many devices in one process that nothing happens to."""
    job = Job(a.galley, 1, a.steps, elastic=False, **how)  # the rate depends on the steps to come
    job.wait(lambda r: r and r[-1].get("step", 0) >= last, 3000)
    job.stop()
    return job.losses()


def kills(a):
    random.seed(a.seed)
    job = Job(a.galley, a.n, a.steps)
    job.wait(after_epoch)
    took, steps, end = [], [], time.monotonic() + a.seconds
    while len(took) < a.kills and job.process.poll() is None and time.monotonic() < end:
        time.sleep(random.uniform(0.05, 0.3))
        one = kill_one(job)
        if one:
            took.append(one[0])
            steps.append(one[1])
    job.stop()
    losses = job.losses()
    want = undisturbed(a, max(losses), mesh=f"dp={a.n}")
    wrong = sum(want.get(s) != x for s, x in losses.items())
    missing = max(losses) - len(losses)
    limit = (1, 3) if a.n <= 2 else (2, 5)
    good = statistics.median(took) <= limit[0] and max(took) <= limit[1] and max(steps) <= 1
    row(f"kill -9 of {a.n} processes, {len(took)} times", f"next loss {statistics.median(took):.2f} s median, "
        f"{max(took):.2f} s worst; at most {max(steps)} steps taken again, {sum(steps)} in all; {wrong} of "
        f"{len(losses)} losses differ, {missing} missing", f"≤ {limit[0]} s, ≤ {limit[1]} s, ≤ 1, 0, 0",
        good and not wrong and not missing)
    return 1 if wrong or missing else 0


SPREAD = re.compile(r"epoch \d+: (\d+) processes on .*; a step is spread by (.*)")


def plans(a):
    """Hosts of one process each: four, of which two leave and come back, and then another leaves."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    launch = ["--elastic", "1:4", "--etcd", f"embedded=h0@127.0.0.1:{port}"]
    # h0 has the store, and starts first: the command of the others is the same.
    job = Job(a.galley, 1, a.steps, train=TINY, mesh="", launch=[*launch, "--host", "h0"])
    job.command = [x for x in job.command if x not in ("--host", "h0")]
    hosts = {name: job.start("--host", name) for name in ("h1", "h2", "h3")}

    def becomes(*names):
        job.wait(lambda _: f": {len(names)} processes on {', '.join(names)}, " in job.said(), 60)
        epochs = sum("event" in x for x in job.rows())
        job.wait(lambda r: after_epoch(r, max(0, epochs - 1)), 60)
        at = job.most
        job.wait(lambda _: job.most >= at + a.each, 120)

    def leaves(name):
        hosts[name].send_signal(signal.SIGTERM)
        hosts[name].wait()

    becomes("h0", "h1", "h2", "h3")
    leaves("h2")
    leaves("h3")
    becomes("h0", "h1")
    for name in ("h2", "h3"):  # they wait where they share the cores of one machine
        hosts[name] = job.start("--host", name)
    time.sleep(1)
    leaves("h1")
    becomes("h0", "h2", "h3")
    leaves("h2")
    leaves("h3")
    job.stop()
    losses = job.losses()
    want = undisturbed(a, max(losses), train=TINY, mesh="")
    far = max(abs(x - want[s]) / abs(want[s]) for s, x in losses.items() if s in want)
    missing = max(losses) - len(losses)
    seen = {}
    for n, text in SPREAD.findall(job.said()):
        seen[n] = text
    row("plans of 4, 2 and 3 processes", f"losses differ by at most {far:.1e} of themselves; {len(losses)} steps, "
        f"{missing} missing: " + ", ".join(f"{n}: {seen.get(n, '?')}" for n in "423"), "≤ 1e-6, 0 missing",
        far <= 1e-6 and missing == 0 and len(set(seen.values())) >= 3)
    return 1 if missing or far > 1e-6 else 0


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


def taken(job):
    """What a run says of its snapshots."""
    return next((line.strip() for line in job.said().splitlines() if "snapshots after" in line), "")


def snapshots(a):
    train = "--dim 256 --layers 4 --heads 4 --batch 8 --seq 128 --tokens 0".split()
    took, used, note = {False: [], True: []}, {False: [], True: []}, ""
    for i in range(a.rounds):
        for elastic in (False, True) if i % 2 == 0 else (True, False):
            job = Job(a.galley, a.n, a.steps, elastic, train)
            used[elastic].append(used_by_step(job, WINDOW, a.steps - 10))
            job.process.wait()
            took[elastic].append(windows(job))
            note = taken(job) if elastic else note
    best = {e: min(min(w) for w in x) for e, x in took.items()}
    speed, cost = 100 * best[False] / best[True], 100 * min(used[False]) / min(used[True])
    row(f"speed with snapshots, {a.n} processes", f"{1e3 * best[True]:.1f} ms a step, {1e3 * best[False]:.1f} "
        f"without an agent: {speed:.1f}% (best {WINDOW} steps on end); by processor time {cost:.1f}%; {note}",
        "≥ 97%", speed >= 97)
    return 0


def goodput(a):
    random.seed(a.seed)
    rates = {False: [], True: []}
    for killing in (False, True, False):  # a machine may become slower or faster meanwhile
        job = Job(a.galley, a.n, 10**7)
        job.wait(after_epoch)
        seconds = a.seconds if killing else min(a.seconds, 15)
        began, first = time.monotonic(), len(job.losses())
        due = began + a.every / 2
        while time.monotonic() < began + seconds:
            time.sleep(0.2)
            alive = workers(job.process.pid)
            if killing and time.monotonic() > due and alive:
                os.kill(random.choice(alive), signal.SIGKILL)
                due += a.every
        rates[killing].append((len(job.losses()) - first) / (time.monotonic() - began))
        job.stop()
    rate = {k: statistics.mean(x) for k, x in rates.items()}
    part = 100 * rate[True] / rate[False]
    row(f"goodput, a kill every {a.every:.0f} s", f"{rate[True]:.1f} steps a second for {a.seconds:.0f} s, "
        f"{rate[False]:.1f} without kills: {part:.1f}%", "≥ 90%", part >= 90)
    return 0


def clock(a):
    """The machine's clock jumps an hour on and two back: no epoch ends, no step is lost."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    job = Job(a.galley, 2, a.steps, launch=["--elastic", "1:1", "--host", "h0", "--etcd",
                                            f"embedded=h0@127.0.0.1:{port}"])
    job.wait(after_epoch)
    try:
        for by in (3600, -7200, 3600):
            time.clock_settime(time.CLOCK_REALTIME, time.time() + by)
            at = job.most
            job.wait(lambda _: job.most > at + 3, 30)
            time.sleep(7)  # longer than a lease
    except PermissionError:
        job.stop()
        print("clock: it needs root, and a machine whose clock may be set")
        return 1
    job.stop()
    epochs, losses = sum("event" in x for x in job.rows() if "epoch" in str(x.get("event"))), job.losses()
    missing = max(losses) - len(losses)
    row("the clock jumps by +1, -2 and +1 hours", f"{epochs} epoch, {len(losses)} steps, {missing} missing",
        "1 epoch, 0 missing", epochs == 1 and not missing)
    return 0 if epochs == 1 and not missing else 1


def row(what, measured, wanted, good):
    """One line of the table."""
    print(f"| {what} | {measured} | {wanted} | {'yes' if good else 'NO'} | {os.getloadavg()[0]:.0f} |", flush=True)


def everything(a):
    began, code = time.monotonic(), 0
    for what, changes in ((kills, dict(n=2, seconds=30)), (kills, dict(n=4, seconds=30)), (plans, dict()),
                          (snapshots, dict(n=2, rounds=2, steps=120)), (goodput, dict(n=2, seconds=60))):
        code |= what(argparse.Namespace(**{**vars(a), "steps": STEPS[what.__name__], **changes}))
    print(f"{time.monotonic() - began:.0f} s, {os.cpu_count()} cores")
    return code


STEPS = {"kills": 10**7, "plans": 10**5, "snapshots": 150, "goodput": 10**7, "clock": 10**7, "everything": 0}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("galley")
    p.add_argument("what", choices=["all", "kills", "plans", "snapshots", "goodput", "clock"])
    p.add_argument("-n", type=int, default=2)
    p.add_argument("--kills", type=int, default=200)
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--each", type=int, default=40, help="steps of every plan")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=0)
    p.add_argument("--every", type=float, default=30)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    run = {"all": everything, "kills": kills, "plans": plans, "snapshots": snapshots, "goodput": goodput,
           "clock": clock}[a.what]
    a.steps = a.steps or STEPS[run.__name__]
    a.seconds = a.seconds or {"kills": 3600, "goodput": 90}.get(a.what, 0)
    a.galley = os.path.abspath(a.galley)
    print("| what | measured | wanted | reached | load |\n|---|---|---|---|---|", flush=True)
    return run(a)


if __name__ == "__main__":
    sys.exit(main())
