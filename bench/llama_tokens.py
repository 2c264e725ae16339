"""The tokens of llama.cpp and of Galley from the same GGUF files, for every family and kind of weights that
is written.

Usage: bench/llama_tokens.py [DIR] [tokens]; FAMILIES and WEIGHTS choose some of them; DIR keeps node_modules
and models (bench-infer by default). A small model is trained on the embedded book, told to be of each family
and trained on, and written as GGUF. Galley continues a prompt greedily, and llama.cpp says for each of these
tokens which one it would have chosen after the same text: it writes the same text up to the first that
differs. Where choices differ, the line says by how much each side prefers its own. With f32 llama.cpp keeps
keys and values in f32, too: what is left then is the order of sums. Weights in capitals, F16 or Q4_K_M, are
those of files that llama.cpp writes of Galley's f32. Needs Go, node, npm's registry, and Linux on x64 for the
last.

Exits with 1 where a choice differs by more than rounding explains: by more than twice the largest difference
of a log-probability in the places where both choose the same.
"""
import json
import os
import re
import subprocess
import sys
import urllib.request

sys.dont_write_bytecode = True
import llama_families

WEIGHTS = os.environ.get("WEIGHTS", "f32 f16 bf16 int8 int4 F16 Q4_K_M").split()
PROMPT = "Call me"


def run(*args, cwd=None, input=None):
    return subprocess.run(args, check=True, stdout=subprocess.PIPE, cwd=cwd, input=input).stdout


def ours(galley, file, count):
    """Returns Galley's tokens, and the log-probabilities of its first choices for each."""
    server = subprocess.Popen([galley, "serve", file, "--port=0", "--threads=1"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    try:
        at = None
        while at is None:
            line = server.stdout.readline()
            if not line:
                raise SystemExit(f"{file}: galley serve ended")
            at = re.search(r"http://[\w.:]+", line)
        body = {"prompt": PROMPT, "max_tokens": count, "temperature": 0, "logprobs": 8}
        ask = urllib.request.Request(at.group() + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
        with urllib.request.urlopen(ask) as answer:
            top = json.load(answer)["choices"][0]["logprobs"]["top_logprobs"]
    finally:
        server.terminate()
        server.wait()
    text = run(galley, "generate", file, "--prompt", PROMPT, "--temperature", "0", f"--tokens={count}",
               "--threads=1").removeprefix(PROMPT.encode())
    # A byte that is no character by itself has no name among the choices.
    named = [{ord(k): v for k, v in t.items() if len(k) == 1 and ord(k) < 128} for t in top]
    return list(text[:count]), named


def compare(tokens, mine, theirs):
    """Returns the places where choices differ, as (place, our preference, theirs), and the largest and the
    mean difference of a log-probability in the others, for tokens that are likelier than 1/10000."""
    apart, noise = [], []
    for i, (token, a, b) in enumerate(zip(tokens, mine, map(dict, theirs))):
        choice = max(b, key=b.get)
        if choice != token:
            apart.append((i, a[token] - a.get(choice, -99), b[choice] - b.get(token, -99)))
            continue
        noise += [abs(a[t] - b[t]) for t in a if t in b and a[t] > -9.2]
    return apart, max(noise), sum(noise) / len(noise)


def report(name, dir, galley, file, count):
    """Prints a line and returns whether rounding explains every difference."""
    tokens, mine = ours(galley, file, count)
    cache = "F32" if file.endswith("-f32.gguf") else "F16"
    theirs = json.loads(run("node", "llama_tokens.mjs", file, "1", cache, PROMPT, cwd=dir,
                            input=json.dumps(tokens).encode()))
    apart, most, mean = compare(tokens, mine, theirs)
    first = apart[0][0] if apart else len(tokens)
    line = f"{name}: the first {first} of {len(tokens)} tokens are the same, {len(apart)} choices differ; " \
           f"log-probabilities differ by {mean:.1e}, at most {most:.1e}"
    for i, a, b in apart[:5]:
        line += f"\n  token {i}: Galley prefers its own by {a:.1e}, llama.cpp by {b:.1e}"
    print(line, flush=True)
    return len(tokens) == count and all(a + b <= 2 * most for _, a, b in apart)


def write(here, dir, galley, model, file, weights):
    if weights == weights.lower():
        run(galley, "quantize", model, file, "--weights", weights)
        return
    run(galley, "quantize", model, model + "-f32.gguf", "--weights", "f32")
    libraries = dir + "/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"
    run(sys.executable, here + "/llama_quantize.py", libraries, model + "-f32.gguf", file, weights)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    dir = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "bench-infer")
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    os.makedirs(dir, exist_ok=True)
    galley = dir + "/galley"
    run("go", "build", "-o", galley, "./cmd/galley", cwd=here + "/..")
    if not os.path.isdir(dir + "/node_modules/node-llama-cpp"):
        run("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "node-llama-cpp@3.22.1", cwd=dir)
    with open(here + "/llama_tokens.mjs") as f, open(dir + "/llama_tokens.mjs", "w") as g:
        g.write(f.read())
    base = dir + "/small-llama"
    if not os.path.isdir(base):
        run(galley, "train", "--steps", "600", "--batch", "8", "--seq", "64", "--tokens", "0", "--save", base)
    wrong = 0
    for family in os.environ.get("FAMILIES", " ".join(llama_families.ALL)).split():
        model = base
        if family != "llama":
            model = f"{dir}/small-{family}"
            if not os.path.isdir(model):
                llama_families.as_family(base, model + "-first", family)
                run(galley, "train", "--model", model + "-first", "--steps", "60", "--batch", "8", "--seq",
                    "64", "--tokens", "0", "--save", model)
        for w in WEIGHTS:
            file = f"{model}-{w}.gguf"
            write(here, dir, galley, model, file, w)
            wrong += not report(f"{family} {w}", dir, galley, file, count)
    sys.exit(1 if wrong else 0)


main()
