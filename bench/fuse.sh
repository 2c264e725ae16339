#!/usr/bin/env bash
# Functions in primitive ops: Galley op by op, as loops and by hand, beside PyTorch's eager ops, in one run.
# PYTHON names a Python that has PyTorch, GALLEY a binary that is built already (else Go builds one).
#
#   bash bench/fuse.sh                                   all rows: minutes
#   ROUNDS=2 SIZES=512x256 THREADS=1 bash bench/fuse.sh
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-/usr/bin/python3}
if ! "$python" -c 'import torch' 2>/dev/null; then
  echo "bench/fuse.sh: $python has no PyTorch: set PYTHON to one that has" >&2
  exit 1
fi
galley=${GALLEY:-}
if [ -z "$galley" ]; then
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' EXIT
  galley=$dir/galley
  go build -o "$galley" ./cmd/galley
fi
"$python" bench/fuse.py "$galley" "${ROUNDS:-5}" "${SIZES:-2048x1024,4096x4096}" "${THREADS:-1,2}"
