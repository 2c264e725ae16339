#!/usr/bin/env python3
"""How far the strategy that galley plan --probe chooses is from the best of all its candidates.

  bench/probe.py GALLEY --devices 2 --seconds 30      in-process devices
  bench/probe.py GALLEY --processes 2 --seconds 30    processes of galley launch

Probes as a user would, once or --rounds times, then measures every candidate for as long as --reference says,
in turns. The choice is held against that second measurement. It needs nothing but Python and galley.
"""
import argparse, json, os, re, subprocess, sys, tempfile

MODEL = {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 4,
         "intermediate_size": 704, "vocab_size": 512, "max_position_embeddings": 256}
UNIT = {"s": 1, "ms": 1e-3, "µs": 1e-6}
ROW = re.compile(r"^ {2}(\S.*?) {2,}.* predicted, +([0-9.]+) (s|ms|µs) measured in (\d+) steps")
END = re.compile(r"probing took ([0-9.]+) (s|ms) of at most ([0-9.]+) (s|ms|min).*chose (.*)$")


def probe(a, seconds, every):
    """The seconds of a step by strategy, the choice, and how long probing took."""
    launch = ["launch", "-n", str(a.processes), "--"] if a.processes else []
    args = ["plan", a.dir, "--probe", "--batch", "16", "--seq", "128", "--probe-time", f"{seconds}s",
            "--learned", os.path.join(a.dir, "learned.yaml")] + (["--probe-all"] if every else [])
    if a.devices:
        args += ["--devices", str(a.devices)]
    text = subprocess.run([a.galley, *launch, *args], check=True, capture_output=True, text=True).stdout
    if a.verbose:
        print(text, flush=True)
    seen, choice, took = {}, None, None
    for line in text.splitlines():
        if m := ROW.match(line):
            seen[m[1]] = float(m[2]) * UNIT[m[3]]
        elif m := END.search(line):
            took, choice = float(m[1]) * UNIT[m[2]], m[5]
    if choice not in seen:
        raise SystemExit(f"no choice in\n{text}")
    return seen, choice, took


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("galley")
    p.add_argument("--devices", type=int, default=0)
    p.add_argument("--processes", type=int, default=0)
    p.add_argument("--seconds", type=int, default=30, help="how long probing may take")
    p.add_argument("--reference", type=int, default=60, help="how long the candidates are measured afterwards")
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("-v", "--verbose", action="store_true")
    a = p.parse_args()
    a.galley, a.dir = os.path.abspath(a.galley), tempfile.mkdtemp()
    with open(os.path.join(a.dir, "config.json"), "w") as f:
        json.dump(MODEL, f)
    worst = 0
    for _ in range(a.rounds):
        _, choice, took = probe(a, a.seconds, False)
        seen, best, _ = probe(a, a.reference, True)
        if choice not in seen:
            raise SystemExit(f"{choice} was not measured again: --reference is too short")
        lost = 100 * (seen[choice] / seen[best] - 1)
        worst = max(worst, lost)
        print(f"probing took {took:.1f} s of at most {a.seconds}: {choice}, {1e3 * seen[choice]:.1f} ms a step "
              f"afterwards; best of {len(seen)}: {best}, {1e3 * seen[best]:.1f} ms: {lost:.1f}% lost; "
              f"load {os.getloadavg()[0]:.0f}", flush=True)
    return 0 if worst <= 2 else 1


if __name__ == "__main__":
    sys.exit(main())
