#!/bin/bash
# One training step in Galley, JAX and PyTorch on one GPU, one after another: run.sh GALLEY prints a JSON object a line.
# Galley runs first and last, so that a GPU that warms up is seen. ONLY=a or ONLY=b measures that one alone.
here=$(dirname "$0")
galley=${1:-galley}
a="--vocab 50304 --layers 12 --dim 768 --heads 12 --ffn 2048 --batch 32 --seq 1024"
b="--vocab 32000 --layers 16 --dim 2048 --heads 16 --ffn 5632 --batch 8 --seq 2048"
export ONLY=${ONLY:-ab}
step() { timeout 90 "$galley" bench step --backend xla --model llama --bf16 --runs 20 --json "$@"; }
ours() {
	[[ $ONLY == *a* ]] && step $a
	[[ $ONLY == *b* ]] && step $b
}
ours
timeout 120 python3 "$here/jax_step.py"
timeout 200 python3 "$here/torch_step.py"
ours
