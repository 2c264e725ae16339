#!/usr/bin/python3
"""Runs Galley and its CPU peers in turns and prints a table of ratios. Called by cpu.sh.

PYTHON is the interpreter that has PyTorch; /usr/bin/python3 by default."""
import json
import os
import re
import subprocess
import sys

GALLEY, ROUNDS = sys.argv[1], int(sys.argv[2])
HERE = os.path.dirname(os.path.abspath(__file__))
OPENMP = "/usr/lib/x86_64-linux-gnu/openblas-openmp"


def galley(*args):
    return json.loads(subprocess.run([GALLEY, "bench", *args, "--json"], capture_output=True, text=True, check=True).stdout)


def torch(threads, *args):
    env = dict(os.environ)
    if "avx512f" in open("/proc/cpuinfo").read():  # OpenBLAS 0.3.21 takes newer Xeons for a Pentium: help it
        env.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
    if threads > 1:  # PyTorch's threads and OpenBLAS's own fight over the cores unless both are OpenMP's
        env["LD_LIBRARY_PATH"] = OPENMP
    cmd = [os.environ.get("PYTHON", "/usr/bin/python3"), os.path.join(HERE, "torch_peer.py"), "--threads", str(threads), "--blas-threads", str(threads), *args]
    return subprocess.run(cmd, capture_output=True, text=True, check=True, env=env).stdout


def main():
    gemm, step = {}, {}
    for _ in range(ROUNDS):
        for threads in (1, 2):
            out = torch(threads)
            for n, best in re.findall(r"sgemm n=(\d+): best ([\d.]+)", out):
                key = (int(n), threads)
                ours = galley("gemm", "--n", n, "--threads", str(threads))["gflops"]
                a, b = gemm.get(key, (0, 0))
                gemm[key] = (max(a, ours), max(b, float(best)))
            peer = float(re.search(r"train step: best (\d+) ms", out).group(1))
            ours = galley("step", "--threads", str(threads))
            a, b, _ = step.get(threads, (1e9, 1e9, 0))
            step[threads] = (min(a, ours["best_ms"]), min(b, peer), ours["peak_bytes"])
    print(f"{'':28}{'galley':>12}{'peer':>12}{'ratio':>8}")
    for (n, threads), (a, b) in sorted(gemm.items()):
        print(f"sgemm n={n} threads={threads}".ljust(28) + f"{a:8.1f} GF/s{b:8.1f} GF/s{a / b:8.2f}")
    for threads, (a, b, peak) in sorted(step.items()):
        print(f"train step threads={threads}".ljust(28) + f"{a:9.1f} ms{b:9.1f} ms{b / a:9.2f}   (galley's peak {peak / 1e6:.0f} MB)")


main()
