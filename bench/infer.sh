#!/usr/bin/env bash
# Generation by Galley beside llama.cpp (npm's node-llama-cpp) and PyTorch on this machine, in one run, with a loop
# that reads memory in turns: prints tokens a second of each and the ratios.
#
# Usage: bench/infer.sh [DIR] [rounds]
#   DIR     where models (5 GB for 1.1B) and node_modules are kept from one run to the next; bench-infer by default
#   SHAPES  "1.1B 134M" by default; THREADS "1 2"; PROMPTS "128 512 2048"; TOKENS 24 timed tokens
# Needs node (20 or later) and npm's registry for node-llama-cpp, whose binary comes with it. PyTorch is Debian's
# python3-torch, and is left out where it is not installed. Rounds are interleaved; the best of each side counts.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(realpath -m "${1:-bench-infer}")
rounds=${2:-3}
mkdir -p "$dir"
go build -o "$dir/galley" ./cmd/galley
if [ ! -d "$dir/node_modules/node-llama-cpp" ]; then
  (cd "$dir" && npm init -y >/dev/null && npm install --ignore-scripts --no-audit --no-fund node-llama-cpp@3.22.1)
fi
cp bench/infer.mjs "$dir/infer.mjs"
shape() {
  case $1 in
    1.1B) echo --layers 22 --dim 2048 --heads 32 --kv-heads 4 --ffn 5632 --vocab 32000 ;;
    134M) echo --layers 12 --dim 768 --heads 12 --kv-heads 12 --ffn 3072 --vocab 32000 ;;
    *) echo "SHAPES: $1: want 1.1B or 134M" >&2; exit 1 ;;
  esac
}
for s in ${SHAPES:-1.1B 134M}; do
  if [ ! -d "$dir/$s" ]; then
    flags=$(shape "$s")
    # shellcheck disable=SC2086
    "$dir/galley" bench decode --write "$dir/$s" $flags
  fi
  for w in f16 int8 int4; do
    [ -f "$dir/$s-$w.gguf" ] || "$dir/galley" quantize "$dir/$s" "$dir/$s-$w.gguf" --weights "$w"
  done
done
exec python3 bench/infer.py "$dir" "$rounds"
