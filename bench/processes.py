#!/usr/bin/env python3
"""Figures of several processes, each by turns with what it is compared with; the best of the rounds counts.

    bench/processes.py [GALLEY] [comm] [speed] [context] [memory] [overlap] [--seconds 220]

    comm     all-reduces between two processes beside MPI_Allreduce, gloo and two devices of one process
    speed    train --mesh dp=2 --zero 1 in two processes against one: want >= 0.97, and losses to the bit
    context  cp=2 on 16k tokens, two processes of a core each against one: want >= 1.7, and memory halved
    memory   of a process with a half and a quarter of dp=4: want at most 1/n of one process's + 64 MiB
    overlap  --overlap on against off over 1 Gbit/s between two namespaces, data parallel: want >= 1.10; and
             with --zero 1, whose weights are gathered behind the update (root and MPICH; only if named)

It needs the galley command, MPICH or Open MPI, and a machine with two cores and nothing else to do: what runs
keeps to two cores (one for what has one), so that a larger machine tells the same. PyTorch, if there, brings
gloo. --seconds is about how long all of it may take: rounds are left out where they would take longer.
"""
import collections, json, os, random, re, shutil, statistics, subprocess, sys, tempfile, threading, time

here = os.path.dirname(os.path.abspath(__file__))
environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
sizes = "64,4096,65536,1048576,4194304,67108864"


def tell(line):
    print(line, flush=True)


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def cores():
    """Two threads of the machine that are on different cores, if there are such."""
    list_, seen = [], set()
    for cpu in sorted(os.sched_getaffinity(0)):
        try:
            core = open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read()
        except OSError:
            core = str(cpu)
        if core not in seen:
            seen.add(core)
            list_.append(cpu)
    list_ += sorted(os.sched_getaffinity(0) - set(list_))
    if len(list_) < 2:
        sys.exit("processes.py: this machine has one core: want two")
    return list_[:2]


def start(command, on, **more):
    return subprocess.Popen(command, env=environment, preexec_fn=lambda: os.sched_setaffinity(0, on), **more)


def output(command, on):
    p = start(command, on, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = p.communicate()
    if p.returncode:
        sys.exit(f"processes.py: {' '.join(command)}: {(out + err).strip()[-800:]}")
    return out.replace("\r", "")


def below(pid):
    """A process and all that it has started."""
    yield pid
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in open(f"/proc/{pid}/task/{task}/children").read().split():
                yield from below(int(child))
    except OSError:
        pass


class Peak(threading.Thread):
    """The most memory, in MiB, that the largest process of a command has had: all, and without the command,
    its libraries and what processes share."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.most, self.own, self.over = pid, 0, 0, threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.2):
            for pid in list(below(self.pid)):
                try:
                    for line in open(f"/proc/{pid}/status"):
                        if line.startswith("VmHWM"):
                            self.most = max(self.most, int(line.split()[1]) // 1024)
                        elif line.startswith("RssAnon"):
                            self.own = max(self.own, int(line.split()[1]) // 1024)
                except OSError:
                    pass


def train(flags, processes, on):
    """A run: seconds of a step, tokens a second, losses and the most memory of a process."""
    with tempfile.TemporaryDirectory() as dir_:
        log = os.path.join(dir_, "run.jsonl")
        command = [galley] + (["launch", "-n", str(processes), "--"] if processes > 1 else [])
        command += ["train", "--tokens", "0", "--log", log] + flags.split()
        p = start(command, on, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        peak = Peak(p.pid)
        out, _ = p.communicate()
        peak.over.set()
        if p.returncode:
            sys.exit(f"processes.py: {' '.join(command)}: {out.strip()[-800:]}")
        steps = [r for r in map(json.loads, open(log)) if "loss" in r and "seconds" in r]
    took = [b["seconds"] - a["seconds"] for a, b in zip(steps, steps[1:])]
    each = (steps[-1]["tokens"] - steps[0]["tokens"]) / len(took)
    return {"rate": each / statistics.median(took), "losses": [r["loss"] for r in steps], "peak": peak.most,
            "own": peak.own}


def rounds(share, most, runs):
    """What runs return, by turns, as often as a share of the time allows and once at least."""
    until = time.time() + share * seconds
    got = [[] for _ in runs]
    for n in range(most):
        began = time.time()
        for k, run in enumerate(runs):
            got[k].append(run())
        if time.time() + (time.time() - began) > until:
            break
    return got


def compare(name, a, b, want):
    x, y = max(r["rate"] for r in a), max(r["rate"] for r in b)
    each = ", ".join(f"{p['rate'] / q['rate']:.3f}" for p, q in zip(a, b))
    tell(f"{name}: {x:.0f} and {y:.0f} tokens/s: {x / y:.3f} times (want {want}); by rounds {each}")


def speed():
    flags = "--steps 40 --mesh dp=2 --zero 1"
    two, one = rounds(0.3, 8, [lambda: train(flags, 2, pair), lambda: train(flags, 1, pair)])
    compare("speed: dp=2 --zero 1, two processes and one", two, one, ">= 0.97")
    same = all(r["losses"] == one[0]["losses"] for r in two + one)
    tell("speed: losses are " + ("the same to the bit" if same else "NOT THE SAME"))


def context():
    flags = "--steps 4 --seq 16384 --batch 1 --dim 128 --layers 2 --heads 4 --threads 1"
    runs = [lambda: train(flags + " --mesh cp=2", 2, pair), lambda: train(flags, 1, pair[:1])]
    two, one = rounds(0.3, 3, runs)
    compare("context: cp=2 on 16k tokens, two processes of a core each and one", two, one, ">= 1.7")
    x, y = planned(flags + " --mesh cp=2"), planned(flags + " --mesh dp=1")
    tell(f"context: {x:.0f} MiB a device by its plan and {y:.0f}: {x / y:.2f} times")
    for what, key in ("its own", "own"), ("and of the command, libraries and what is shared", "peak"):
        x, y = max(r[key] for r in two), max(r[key] for r in one)
        tell(f"context: {x} MiB a process, {what}, and {y}: {x / y:.2f} times; "
             f"{y / 2 + 64:.0f} is half and 64")
    short = flags.replace("--steps 4", "--steps 400").replace("--seq 16384", "--seq 64")
    base = [train(short + " --mesh cp=2", 2, pair)["peak"], train(short, 1, pair[:1])["peak"]]
    x, y = x - base[0], y - base[1]
    tell(f"context: {x} and {y} MiB more than with 64 tokens, {base[0]} and {base[1]}: {x / y:.2f} times")


def planned(flags):
    """How much memory, in MiB, a device of a run takes by its plan."""
    text = output([galley, "train", "--tokens", "0", "--dry-run"] + flags.split(), pair)
    return int(re.search(r"takes at most (\d+) bytes", text)[1]) / 2**20


def memory():
    flags = "--steps 2 --dim 768 --layers 8 --heads 12 --batch 4 --seq 64 --mesh dp=4 --zero 1"
    peaks = {n: train(flags, n, set(os.sched_getaffinity(0)))["peak"] for n in (1, 2, 4)}
    for n in (2, 4):
        most = peaks[1] / n + 64
        tell(f"memory: {peaks[n]} MiB in each of {n} processes, {peaks[1]} in one: {peaks[n] / most:.2f} of "
             f"1/{n} of it + 64, {most:.0f} (want <= 1)")


def launchers():
    """Libraries by how two processes are started with them."""
    found = {}
    if shutil.which("mpiexec.hydra"):
        found["MPICH"] = ["mpiexec.hydra", "-n", "2"]
    for name in ("mpirun.openmpi", "mpirun"):
        if shutil.which(name) and "Open MPI" not in found:
            version = subprocess.run([name, "--version"], capture_output=True, env=environment).stdout
            if b"Open MPI" in version or b"OpenRTE" in version:
                found["Open MPI"] = [name, "-n", "2", "--oversubscribe", "--bind-to", "none"]
    return found


def gloo():
    port = str(random.randrange(20000, 40000))
    other = start([sys.executable, f"{here}/gloo.py", "1", port, sizes], pair)
    got = lines(output([sys.executable, f"{here}/gloo.py", "0", port, sizes], pair))
    other.wait()
    return got


def comm():
    table = collections.defaultdict(lambda: collections.defaultdict(list))
    turns = []
    for name, launcher in launchers().items():
        command = launcher + [galley, "bench", "comm", "--json", "--bytes", sizes]
        turns.append((name, lambda command=command: lines(output(command, pair))))
    torch = subprocess.run([sys.executable, "-c", "import torch.distributed"], capture_output=True)
    if torch.returncode == 0:
        turns.append(("gloo", gloo))
    for (name, _), runs in zip(turns, rounds(0.25, 3, [t for _, t in turns])):
        for r in sum(runs, []):
            row = table[r["bytes"]]
            if name == "gloo":
                row["gloo"].append(r["gloo_us"])
                continue
            row["in one process"].append(r["in_process_us"])
            row["galley, " + name].append(r["galley_us"])
            row["MPI_Allreduce, " + name].append(r["mpi_allreduce_us"])
    columns = list(dict.fromkeys(c for row in table.values() for c in row))
    print("| bytes, µs | " + " | ".join(columns) + " |\n|---" + "|---" * len(columns) + "|")
    middle = {n: {c: statistics.median(v) for c, v in table[n].items()} for n in sorted(table)}
    for n, row in middle.items():
        tell(f"| {n} | " + " | ".join(f"{row[c]:.1f}" for c in columns) + " |")
    for n, row in middle.items():
        pairs = [(c, other) for c in row if c.startswith("galley, ")
                 for other in (c.replace("galley", "MPI_Allreduce"), "gloo") if other in row]
        tell(f"comm: {n} bytes: " + "; ".join(f"{a} {row[a] / row[b]:.2f} of {b}" for a, b in pairs)
             + (" (want <= 1)" if n >= 4 << 20 else ""))


def overlap():
    link = "tbf rate 1gbit burst 1mb latency 50ms"

    def over(mesh, mode, shape=link):
        with tempfile.TemporaryDirectory() as dir_:
            log = os.path.join(dir_, "run.jsonl")
            hosts = [f"{here}/namespaces.sh", shape, "mpiexec.hydra", "-n", "2", f"{here}/onhost.sh"]
            flags = f"--steps 20 --mesh {mesh} --threads 1 --overlap {mode}".split()
            output(hosts + [galley, "train", "--tokens", "0", "--log", log] + flags, pair)
            steps = [r for r in map(json.loads, open(log)) if "loss" in r and "seconds" in r]
        took = [b["seconds"] - a["seconds"] for a, b in zip(steps, steps[1:])]
        return {"rate": (steps[1]["tokens"] - steps[0]["tokens"]) / statistics.median(took)}

    for mesh, share, want in ("dp=2", 0.4, ">= 1.10"), ("dp=2 --zero 1", 0.2, "half of it"):
        on, off, free = rounds(share, 5, [lambda: over(mesh, "on"), lambda: over(mesh, "off"),
                                          lambda: over(mesh, "off", "none")])
        compare(f"overlap: {mesh}, on and off over 1 Gbit/s", on, off, want)
        bound = max(r["rate"] for r in free) / max(r["rate"] for r in off)
        tell(f"overlap: {mesh}: {bound:.3f} times is all that could be hidden: what the link costs with off")


figures = {"comm": comm, "speed": speed, "context": context, "memory": memory, "overlap": overlap}
galley, seconds, names, args = "galley", 220.0, [], sys.argv[1:]
while args:
    arg = args.pop(0)
    if arg in ("-h", "--help"):
        sys.exit(__doc__)
    elif arg == "--seconds" and args:
        seconds = float(args.pop(0))
    elif arg in figures:
        names.append(arg)
    elif shutil.which(arg):
        galley = os.path.abspath(shutil.which(arg))
    else:
        sys.exit(f"processes.py: {arg}: want galley's path, --seconds N, or some of {', '.join(figures)}")
pair = cores()
for name in names or ["comm", "speed", "context", "memory"]:
    figures[name]()
