"""Runs what bench/infer.sh has made: Galley, llama.cpp and PyTorch in turns, and prints the best of each."""
import json
import os
import subprocess
import sys

PAIRS = [("bf16", "f16"), ("int8", "int8"), ("int4", "int4")]  # Galley's weights beside llama.cpp's f16, Q8_0, Q4_0


def galley(dir, shape, weights, threads, prompt, tokens, sequences):
    out = subprocess.run([f"{dir}/galley", "bench", "decode", "--model", f"{dir}/{shape}", "--weights", weights, "--json",
                          f"--threads={threads}", f"--prompt={prompt}", f"--runs={tokens}", f"--sequences={sequences}"],
                         check=True, stdout=subprocess.PIPE).stdout
    r = json.loads(out)
    return {"prefill": r["prefill_tokens_per_s"], "decode": r["tokens_per_s"], "read": r["read_gb_per_s"],
            "share": r["share_of_read"], "cpu": r["cpu_ms_per_token"], "cpu_share": r["cpu_share_of_read"]}


def llama(dir, shape, weights, threads, prompt, tokens, sequences):
    out = subprocess.run(["node", f"{dir}/infer.mjs", f"{dir}/{shape}-{weights}.gguf", str(threads), str(prompt),
                          str(tokens), str(sequences)], check=True, stdout=subprocess.PIPE, cwd=dir).stdout
    return json.loads(out)


def torch(dir, shape, threads, prompt, tokens):
    here = os.path.dirname(os.path.abspath(__file__))
    out = subprocess.run(["/usr/bin/python3", f"{here}/infer_torch.py", f"{dir}/{shape}", str(threads), str(prompt),
                          str(tokens)], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(out)


def has_torch():
    try:
        return subprocess.run(["/usr/bin/python3", "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def best(runs, key):
    return max(r[key] for r in runs)


def least(runs):
    return min(r["cpu"] for r in runs)


def main():
    dir, rounds = sys.argv[1], int(sys.argv[2])
    shapes = os.environ.get("SHAPES", "1.1B 134M").split()
    counts = [int(x) for x in os.environ.get("THREADS", "1 2").split()]
    prompts = [int(x) for x in os.environ.get("PROMPTS", "128 512 2048").split()]
    tokens = int(os.environ.get("TOKENS", "24"))
    peer = has_torch()
    if not peer:
        print("PyTorch: not installed: apt-get install -y python3-torch")
    for shape in shapes:
        for threads in counts:
            cases = [(p, 1) for p in prompts] + [(prompts[0], 8)]
            for prompt, sequences in cases:
                for ours, theirs in PAIRS:
                    row = (shape, threads, prompt, sequences, ours, theirs)
                    compare(dir, row, tokens, rounds)
                if peer and sequences == 1:
                    versus_torch(dir, shape, threads, prompt, tokens, rounds)


def compare(dir, row, tokens, rounds):
    shape, threads, prompt, sequences, ours, theirs = row
    a, b = [], []
    for _ in range(rounds):
        a.append(galley(dir, shape, ours, threads, prompt, tokens, sequences))
        b.append(llama(dir, shape, theirs, threads, prompt, tokens, sequences))
    d, e = best(a, "decode"), best(b, "decode")
    p, q = best(a, "prefill"), best(b, "prefill")
    print(f"{shape} {threads} thread(s), prompt {prompt}, {sequences} sequence(s), {ours} beside {theirs}: "
          f"decode {d:.1f} and {e:.1f} tokens/s, ratio {d / e:.2f}; prefill {p:.1f} and {q:.1f}, ratio {p / q:.2f}; "
          f"a step at {best(a, 'share'):.2f} of {best(a, 'read'):.1f} GB/s read; processor time "
          f"{least(a):.2f} and {least(b):.2f} ms a token, ratio {least(b) / least(a):.2f}, "
          f"{best(a, 'cpu_share'):.2f} of a read's", flush=True)


def versus_torch(dir, shape, threads, prompt, tokens, rounds):
    a, b = [], []
    for _ in range(rounds):
        a.append(galley(dir, shape, "bf16", threads, prompt, tokens, 1))
        b.append(torch(dir, shape, threads, prompt, tokens))
    d, e = best(a, "decode"), best(b, "decode")
    p, q = best(a, "prefill"), best(b, "prefill")
    print(f"{shape} {threads} thread(s), prompt {prompt}, bf16 beside PyTorch's bf16: decode {d:.1f} and {e:.1f} "
          f"tokens/s, ratio {d / e:.2f}; prefill {p:.1f} and {q:.1f}, ratio {p / q:.2f}", flush=True)


main()
