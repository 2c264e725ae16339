#!/usr/bin/env bash
# Galley beside OpenBLAS and PyTorch on this machine, in one run: prints both and the ratio.
# Needs Debian's python3-torch, python3-numpy and libopenblas0-openmp:
#   apt-get install -y python3-torch python3-numpy libopenblas0-openmp
# Usage: bench/cpu.sh [rounds]. Rounds are interleaved, so that a noisy minute hits both sides; the best of each counts.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -o "$bin/galley" ./cmd/galley
exec /usr/bin/python3 bench/cpu.py "$bin/galley" "$rounds"
